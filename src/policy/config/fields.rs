//! The fields of one map.

use super::spelling;
use super::value::Value;
use super::words::{alternatives, quoted};
use crate::node::Node;

/// Most fields of one map that are looked at; no map of the grammar has half as many.
const ENTRIES_MAX: usize = 64;

/// The fields of one map, none of them unknown or repeated without a fault.
pub(super) struct Fields<'a> {
    owner: Value<'a>,
    entries: &'a [(Box<str>, Node)],
    /// Fields that a misspelt one probably meant: that they are missing is no second fault.
    meant: Vec<&'static str>,
}

// === impl Fields ===

impl<'a> Fields<'a> {
    #[inline(never)]
    pub(super) fn new(
        owner: Value<'a>,
        entries: &'a [(Box<str>, Node)],
        known: &'static [&'static str],
    ) -> Self {
        let mut fields = Fields { owner, entries, meant: Vec::new() };
        if ENTRIES_MAX < entries.len() {
            fields.owner.fault(format!("expected at most {ENTRIES_MAX} fields, found {}", entries.len()));
        }
        let mut repeated: Vec<&str> = Vec::new();
        for (index, (name, _)) in entries.iter().take(ENTRIES_MAX).enumerate() {
            let before = entries.iter().take(index).filter(|(earlier, _)| earlier == name).count();
            match before {
                0 if !known.contains(&&**name) => fields.unknown(name, known),
                1 => repeated.push(name),
                _ => {}
            }
        }
        for name in repeated {
            fields.owner.fault(format!("field {} stands here twice", tick(name)));
        }
        fields
    }

    fn unknown(&mut self, name: &str, known: &'static [&'static str]) {
        let hint = match spelling::nearest(name, known) {
            Some(near) => {
                self.meant.push(near);
                format!("did you mean `{near}`?")
            }
            None => format!("expected {}", alternatives(known.iter().copied())),
        };
        self.owner.fault(format!("unknown field {}; {hint}", tick(name)));
    }

    /// The map itself.
    pub(super) fn owner(&self) -> &Value<'a> {
        &self.owner
    }

    #[inline(never)]
    pub(super) fn get(&self, name: &str) -> Option<Value<'a>> {
        let entries = self.entries.iter().take(ENTRIES_MAX);
        let (index, (_, node)) = entries.enumerate().find(|(_, (key, _))| **key == *name)?;
        Some(self.owner.child(index, node))
    }

    pub(super) fn required<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&Value<'a>) -> Option<T>,
    ) -> Option<T> {
        match self.get(name) {
            Some(value) => read(&value),
            None => self.missing(&[name]),
        }
    }

    pub(super) fn or<T>(
        &self,
        name: &'static str,
        default: T,
        read: impl FnOnce(&Value<'a>) -> Option<T>,
    ) -> Option<T> {
        match self.get(name) {
            Some(value) => read(&value),
            None => Some(default),
        }
    }

    /// `Some(None)` if the field is not there.
    pub(super) fn optional<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&Value<'a>) -> Option<T>,
    ) -> Option<Option<T>> {
        match self.get(name) {
            Some(value) => read(&value).map(Some),
            None => Some(None),
        }
    }

    /// The one of `names` that is there; none and several are faults.
    #[inline(never)]
    pub(super) fn one_of(&self, names: &[&'static str]) -> Option<(&'static str, Value<'a>)> {
        match self.at_most_one_of(names)? {
            Some(found) => Some(found),
            None => self.missing(names),
        }
    }

    /// The one of `names` that is there, if any; several are a fault.
    #[inline(never)]
    pub(super) fn at_most_one_of(&self, names: &[&'static str]) -> Option<Option<(&'static str, Value<'a>)>> {
        let mut found = names.iter().filter_map(|&name| self.get(name).map(|value| (name, value)));
        let first = found.next();
        if let (Some((first, _)), Some((second, _))) = (&first, found.next()) {
            self.owner.fault(format!("`{first}` and `{second}` exclude each other"));
            return None;
        }
        Some(first)
    }

    fn missing<T>(&self, names: &[&'static str]) -> Option<T> {
        self.lacks(names);
        None
    }

    #[inline(never)]
    fn lacks(&self, names: &[&'static str]) {
        if !names.iter().any(|name| self.meant.contains(name)) {
            self.owner.fault(format!("missing {}", alternatives(names.iter().copied())));
        }
    }
}

/// A field's name as code if it is plain, else as quoted text.
fn tick(name: &str) -> String {
    match quoted(name) {
        quoted if quoted.len() == name.len() + 2 && !name.is_empty() => format!("`{name}`"),
        quoted => quoted,
    }
}
