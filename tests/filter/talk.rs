//! What the tests say to the fake Envoy, and what a shim would answer.

use serde_json::{Value, json};
use sluicegate_policy::wire::{Answer, Batch, WireStanding};
use sluicegate_testing::host::{Call, Fate, Host, LocalReply, StreamId};

/// A policy of these limits, with the identities `caller` (header `x-api-key`) and `address`.
pub(crate) fn policy(limits: Value) -> Value {
    json!({
        "version": 1,
        "shim": {"cluster": "shim"},
        "identities": {"caller": {"header": "x-api-key"}, "address": {"client_ip": {}}},
        "limits": limits,
    })
}

/// One bucket of three, shared, by API key.
pub(crate) fn shared() -> Value {
    policy(json!([{"name": "per-caller", "key": "caller", "token_bucket": {"burst": 3, "rate": "1/s"}}]))
}

/// A host with this policy.
pub(crate) fn host(policy: &Value) -> Host {
    Host::new(&policy.to_string())
}

/// A request of this caller.
pub(crate) fn by(host: &mut Host, caller: &str) -> StreamId {
    host.get("/", &[("x-api-key", caller)])
}

/// The only callout that has not been answered.
pub(crate) fn call(host: &Host) -> Call {
    let mut calls = host.calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    calls.remove(0)
}

/// What a callout asks.
pub(crate) fn batch(call: &Call) -> Batch {
    serde_json::from_slice(&call.body).expect("a batch as the wire module reads it")
}

/// Answers a callout as a shim does: one list of standings for each take.
pub(crate) fn answer(host: &mut Host, token: u32, verdicts: Vec<Option<Vec<WireStanding>>>) {
    let body = serde_json::to_vec(&Answer { version: 1, verdicts }).unwrap();
    host.answer(token, 200, &[("x-sluicegate", "1")], &body);
}

/// Answers every callout, and those that follow from the answers: this for each ask.
pub(crate) fn answer_all(host: &mut Host, standing: impl Fn(u64) -> WireStanding) {
    host.run();
    while let Some(call) = host.calls().into_iter().next() {
        let takes = batch(&call).takes;
        let verdicts = takes.iter().map(|take| Some(take.asks.iter().map(|ask| standing(ask.2)).collect()));
        answer(host, call.token, verdicts.collect());
        host.run();
    }
}

/// So many tokens are left after this.
pub(crate) fn allow(remaining: u64) -> WireStanding {
    WireStanding(1, 1, remaining, 1_000_000, 0, 0)
}

/// Nothing is left for this long.
pub(crate) fn deny(retry_after_us: u64) -> WireStanding {
    WireStanding(0, 0, 0, 3_000_000, retry_after_us, 0)
}

/// The filter's own answer to the request.
pub(crate) fn local(host: &Host, id: StreamId) -> LocalReply {
    match host.fate(id) {
        Fate::Local(reply) => reply,
        other => panic!("{other:?}"),
    }
}
