//! From a document to a policy, or to everything that is wrong with it.
//!
//! What is pure runs here, natively and as WebAssembly; `config/files.rs` reads the fixtures, `config/manual.rs`
//! holds the manual to the grammar.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

#[cfg(not(target_arch = "wasm32"))]
#[path = "config/files.rs"]
mod files;
#[cfg(not(target_arch = "wasm32"))]
#[path = "config/manual.rs"]
mod manual;
#[cfg(not(target_arch = "wasm32"))]
#[path = "config/operations.rs"]
mod operations;
#[cfg(not(target_arch = "wasm32"))]
#[path = "config/random.rs"]
mod random;

use sluicegate_policy::config::{self, Faults};
use sluicegate_policy::limit::{Algorithm, Rate, WhenMissing, WhenUnavailable};
use sluicegate_policy::node;
use sluicegate_policy::policy::Policy;

const BUCKET: &str = r#"{"burst": 10, "rate": "0.5/s"}"#;

/// A policy with one limit, whose algorithm is given as `"kind": {...}`.
fn with(algorithm: &str) -> String {
    format!(
        r#"{{"version": 1, "limits": [{{"name": "login", "key": "everyone", "enforce": "local", {algorithm}}}]}}"#
    )
}

fn read(text: &str) -> Result<Policy, Faults> {
    config::from_bytes(text.as_bytes())
}

/// The faults of a document, one a line.
fn faults(text: &str) -> String {
    match read(text) {
        Ok(policy) => panic!("{text} gives {policy:?}"),
        Err(faults) => faults.to_string(),
    }
}

#[test]
fn a_small_policy_has_the_documented_defaults() {
    let policy = read(&with(&format!(r#""token_bucket": {BUCKET}"#))).unwrap();
    assert_eq!(&*policy.namespace, "default");
    assert_eq!(policy.shim, None);
    assert_eq!(policy.overload, None);
    let limit = &policy.limits[0];
    assert_eq!(limit.when_missing, WhenMissing::Deny);
    assert_eq!(limit.when_unavailable, WhenUnavailable::Allow);
    assert!(!limit.charge_preflight);
    assert_eq!(&*policy.identities[limit.key[0].0].name, "everyone");
    match &limit.algorithm {
        // Half a token a second is one in two, not rounded to none or one.
        Algorithm::TokenBucket(bucket) => {
            assert_eq!(bucket.rate, Rate { tokens: 1, period_us: 2_000_000 });
        }
        other => panic!("{other:?}"),
    }
}

/// CF-1: <https://github.com/envoyproxy/ratelimit/issues/653> and the cases beside it. Each is refused, with a message
/// that names the place and the limit.
#[test]
fn what_is_misspelt_missing_or_double_is_refused_by_name() {
    for (text, expected) in [
        (
            with(r#""token_bucket": {"burts": 10, "rate": "1/s"}"#),
            r#"limits[0].token_bucket: unknown field `burts`; did you mean `burst`? (limit "login")"#,
        ),
        (
            with(r#""tocken_bucket": {"burst": 10, "rate": "1/s"}"#),
            r#"limits[0]: unknown field `tocken_bucket`; did you mean `token_bucket`? (limit "login")"#,
        ),
        (
            with(r#""token_bucket": {"burst": 10}"#),
            r#"limits[0].token_bucket: missing `rate` (limit "login")"#,
        ),
        (
            with(r#""fixed_window": {"limit": "ten", "per": "1m"}"#),
            r#"limits[0].fixed_window.limit: expected a whole number from 1 to 1,000,000,000, found "ten" (limit "login")"#,
        ),
        (
            with(&format!(r#""token_bucket": {BUCKET}"#)).replace("]}", r#", {"name": "login"}]}"#),
            "limits[1]: missing `key`: the identities to count by, or `everyone` for one count shared by all (limit \
             \"login\")\nlimits[1]: missing `token_bucket`, `leaky_bucket`, `fixed_window`, `sliding_window` or \
             `concurrency` (limit \"login\")\nlimits[1].name: the name \"login\" is taken by limits[0] (limit \"login\")",
        ),
        (
            with(&format!(r#""token_bucket": {BUCKET}, "cost": 1, "cost": 2"#)),
            r#"limits[0]: field `cost` stands here twice (limit "login")"#,
        ),
        (r#"{"version": 1, "limits": []}"#.into(), "limits: expected 1 to 1,000 items, found 0"),
        (String::new(), "the document is empty"),
        (" \n".into(), "the document is empty"),
        ("{\"version\": 1} x".into(), "not JSON: trailing characters at line 1 column 16"),
        (
            r#"{"version": 1, "identities": {"route": {"property": ["request", "rout"]}}, "limits": [{}]}"#
                .into(),
            "identities.route.property: Envoy has no attribute \"rout\" (identity \"route\")\nlimits[0]: missing \
             `name`\nlimits[0]: missing `key`: the identities to count by, or `everyone` for one count shared by \
             all\nlimits[0]: missing `token_bucket`, `leaky_bucket`, `fixed_window`, `sliding_window` or `concurrency`",
        ),
    ] {
        assert_eq!(faults(&text), expected, "{text}");
    }
}

/// CF-2: <https://github.com/envoyproxy/gateway/issues/9273> and the cases beside it. No number stands for another.
#[test]
fn impossible_numbers_are_refused_not_rounded() {
    for (field, values) in [
        (
            "burst",
            &[
                "0",
                "-1",
                "2.5",
                "10.000001",
                "1e10",
                "-0.0",
                "null",
                "true",
                "\"10\"",
                "\"NaN\"",
                "[]",
                "1e-400",
            ][..],
        ),
        (
            "rate",
            &["\"0/s\"", "\"-1/s\"", "\"NaN\"", "\"1e400/s\"", "\"1/0s\"", "\"1/31d\"", "\"1000001/s\"", "1"],
        ),
    ] {
        for value in values {
            let (burst, rate) = if field == "burst" { (*value, "\"1/s\"") } else { ("10", *value) };
            let text = with(&format!(r#""token_bucket": {{"burst": {burst}, "rate": {rate}}}"#));
            let faults = faults(&text);
            assert!(
                faults.starts_with(&format!("limits[0].token_bucket.{field}: expected a ")),
                "{text}: {faults}"
            );
            assert!(faults.ends_with(r#" (limit "login")"#), "{text}: {faults}");
            assert_eq!(faults.lines().count(), 1, "{text}: {faults}");
        }
    }
    for per in ["\"0s\"", "\"-5s\"", "60", "\"999us\"", "\"31d\"", "\"1.0000001s\"", "\"\"", "\"1\""] {
        let text = with(&format!(r#""fixed_window": {{"limit": 1, "per": {per}}}"#));
        assert!(faults(&text).starts_with("limits[0].fixed_window.per: expected a duration"), "{text}");
    }
    let overflow = with(r#""token_bucket": {"burst": 1e400, "rate": "1/s"}"#);
    assert!(faults(&overflow).starts_with("limits[0].token_bucket.burst: not JSON: number out of range"));
}

/// The ends of each range are in it, and no others.
#[test]
fn both_ends_of_a_range_are_good() {
    for algorithm in [
        r#""token_bucket": {"burst": 1, "rate": "1/30d"}"#,
        r#""token_bucket": {"burst": 1000000000, "rate": "1000000/s"}"#,
        r#""token_bucket": {"burst": 1e9, "rate": "1/1us"}"#,
        r#""leaky_bucket": {"rate": "1/s", "wait": {"up_to": "1ms", "waiting": 1}}"#,
        r#""leaky_bucket": {"rate": "1/s", "wait": {"up_to": "60s", "waiting": 1000000}}"#,
        r#""fixed_window": {"limit": 1, "per": "1ms"}"#,
        r#""fixed_window": {"limit": 1000000000, "per": "30d", "align": "epoch"}"#,
        r#""sliding_window": {"limit": 1000, "per": "720h", "exact": true}"#,
        r#""concurrency": {"max": 100000, "release_after": "1s"}"#,
        r#""concurrency": {"max": 1, "release_after": "24h"}"#,
    ] {
        assert!(read(&with(algorithm)).is_ok(), "{algorithm}: {:?}", read(&with(algorithm)));
    }
}

/// A secret is in no message, however wrong it is.
#[test]
fn secrets_are_not_shown() {
    let text = r#"{"version": 1, "digest_secret": "hush", "overload": {}, "identities": {"caller": {"header": "x"}},
        "tiers": {"gold": {"members": {"caller": ["hush-key"]}}, "silver": {"members": {"caller": ["hush-key"]}}}}"#;
    let faults = faults(text);
    assert_eq!(faults.lines().count(), 2, "{faults}");
    assert!(!faults.contains("hush"), "{faults}");
}

#[test]
fn more_faults_than_a_log_can_take_are_counted() {
    let limits: Vec<&str> = (0..150).map(|_| "7").collect();
    let faults = read(&format!(r#"{{"version": 1, "limits": [{}]}}"#, limits.join(","))).unwrap_err();
    assert_eq!(faults.iter().count(), 100);
    assert_eq!(faults.unlisted(), 50);
    assert!(faults.to_string().ends_with("\nand 50 more"));
}

#[test]
fn documents_are_bounded() {
    let long = format!(r#"{{"version": 1, "namespace": "{}"}}"#, "x".repeat(node::SIZE_MAX));
    assert_eq!(faults(&long), format!("the document has {} bytes, more than 1048576", long.len()));
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(node::from_json(nested(node::DEPTH_MAX).as_bytes()).is_ok());
    assert_eq!(node::from_json(nested(node::DEPTH_MAX + 1).as_bytes()), Err(node::NodeError::TooDeep));
    let crowded: Vec<String> = (0..65).map(|n| format!("\"f{n}\": 1")).collect();
    assert!(
        faults(&format!("{{{}}}", crowded.join(","))).starts_with("expected at most 64 fields, found 65\n")
    );
}

/// Envoy hands a Struct over as protobuf, where every number is a double and a length of 10 or 123 looks like JSON.
#[test]
fn a_struct_says_what_json_says() {
    let text = with(&format!(r#""token_bucket": {BUCKET}"#));
    let tree = node::from_json(text.as_bytes()).unwrap();
    let bytes = structure(&tree);
    assert_eq!(bytes.first(), Some(&b'\n'));
    assert_eq!(config::from_bytes(&bytes), read(&text));
    assert_eq!(config::from_bytes(format!("\n{text}").as_bytes()), read(&text));

    let (text, bytes) = (40..200)
        .map(|len| {
            format!(
                r#"{{"identities": {{"a": {{"header": "x"}}, "b": {{"constant": "{}"}}}}}}"#,
                "c".repeat(len)
            )
        })
        .map(|text| (structure(&node::from_json(text.as_bytes()).unwrap()), text))
        .find(|(bytes, _)| bytes.starts_with(b"\n{\n\nidentities"))
        .map(|(bytes, text)| (text, bytes))
        .unwrap();
    assert_eq!(config::from_bytes(&bytes), read(&text));
}

#[test]
fn the_hash_is_of_what_the_document_says() {
    let hash = |text: &str| read(text).unwrap().hash;
    let one = r#"{"version": 1, "overload": {"exempt_rate": 5, "exempt": [{"path": "/healthz"}]}}"#;
    let same = r#"{"overload": {"exempt": [{"path": "/healthz"}], "exempt_rate": 5.0}, "version": 1}"#;
    let other = r#"{"version": 1, "overload": {"exempt_rate": 6, "exempt": [{"path": "/healthz"}]}}"#;
    assert_eq!(hash(one), hash(same));
    assert_ne!(hash(one), hash(other));
    // It is on dashboards: it must not change with a release.
    assert_eq!(format!("{:08x}", hash(one)), "d7d52ce4");
}

/// A tree as a serialized `google.protobuf.Struct`.
fn structure(node: &node::Node) -> Vec<u8> {
    use node::Node;

    fn field(out: &mut Vec<u8>, number: u8, payload: &[u8]) {
        out.push(number << 3 | 2);
        let mut length = payload.len();
        while 0x7f < length {
            out.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
        out.extend_from_slice(payload);
    }

    fn value(node: &Node) -> Vec<u8> {
        let mut out = Vec::new();
        match node {
            Node::Null => out.extend([1 << 3, 0]),
            Node::Bool(value) => out.extend([4 << 3, u8::from(*value)]),
            Node::Int(number) => {
                out.push(2 << 3 | 1);
                out.extend((*number as f64).to_le_bytes());
            }
            Node::Float(number) => {
                out.push(2 << 3 | 1);
                out.extend(number.to_le_bytes());
            }
            Node::Text(text) => field(&mut out, 3, text.as_bytes()),
            Node::Map(_) => field(&mut out, 5, &structure(node)),
            Node::List(items) => {
                let mut list = Vec::new();
                items.iter().for_each(|item| field(&mut list, 1, &value(item)));
                field(&mut out, 6, &list);
            }
        }
        out
    }

    let Node::Map(fields) = node else { panic!("a Struct is a map") };
    let mut out = Vec::new();
    for (name, node) in fields {
        let mut entry = Vec::new();
        field(&mut entry, 1, name.as_bytes());
        field(&mut entry, 2, &value(node));
        field(&mut out, 1, &entry);
    }
    out
}
