//! From a batch to calls of `lua/take.lua`, and from their replies to verdicts. No I/O: the caller sends.
//!
//! A [`Plan`] holds one [`Call`] for each run of the script: in one Redis a single call for the whole batch (unless
//! it touches more than [`KEYS_MAX`] keys), in a Cluster one for each tag, since only keys of one tag are sure to
//! share a slot. Calls of one plan may be sent at once and in any order.
//!
//! A take whose limits count different identities has parts in several calls of a Cluster. Each part is all or
//! nothing by itself; when one is refused or lost, [`Plan::conclude`] hands back the calls that refund the others.
//! So such a take never admits more than its limits allow; until the refund arrives, and for good if the shim dies
//! before it, what the refused request took elsewhere is missing there: at most one request's cost for each limit.

mod encode;
mod plan;

pub use encode::{BadReply, Call, KEYS_MAX};
pub use plan::{BadBatch, Conclusion, Layout, Plan};

use sluicegate_policy::limit::Algorithm;
use sluicegate_policy::wire::TAG_LEN;

/// The script.
pub const TAKE: &str = include_str!("../../lua/take.lua");

/// A call about nothing, which reads one key of ours: whoever may run it may take.
pub fn probe(prefix: &str) -> Call {
    Call::about_nothing(format!("{prefix}:{{probe}}"))
}

/// The Redis key of one key under one limit: `<prefix>:<namespace>:{<tag>}:<limit>:<key>`.
///
/// The tag is the beginning of the key, so limits that count the same identity share a slot. Places of a
/// concurrency limit are a set, and kept apart by a `:c` at the end, so that a changed algorithm never meets a value
/// of the wrong type.
fn redis_key(prefix: &str, namespace: &str, limit: &str, key: &str, algorithm: &Algorithm) -> String {
    let [value, places] = redis_keys(prefix, namespace, limit, key);
    match algorithm {
        Algorithm::Concurrency(_) => places,
        _ => value,
    }
}

/// All Redis keys that one key under one limit may have, whatever the algorithm: deleting them makes it as good as
/// new.
pub fn redis_keys(prefix: &str, namespace: &str, limit: &str, key: &str) -> [String; 2] {
    let value = format!("{prefix}:{namespace}:{{{}}}:{limit}:{key}", tag(key));
    let places = format!("{value}:c");
    [value, places]
}

/// The part of a key that chooses its slot.
fn tag(key: &str) -> &str {
    key.get(..TAG_LEN).unwrap_or(key)
}
