//! Names, numbers and texts in the words of a fault.

use std::fmt::Write;
use std::ops::RangeInclusive;

use crate::node::Node;

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

pub(super) fn whole(range: &RangeInclusive<u64>) -> String {
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

/// A duration in that range, as one would write it.
pub(super) fn example(range: &RangeInclusive<u64>) -> &'static str {
    [(50_000, "50ms"), (1_000_000, "1s"), (60_000_000, "1m")]
        .into_iter()
        .find(|(us, _)| range.contains(us))
        .map_or("1h", |(_, text)| text)
}
