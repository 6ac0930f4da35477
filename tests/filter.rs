//! The shipped module under a fake Envoy: a request's way, seen from outside.

#![cfg(not(target_arch = "wasm32"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::time::Duration;

use sluicegate_policy::wire::{Answer, Batch, WireStanding};
use sluicegate_testing::host::{Call, Fate, Host, LocalReply};

/// One bucket of three, shared, by API key; in doubt the request passes.
const SHARED: &str = r#"
    {"version":1,"shim":{"cluster":"shim"},
     "identities":{"caller":[{"header":"x-api-key"}]},
     "limits":[{"name":"per-caller","key":"caller","token_bucket":{"burst":3,"rate":"1/s"}}],
     "responses":{"ratelimit_headers":"triple"}}"#;

fn batch(call: &Call) -> Batch {
    serde_json::from_slice(&call.body).expect("a batch as the wire module reads it")
}

/// Answers a callout as a shim does: one list of standings for each take.
fn answer(host: &mut Host, token: u32, verdicts: Vec<Option<Vec<WireStanding>>>) {
    let body = serde_json::to_vec(&Answer { version: 1, verdicts }).unwrap();
    host.answer(token, 200, &[("x-sluicegate", "1")], &body);
}

fn allow(remaining: u64) -> WireStanding {
    WireStanding(1, 1, remaining, 1_000_000, 0, 0)
}

fn deny(retry_after_us: u64) -> WireStanding {
    WireStanding(0, 0, 0, 3_000_000, retry_after_us, 0)
}

fn local(host: &Host, id: sluicegate_testing::host::StreamId) -> LocalReply {
    match host.fate(id) {
        Fate::Local(reply) => reply,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_allowed_request_goes_on_with_fields_in_its_response() {
    let mut host = Host::new(SHARED);
    let id = host.get("/", &[("x-api-key", "k1")]);
    assert_eq!(host.fate(id), Fate::Paused);
    host.run();
    let call = host.calls().remove(0);
    assert_eq!((call.cluster.as_str(), call.headers[":path"].as_str()), ("shim", "/v1/take"));
    assert_eq!(call.timeout, Duration::from_millis(50));
    let batch = batch(&call);
    assert_eq!((batch.takes.len(), batch.takes[0].asks.len(), batch.takes[0].asks[0].2), (1, 1, 1));
    assert!(!String::from_utf8_lossy(&call.body).contains("k1"), "keys carry no client text");
    answer(&mut host, call.token, vec![Some(vec![allow(2)])]);
    assert_eq!(host.fate(id), Fate::Upstream);
    let response = host.respond(id, 200, &[]);
    assert_eq!(response["ratelimit-limit"], "3");
    assert_eq!(response["ratelimit-remaining"], "2");
    assert_eq!(response["ratelimit-reset"], "1");
}

#[test]
fn a_refused_request_gets_429() {
    let mut host = Host::new(SHARED);
    let id = host.get("/", &[("x-api-key", "k1")]);
    host.run();
    let token = host.calls()[0].token;
    answer(&mut host, token, vec![Some(vec![deny(1_500_000)])]);
    let reply = local(&host, id);
    assert_eq!(reply.status, 429);
    assert_eq!(reply.headers["retry-after"], "2");
    assert_eq!(reply.headers["content-type"], "application/problem+json");
    assert!(reply.body.contains("\"violated-policies\":[\"per-caller\"]"), "{}", reply.body);
}
