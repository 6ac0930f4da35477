//! A value of the document, where it stands, and the log its faults go to.
//!
//! Readers give `Option`: `None` means that the fault is in the log already. A reader of a map asks for all its
//! fields first and looks at the answers then, so that one fault hides no other.

use std::fmt::Write;
use std::ops::RangeInclusive;
use std::rc::Rc;

use super::fault::Log;
use super::fields::Fields;
use super::scalar::{self, RateError};
use super::spelling;
use crate::limit::Rate;
use crate::node::Node;

/// Longest text of a value where nothing shorter is asked for, bytes.
const TEXT_MAX: usize = 1_024;

/// A value of the document.
#[derive(Clone)]
pub(super) struct Value<'a> {
    pub(super) node: &'a Node,
    path: Rc<str>,
    /// What the value is about, such as `limit "login"`.
    subject: Option<Rc<str>>,
    log: &'a Log,
}

// === impl Value ===

impl<'a> Value<'a> {
    pub(super) fn top(node: &'a Node, log: &'a Log) -> Self {
        Value { node, path: "".into(), subject: None, log }
    }

    /// The same value, whose faults name what they are about.
    pub(super) fn about(mut self, subject: String) -> Self {
        self.subject = Some(subject.into());
        self
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn fault(&self, message: impl Into<String>) {
        let mut message = message.into();
        if let Some(subject) = &self.subject {
            // Writing to a String cannot fail.
            let _ = write!(message, " ({subject})");
        }
        self.log.add(&self.path, message);
    }

    /// Notes that something else stands here; gives `None`.
    pub(super) fn expected<T>(&self, what: &str) -> Option<T> {
        self.fault(format!("expected {what}, found {}", found(self.node)));
        None
    }

    // --- scalars ---

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

    pub(super) fn any_text(&self, what: &str) -> Option<&'a str> {
        match self.node {
            Node::Text(text) => Some(text),
            _ => self.expected(what),
        }
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        match self.node {
            Node::Bool(value) => Some(*value),
            _ => self.expected("true or false"),
        }
    }

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
        if let Node::Text(text) = self.node {
            if let Some((_, value)) = words.iter().find(|(word, _)| **word == **text) {
                return Some(*value);
            }
            if let Some(near) = spelling::nearest(text, &known) {
                self.fault(format!("unknown word {}; did you mean `{near}`?", found(self.node)));
                return None;
            }
        }
        let all: Vec<&str> = known.iter().chain(others).copied().collect();
        self.expected(&alternatives(all.into_iter()))
    }

    /// A name of ours: it goes into Redis keys, metrics and responses.
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
    pub(super) fn fields(&self, known: &'static [&'static str]) -> Option<Fields<'a>> {
        match self.node {
            Node::Map(entries) => Some(Fields::new(self.clone(), entries, known)),
            _ => self.expected("a map"),
        }
    }

    /// The entries of a map whose keys are names chosen by the operator, at most `max`; repeated ones are faults.
    ///
    /// In order of name, since a Struct has no other: every Envoy with the same document has the same policy.
    pub(super) fn entries(&self, max: usize) -> Option<Vec<(&'a str, Value<'a>)>> {
        let Node::Map(map) = self.node else {
            return self.expected("a map of names");
        };
        self.bounded(map.len(), 0, max, "entries")?;
        let mut entries: Vec<(&'a str, Value<'a>)> = Vec::with_capacity(map.len());
        let mut seen = std::collections::BTreeSet::new();
        for (key, node) in map {
            if !seen.insert(&**key) {
                self.fault(format!("{} stands here twice", quoted(key)));
                continue;
            }
            entries.push((key, self.child(key, node)));
        }
        entries.sort_by_key(|(name, _)| *name);
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
            items.iter().enumerate().map(|(index, node)| read(&self.item(index, node))).collect();
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

    /// The value of a field.
    pub(super) fn child(&self, name: &str, node: &'a Node) -> Value<'a> {
        let simple = !name.is_empty()
            && name.len() <= 64
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        let path = match (simple, &*self.path) {
            (true, "") => name.into(),
            (true, path) => format!("{path}.{name}"),
            (false, path) => format!("{path}[{}]", quoted(name)),
        };
        Value { node, path: path.into(), subject: self.subject.clone(), log: self.log }
    }

    fn item(&self, index: usize, node: &'a Node) -> Value<'a> {
        let path = format!("{}[{index}]", self.path).into();
        Value { node, path, subject: self.subject.clone(), log: self.log }
    }

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

/// A name: `[a-z0-9][a-z0-9_-]*`, at most `max` long.
pub(super) fn is_name(text: &str, max: usize) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    text.len() <= max
        && text.bytes().all(inner)
        && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
}

/// What stands there, short enough for a log line.
pub(super) fn found(node: &Node) -> String {
    match node {
        Node::Null => "nothing".into(),
        Node::Bool(value) => value.to_string(),
        Node::Int(number) => number.to_string(),
        Node::Float(number) => number.to_string(),
        Node::Text(text) => quoted(text),
        Node::List(_) => "a list".into(),
        Node::Map(_) => "a map".into(),
    }
}

/// Text of the document for a log line: quoted, escaped, at most 40 characters of it.
pub(super) fn quoted(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{:?}...", text.split_at_checked(end).map_or(text, |(head, _)| head)),
        None => format!("{text:?}"),
    }
}

/// `` `a`, `b` or `c` ``.
pub(super) fn alternatives<'w>(words: impl ExactSizeIterator<Item = &'w str>) -> String {
    let last = words.len().saturating_sub(1);
    let mut text = String::new();
    for (index, word) in words.enumerate() {
        let join = match index {
            0 => "",
            _ if index == last => " or ",
            _ => ", ",
        };
        let _ = write!(text, "{join}`{word}`");
    }
    text
}

fn whole(range: &RangeInclusive<u64>) -> String {
    match (*range.start(), *range.end()) {
        (least, most) if least == most => group(least),
        (least, most) => format!("a whole number from {} to {}", group(least), group(most)),
    }
}

/// Digits in groups of three.
pub(super) fn group(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if 0 < index && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A duration in its largest whole unit.
pub(super) fn spell_us(us: u64) -> String {
    const UNITS: [(u64, &str); 5] =
        [(86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "m"), (1_000_000, "s"), (1_000, "ms")];
    UNITS
        .into_iter()
        .find(|(unit, _)| us != 0 && us.is_multiple_of(*unit))
        .map_or_else(|| format!("{us}us"), |(unit, name)| format!("{}{name}", us / unit))
}

fn example(range: &RangeInclusive<u64>) -> &'static str {
    [(50_000, "50ms"), (1_000_000, "1s"), (60_000_000, "1m")]
        .into_iter()
        .find(|(us, _)| range.contains(us))
        .map_or("1h", |(_, text)| text)
}
