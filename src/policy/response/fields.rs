//! The RateLimit fields, in four conventions.

use std::borrow::Cow;

use crate::decimal::Decimal;
use crate::policy::FieldStyle;
use crate::response::{Held, whole_seconds};
use crate::verdict::Standing;

/// A response field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Lower case.
    pub name: &'static str,
    /// Visible ASCII.
    pub value: Value,
}

/// The value of a response field. Most are numbers, which need no memory of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Digits.
    Number(Decimal),
    /// Anything else.
    Text(Cow<'static, str>),
}

impl Field {
    /// A field.
    pub fn new(name: &'static str, value: impl Into<Value>) -> Self {
        Field { name, value: value.into() }
    }
}

impl Value {
    /// As it is sent.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Value::Number(decimal) => decimal.as_bytes(),
            Value::Text(text) => text.as_bytes(),
        }
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Value::Number(Decimal::new(number))
    }
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Value::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(text.into())
    }
}

/// Gives `set` the fields that tell a client how it stands: the tightest limit, and in `RateLimit-Policy` all of
/// them.
///
/// `upstream` reads a field that the response already has. Those stay, unless ours are tighter: an intermediary
/// must not loosen what the origin has said. Without any standing there are no fields: they are never invented.
pub fn rate_limit_fields<'a, 'u>(
    styles: &[FieldStyle],
    held: impl Iterator<Item = Held<'a>> + Clone,
    upstream: impl Fn(&str) -> Option<Cow<'u, [u8]>>,
    mut set: impl FnMut(&'static str, Value),
) {
    let Some((tightest, standing)) = tightest(held.clone()) else { return };
    let quota = tightest.quota;
    let remaining = standing.remaining;
    // A refused client needs to know when it may come back, the same moment that Retry-After names.
    let reset_us = if standing.allowed { standing.reset_us } else { standing.retry_after_us };
    let reset_s = if reset_us == 0 { 0 } else { whole_seconds(reset_us) };

    for (nth, style) in styles.iter().enumerate() {
        let names = style.names();
        // Two drafts share their names.
        if styles.iter().take(nth).any(|earlier| earlier.names() == names) {
            continue;
        }
        let theirs = upstream(style.remaining_field());
        if theirs.is_some_and(|theirs| style.remaining_in(&theirs).is_none_or(|theirs| theirs <= remaining)) {
            continue;
        }
        match style {
            FieldStyle::Triple | FieldStyle::XRateLimit => {
                let values = [quota.requests(), remaining, reset_s];
                for (name, value) in names.iter().zip(values) {
                    set(name, value.into());
                }
            }
            FieldStyle::Draft11 | FieldStyle::Draft12 => {
                let (left, until) = if *style == FieldStyle::Draft11 { ("r", "t") } else { ("a", "w") };
                let policies: Vec<&str> = held.clone().map(|held| held.quota.policy_item()).collect();
                set("ratelimit-policy", policies.join(", ").into());
                let mut item = format!("\"{}\";{left}={remaining}", quota.name());
                // An effective window of nothing says nothing, and draft -12 wants it positive.
                if reset_s > 0 {
                    item.push_str(&format!(";{until}={reset_s}"));
                }
                set("ratelimit", item.into());
            }
        }
    }
}

/// Of the refusing limits the one that takes longest; if none refuses, the one with least left.
fn tightest<'a>(held: impl Iterator<Item = Held<'a>>) -> Option<(Held<'a>, Standing)> {
    let told = held.filter(|held| held.is_known).filter_map(|held| Some((held, held.standing?)));
    told.reduce(|one, other| if is_tighter(&other.1, &one.1) { other } else { one })
}

fn is_tighter(one: &Standing, other: &Standing) -> bool {
    match (one.allowed, other.allowed) {
        (false, false) => other.retry_after_us < one.retry_after_us,
        (true, true) if one.remaining == other.remaining => other.reset_us < one.reset_us,
        (true, true) => one.remaining < other.remaining,
        (refused, _) => !refused,
    }
}

// === impl FieldStyle ===

impl FieldStyle {
    fn names(self) -> &'static [&'static str] {
        match self {
            FieldStyle::Triple => &["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"],
            FieldStyle::XRateLimit => &["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"],
            FieldStyle::Draft11 | FieldStyle::Draft12 => &["ratelimit-policy", "ratelimit"],
        }
    }

    /// The field that says how much is left.
    fn remaining_field(self) -> &'static str {
        match self {
            FieldStyle::Triple => "ratelimit-remaining",
            FieldStyle::XRateLimit => "x-ratelimit-remaining",
            FieldStyle::Draft11 | FieldStyle::Draft12 => "ratelimit",
        }
    }

    /// What an upstream's field says is left, the least of several; `None` when it cannot be understood.
    fn remaining_in(self, value: &[u8]) -> Option<u64> {
        let text = std::str::from_utf8(value).ok()?;
        match self {
            FieldStyle::Triple | FieldStyle::XRateLimit => {
                text.split(',').map(|part| part.trim().parse().ok()).min().flatten()
            }
            FieldStyle::Draft11 | FieldStyle::Draft12 => text
                .split([';', ','])
                .filter_map(|part| part.trim().split_once('='))
                .filter(|(name, _)| matches!(*name, "r" | "a" | "remaining"))
                .map(|(_, value)| value.parse().ok())
                .min()
                .flatten(),
        }
    }
}
