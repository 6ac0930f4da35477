//! Overrides in Redis: what is asked of `lua/override.lua`, and what it answers.

use std::time::Duration;

use redis::{Cmd, Value};
use sluicegate_policy::wire::WireAlgorithm;

use crate::store::failure::Failure;
use crate::store::overrides::{OVERRIDES_MAX, Override, Snapshot, Subject};

const SCRIPT: &str = include_str!("../../../lua/override.lua");

/// The hash tag of [`key`].
pub(crate) const TAG: &str = "overrides";

/// The one hash that holds all overrides of this prefix.
fn key(prefix: &str) -> String {
    format!("{prefix}:{{{TAG}}}")
}

pub(crate) fn read(prefix: &str, known: u64) -> Cmd {
    let mut command = command(prefix);
    command.arg("read").arg(known);
    command
}

/// # Errors
/// The numbers cannot be written, which does not happen.
pub(crate) fn set(prefix: &str, wanted: &Override) -> Result<Cmd, Failure> {
    let numbers = serde_json::to_string(&wanted.numbers).map_err(|_| Failure::Junk)?;
    let life_ms = u64::try_from(wanted.left.as_millis()).unwrap_or(u64::MAX);
    let mut command = command(prefix);
    command.arg("set").arg(field(&wanted.subject)).arg(numbers).arg(life_ms).arg(OVERRIDES_MAX);
    Ok(command)
}

pub(crate) fn unset(prefix: &str, subject: &Subject) -> Cmd {
    let mut command = command(prefix);
    command.arg("unset").arg(field(subject));
    command
}

/// Reads the answer to [`read`]; `None` when nothing has changed.
///
/// # Errors
/// It is not what the script returns. Single overrides that cannot be read (a newer version wrote them) are left out.
pub(crate) fn snapshot(answer: Value, known: u64) -> Result<Option<Snapshot>, Failure> {
    let items: Vec<Value> = redis::from_redis_value(answer).map_err(|_| Failure::Junk)?;
    let mut items = items.into_iter();
    let mut number = || -> Option<u64> { redis::from_redis_value(items.next()?).ok() };
    let (Some(now_ms), Some(version)) = (number(), number()) else { return Err(Failure::Junk) };
    if version == known {
        return Ok(None);
    }
    let mut overrides = Vec::new();
    while let (Some(field), Some(value)) = (items.next(), items.next()) {
        overrides.extend(entry(field, value, now_ms));
    }
    Ok(Some(Snapshot { version, overrides }))
}

/// Reads the answer to [`set`] and [`unset`].
pub(crate) fn done(answer: Value) -> Result<bool, Failure> {
    redis::from_redis_value(answer).map_err(|_| Failure::Junk)
}

fn command(prefix: &str) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(SCRIPT).arg(1).arg(key(prefix));
    command
}

fn field(subject: &Subject) -> String {
    format!("{}/{}/{}", subject.namespace, subject.limit, subject.key)
}

fn entry(field: Value, value: Value, now_ms: u64) -> Option<Override> {
    let field: String = redis::from_redis_value(field).ok()?;
    let value: String = redis::from_redis_value(value).ok()?;
    let mut parts = field.split('/').map(Box::from);
    let subject = Subject { namespace: parts.next()?, limit: parts.next()?, key: parts.next()? };
    let (until_ms, numbers) = value.split_once(':')?;
    let left_ms = until_ms.parse::<u64>().ok()?.checked_sub(now_ms).filter(|left| *left > 0)?;
    let numbers: WireAlgorithm = serde_json::from_str(numbers).ok()?;
    Some(Override { subject, numbers, left: Duration::from_millis(left_ms) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn answers_are_read_and_what_ran_out_is_left_out() {
        let numbers = r#"{"sliding_window":{"limit":5,"per_us":1000}}"#;
        let answer = Value::Array(vec![
            Value::Int(1_000),
            text("77"),
            text("default/a/key-one"),
            text(&format!("1500:{numbers}")),
            text("default/b/key-one"),
            text(&format!("1000:{numbers}")),
            text("default/c/key-one"),
            text("1500:{\"unheard_of\":{}}"),
        ]);
        let snapshot = snapshot(answer, 3).unwrap().unwrap();
        assert_eq!(snapshot.version, 77);
        assert_eq!(snapshot.overrides.len(), 1);
        assert_eq!(&*snapshot.overrides[0].subject.limit, "a");
        assert_eq!(snapshot.overrides[0].left, Duration::from_millis(500));
    }

    #[test]
    fn the_known_version_is_no_change() {
        assert_eq!(snapshot(Value::Array(vec![Value::Int(1), text("77")]), 77), Ok(None));
        assert_eq!(snapshot(Value::Int(1), 77), Err(Failure::Junk));
    }
}
