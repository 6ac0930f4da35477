//! A value of the document, where it stands, and the log its faults go to.
//!
//! Readers give `Option`: `None` means that the fault is in the log already. A reader of a map asks for all its
//! fields first and looks at the answers then, so that one fault hides no other.
//!
//! A document is read once in a long while, and the module is loaded by every Envoy: what readers share is kept out of
//! line, since copies of it in each reader would make half of the module's code.

use std::ops::RangeInclusive;

use super::fault::Log;
use super::fields::Fields;
use super::scalar::{self, RateError};
use super::spelling;
use super::trail::Place;
use super::words::{alternatives, example, found, group, is_name, quoted, spell_us, whole};
use crate::limit::Rate;
use crate::node::Node;
use crate::order::sort;

/// Longest text of a value where nothing shorter is asked for, bytes.
const TEXT_MAX: usize = 1_024;

/// A value of the document.
///
/// Small and without a destructor, since readers hold many at once; its path is spelt out only for a fault.
#[derive(Clone, Copy)]
pub(super) struct Value<'a> {
    pub(super) node: &'a Node,
    place: Place,
    log: &'a Log<'a>,
}

// === impl Value ===

impl<'a> Value<'a> {
    pub(super) fn top(node: &'a Node, log: &'a Log<'a>) -> Self {
        Value { node, place: Place::TOP, log }
    }

    /// Lets the faults of this value and of all below name what they are about.
    pub(super) fn about(&self, subject: String) {
        self.log.trail.about(self.place, subject);
    }

    pub(super) fn path(&self) -> String {
        self.log.trail.path(self.place)
    }

    pub(super) fn fault(&self, message: impl Into<String>) {
        self.log.add(self.place, message.into());
    }

    /// Notes that something else stands here; gives `None`.
    pub(super) fn expected<T>(&self, what: &str) -> Option<T> {
        self.unexpected(what);
        None
    }

    #[inline(never)]
    fn unexpected(&self, what: &str) {
        self.fault(format!("expected {what}, found {}", found(self.node)));
    }

    // --- scalars ---

    #[inline(never)]
    pub(super) fn text(&self, what: &str) -> Option<&'a str> {
        let text = self.any_text(what)?;
        if text.is_empty() || TEXT_MAX < text.len() {
            self.fault(format!(
                "expected {what} of 1 to {} bytes, found {}",
                group(TEXT_MAX as u64),
                text.len()
            ));
            return None;
        }
        Some(text)
    }

    #[inline(never)]
    pub(super) fn any_text(&self, what: &str) -> Option<&'a str> {
        match self.node {
            Node::Text(text) => Some(text),
            _ => self.expected(what),
        }
    }

    #[inline(never)]
    pub(super) fn boolean(&self) -> Option<bool> {
        match self.node {
            Node::Bool(value) => Some(*value),
            _ => self.expected("true or false"),
        }
    }

    #[inline(never)]
    pub(super) fn integer(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let number = self.node.integer().and_then(|n| u64::try_from(n).ok());
        match number.filter(|n| range.contains(n)) {
            Some(number) => Some(number),
            None => self.expected(&whole(&range)),
        }
    }

    pub(super) fn size(&self, range: RangeInclusive<u64>) -> Option<usize> {
        usize::try_from(self.integer(range)?).ok()
    }

    /// A number of hundredths (`decimals` 2) or thousandths (3) in `range`, which `what` describes.
    #[inline(never)]
    pub(super) fn scaled(&self, decimals: u32, range: RangeInclusive<u64>, what: &str) -> Option<u64> {
        let number = match *self.node {
            // Beyond 2^53 the double is another number, and out of every range.
            Node::Int(number) => Some(number as f64),
            Node::Float(number) => Some(number),
            _ => None,
        };
        let scaled = number.and_then(|n| scalar::hundredths(n, decimals)).filter(|n| range.contains(n));
        scaled.or_else(|| self.expected(what))
    }

    /// A duration in microseconds.
    #[inline(never)]
    pub(super) fn duration_us(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let duration = match self.node {
            Node::Text(text) => scalar::duration_us(text),
            _ => None,
        };
        match duration.filter(|us| range.contains(us)) {
            Some(us) => Some(us),
            None => {
                let (least, most) = (spell_us(*range.start()), spell_us(*range.end()));
                self.expected(&format!("a duration from {least} to {most}, such as \"{}\"", example(&range)))
            }
        }
    }

    #[inline(never)]
    pub(super) fn rate(&self) -> Option<Rate> {
        let Node::Text(text) = self.node else {
            return self.expected("a rate such as \"10/s\" or \"1/30d\"");
        };
        match scalar::rate(text) {
            Ok(rate) => Some(rate),
            Err(RateError::Form) => self.expected("a rate such as \"10/s\" or \"1/30d\""),
            Err(RateError::Fast) => self.expected("a rate of at most 1,000,000 a second"),
            Err(RateError::Slow) => self.expected("a rate of at least one in 30 days"),
            Err(RateError::Fine) => self.expected("a rate whose period in lowest terms is at most 30 days"),
        }
    }

    /// One of some words.
    pub(super) fn choice<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        self.choice_or(words, &[])
    }

    /// One of some words, where something else might have stood as well.
    pub(super) fn choice_or<T: Copy>(&self, words: &[(&str, T)], others: &[&str]) -> Option<T> {
        let known: Vec<&str> = words.iter().map(|word| word.0).collect();
        words.get(self.word(&known, others)?).map(|word| word.1)
    }

    /// Which of the known words stands here.
    #[inline(never)]
    fn word(&self, known: &[&str], others: &[&str]) -> Option<usize> {
        if let Node::Text(text) = self.node {
            if let Some(index) = known.iter().position(|word| **word == **text) {
                return Some(index);
            }
            if let Some(near) = spelling::nearest(text, known) {
                self.fault(format!("unknown word {}; did you mean `{near}`?", found(self.node)));
                return None;
            }
        }
        let all: Vec<&str> = known.iter().chain(others).copied().collect();
        self.expected(&alternatives(all.into_iter()))
    }

    /// A name of ours: it goes into Redis keys, metrics and responses.
    #[inline(never)]
    pub(super) fn name(&self) -> Option<&'a str> {
        match self.node {
            Node::Text(text) if is_name(text, 64) => Some(text),
            _ => self.expected(
                "a name of at most 64 lower-case letters, digits, `-` and `_` that begins with a letter or digit",
            ),
        }
    }

    // --- lists and maps ---

    /// The fields of a map; unknown and repeated ones are faults.
    #[inline(never)]
    pub(super) fn fields(&self, known: &'static [&'static str]) -> Option<Fields<'a>> {
        match self.node {
            Node::Map(entries) => Some(Fields::new(*self, entries, known)),
            _ => self.expected("a map"),
        }
    }

    /// The entries of a map whose keys are names chosen by the operator, at most `max`; repeated ones are faults.
    ///
    /// In order of name, since a Struct has no other: every Envoy with the same document has the same policy.
    #[inline(never)]
    pub(super) fn entries(&self, max: usize) -> Option<Vec<(&'a str, Value<'a>)>> {
        let Node::Map(map) = self.node else {
            return self.expected("a map of names");
        };
        self.bounded(map.len(), 0, max, "entries")?;
        let mut entries: Vec<(&'a str, Value<'a>)> = Vec::with_capacity(map.len());
        for (index, (key, node)) in map.iter().enumerate() {
            if entries.iter().any(|(known, _)| *known == &**key) {
                self.fault(format!("{} stands here twice", quoted(key)));
                continue;
            }
            entries.push((key, self.child(index, node)));
        }
        sort(&mut entries, |left, right| left.0.cmp(right.0));
        Some(entries)
    }

    /// A list of `least` to `most` items, all of them read.
    pub(super) fn each<T>(
        &self,
        least: usize,
        most: usize,
        mut read: impl FnMut(&Value<'a>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let Node::List(items) = self.node else {
            return self.expected("a list");
        };
        self.bounded(items.len(), least, most, "items")?;
        let read: Vec<Option<T>> =
            items.iter().enumerate().map(|(index, node)| read(&self.child(index, node))).collect();
        read.into_iter().collect()
    }

    /// Like [`Value::each`]; a value that is no list stands for a list of one.
    pub(super) fn one_or_each<T>(
        &self,
        most: usize,
        mut read: impl FnMut(&Value<'a>) -> Option<T>,
    ) -> Option<Vec<T>> {
        match self.node {
            Node::List(_) => self.each(1, most, read),
            _ => Some(vec![read(self)?]),
        }
    }

    /// The value of the `index`-th entry or item.
    #[inline(never)]
    pub(super) fn child(&self, index: usize, node: &'a Node) -> Value<'a> {
        Value { node, place: self.log.trail.enter(self.place, index), log: self.log }
    }

    #[inline(never)]
    fn bounded(&self, len: usize, least: usize, most: usize, what: &str) -> Option<()> {
        if (least..=most).contains(&len) {
            return Some(());
        }
        self.fault(format!(
            "expected {} to {} {what}, found {}",
            least,
            group(most as u64),
            group(len as u64)
        ));
        None
    }
}
