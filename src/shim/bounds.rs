//! What a batch may look like: every count, length and number has a bound, checked before anything is charged.
//!
//! The ranges of limits are those of [`sluicegate_policy::limit`].

use sluicegate_policy::algorithm::TOKENS_MAX;
use sluicegate_policy::limit::Algorithm;
use sluicegate_policy::wire::{
    ASKS_MAX, Ask, Batch, KEY_MAX, LIMITS_MAX, TAG_LEN, TAKES_MAX, VERSION, WireAlgorithm, WireLimit,
};

/// Slots are exact in a double.
const SLOT_END: u64 = 1 << 53;

/// What is wrong with a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where, like `takes[3].asks[0]`.
    pub path: String,
    /// What.
    pub problem: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)
    }
}

impl Fault {
    fn expected(path: String, expected: &str) -> Fault {
        Fault { path, problem: format!("expected {expected}") }
    }
}

/// Checks a whole batch.
///
/// # Errors
/// The first fault.
pub fn check(batch: &Batch) -> Result<(), Fault> {
    let fault = |path: &str, expected| Err(Fault::expected(path.to_owned(), expected));
    if batch.version != VERSION {
        return fault("version", "1");
    }
    if !is_name(&batch.namespace, 32) {
        return fault("namespace", NAMESPACE);
    }
    if batch.limits.len() > LIMITS_MAX {
        return fault("limits", "at most 1,000 entries");
    }
    if batch.takes.len() > TAKES_MAX {
        return fault("takes", "at most 1,024 entries");
    }
    for (i, limit) in batch.limits.iter().enumerate() {
        self::limit(limit).map_err(|problem| Fault { path: format!("limits[{i}]"), problem })?;
    }
    for (i, take) in batch.takes.iter().enumerate() {
        let fault = |path: String, expected| Err(Fault::expected(format!("takes[{i}]{path}"), expected));
        if take.asks.is_empty() || take.asks.len() > ASKS_MAX {
            return fault(".asks".to_owned(), "1 to 64 entries");
        }
        if take.slot.is_some_and(|slot| slot >= SLOT_END) {
            return fault(".slot".to_owned(), "a number below 2^53");
        }
        for (j, ask) in take.asks.iter().enumerate() {
            if let Err(expected) = self::ask(batch, ask, take.slot) {
                return fault(format!(".asks[{j}]"), expected);
            }
            if take.asks.iter().take(j).any(|earlier| same(batch, earlier, ask)) {
                return fault(format!(".asks[{j}]"), "each limit and key once in a take");
            }
        }
    }
    for (i, charge) in batch.charges.iter().enumerate() {
        let fault = |expected| Err(Fault::expected(format!("charges[{i}]"), expected));
        let Some(limit) = batch.limits.get(charge.0) else { return fault(INDEX) };
        if matches!(limit.1, WireAlgorithm::Concurrency { .. }) {
            return fault("a limit that counts tokens");
        }
        if !is_key(&charge.1) {
            return fault(KEY);
        }
        if !(1..=TOKENS_MAX).contains(&charge.2) {
            return fault("an amount of 1 to 1,000,000,000");
        }
    }
    for (i, release) in batch.releases.iter().enumerate() {
        let fault = |expected| Err(Fault::expected(format!("releases[{i}]"), expected));
        match batch.limits.get(release.0) {
            None => return fault(INDEX),
            Some(WireLimit(_, WireAlgorithm::Concurrency { .. })) => {}
            Some(_) => return fault("a concurrency limit"),
        }
        if !is_key(&release.1) {
            return fault(KEY);
        }
        if release.2 >= SLOT_END {
            return fault("a slot below 2^53");
        }
    }
    Ok(())
}

/// Checks one limit by itself.
///
/// # Errors
/// What is wrong with it.
pub fn limit(limit: &WireLimit) -> Result<(), String> {
    if !is_name(&limit.0, 64) {
        return Err(format!("expected {LIMIT_NAME}"));
    }
    Algorithm::try_from(&limit.1).map(drop).map_err(|error| error.to_string())
}

/// A key as the filter makes it: base64url characters only, so it cannot change how a Redis key reads.
#[must_use]
pub fn is_key(key: &str) -> bool {
    (TAG_LEN + 1..=KEY_MAX).contains(&key.len())
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// `[a-z0-9][a-z0-9_-]*`, at most `len_max` bytes: the form of namespaces (32) and limit names (64).
#[must_use]
pub fn is_name(name: &str, len_max: usize) -> bool {
    name.len() <= len_max
        && name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_'))
}

/// What a namespace looks like.
pub const NAMESPACE: &str = "1 to 32 of a-z, 0-9, `-` and `_`, a letter or digit first";
/// What the name of a limit looks like.
pub const LIMIT_NAME: &str = "a name of 1 to 64 of a-z, 0-9, `-` and `_`, a letter or digit first";
/// What a key looks like.
pub const KEY: &str = "a key of 7 to 64 base64url characters";
const INDEX: &str = "the index of a limit";

fn ask(batch: &Batch, ask: &Ask, slot: Option<u64>) -> Result<(), &'static str> {
    let limit = batch.limits.get(ask.0).ok_or(INDEX)?;
    if !is_key(&ask.1) {
        return Err(KEY);
    }
    if ask.2 > TOKENS_MAX || ask.3 > ask.2 {
        return Err("a cost of 0 to 1,000,000,000 and at most that as `at_least`");
    }
    if matches!(limit.1, WireAlgorithm::Concurrency { .. }) && ask.2 > 0 && slot.is_none() {
        return Err("a slot beside an ask of a concurrency limit");
    }
    Ok(())
}

fn same(batch: &Batch, a: &Ask, b: &Ask) -> bool {
    let name = |ask: &Ask| batch.limits.get(ask.0).map(|limit| &limit.0);
    (a.0 == b.0 || name(a) == name(b)) && a.1 == b.1
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "q83vASNFZ4mrze8BI0VniQ";

    fn batch(limits: &str, rest: &str) -> Batch {
        let text = format!(r#"{{"version":1,"namespace":"default","limits":{limits},{rest}}}"#);
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn the_documented_example_passes() {
        let good = batch(
            r#"[["per-caller",{"token_bucket":{"burst":100,"tokens":1,"period_us":100000}}]]"#,
            &format!(r#""takes":[{{"asks":[[0,"{KEY}",1,1]]}}]"#),
        );
        assert_eq!(check(&good), Ok(()));
    }

    #[test]
    fn numbers_out_of_range_are_named() {
        for (limit, ok) in [
            (r#"{"token_bucket":{"burst":1000000000,"tokens":1,"period_us":2592000000000}}"#, true),
            (r#"{"token_bucket":{"burst":1,"tokens":1,"period_us":1}}"#, true),
            (r#"{"token_bucket":{"burst":0,"tokens":1,"period_us":1}}"#, false),
            (r#"{"token_bucket":{"burst":1,"tokens":2,"period_us":1}}"#, false),
            (r#"{"token_bucket":{"burst":1,"tokens":0,"period_us":1}}"#, false),
            (r#"{"token_bucket":{"burst":1,"tokens":1,"period_us":2592000000001}}"#, false),
            (r#"{"fixed_window":{"limit":1,"per_us":999,"aligned":true}}"#, false),
            (r#"{"fixed_window":{"limit":1,"per_us":1000,"aligned":true}}"#, true),
            (r#"{"sliding_log":{"limit":1001,"per_us":1000}}"#, false),
            (r#"{"concurrency":{"max":100001,"release_after_us":1000000}}"#, false),
            (r#"{"concurrency":{"max":1,"release_after_us":999999}}"#, false),
        ] {
            let fault = check(&batch(&format!(r#"[["a",{limit}]]"#), r#""takes":[]"#));
            assert_eq!(fault.is_ok(), ok, "{limit}: {fault:?}");
            if let Err(fault) = fault {
                assert_eq!(fault.path, "limits[0]");
            }
        }
    }

    #[test]
    fn takes_are_checked_one_by_one() {
        let limits = r#"[["a",{"sliding_window":{"limit":5,"per_us":1000000}}],
                         ["b",{"concurrency":{"max":1,"release_after_us":1000000}}]]"#;
        for (rest, path) in [
            (r#""takes":[{"asks":[]}]"#.to_owned(), "takes[0].asks"),
            (format!(r#""takes":[{{"asks":[[2,"{KEY}",1,1]]}}]"#), "takes[0].asks[0]"),
            (format!(r#""takes":[{{"asks":[[0,"{KEY}",1,2]]}}]"#), "takes[0].asks[0]"),
            (format!(r#""takes":[{{"asks":[[0,"{KEY}",1000000001,1]]}}]"#), "takes[0].asks[0]"),
            (r#""takes":[{"asks":[[0,"a{b}cdefg",1,1]]}]"#.to_owned(), "takes[0].asks[0]"),
            (r#""takes":[{"asks":[[0,"short",1,1]]}]"#.to_owned(), "takes[0].asks[0]"),
            (format!(r#""takes":[{{"asks":[[0,"{KEY}",1,1],[0,"{KEY}",1,1]]}}]"#), "takes[0].asks[1]"),
            (format!(r#""takes":[{{"asks":[[1,"{KEY}",1,1]]}}]"#), "takes[0].asks[0]"),
            (format!(r#""takes":[{{"asks":[[1,"{KEY}",1,1]],"slot":9007199254740992}}]"#), "takes[0].slot"),
            (format!(r#""charges":[[1,"{KEY}",1]]"#), "charges[0]"),
            (format!(r#""charges":[[0,"{KEY}",0]]"#), "charges[0]"),
            (format!(r#""releases":[[0,"{KEY}",1]]"#), "releases[0]"),
            (format!(r#""releases":[[1,"{KEY}",9007199254740992]]"#), "releases[0]"),
        ] {
            assert_eq!(check(&batch(limits, &rest)).unwrap_err().path, path, "{rest}");
        }
        let good = format!(
            r#""takes":[{{"asks":[[0,"{KEY}",1,1],[1,"{KEY}",1,1]],"slot":7}}],
               "charges":[[0,"{KEY}",5]],"releases":[[1,"{KEY}",7]]"#
        );
        assert_eq!(check(&batch(limits, &good)), Ok(()));
    }

    #[test]
    fn names_cannot_leave_their_place_in_a_redis_key() {
        for bad in ["", "-a", "A", "a:b", "a{b}", "a b", "a\n"] {
            assert!(!is_name(bad, 32), "{bad}");
        }
        assert!(is_name("a", 32) && is_name("0-_a", 32) && !is_name(&"a".repeat(33), 32));
    }
}
