//! What a request costs in host calls, by kind. Each is a step out of the VM and back: cheap, but most of the price.
//!
//! A number that falls is good news, to be written down here; one that rises has to be worth it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sluicegate_policy::wire::WireStanding;
use sluicegate_testing::host::{Host, StreamId};

use crate::talk::{answer_all, by, deny, host, policy};

type Calls = BTreeMap<&'static str, u64>;

/// One bucket, enforced this way.
fn bucket(enforce: Value) -> Value {
    policy(
        json!([{"name": "per-caller", "key": "caller", "token_bucket": {"burst": 100, "rate": "1/s"}, "enforce": enforce}]),
    )
}

fn leased() -> Value {
    bucket(json!({"leased": {"size": 20, "for": "60s"}}))
}

/// As much as a gateway is likely to have: limits by path, classes, a protected upstream.
fn full() -> Value {
    let mut policy = leased();
    let limits = policy["limits"].as_array_mut().unwrap();
    limits.push(json!({"name": "login", "match": {"path": "/login"}, "key": "address", "sliding_window": {"limit": 5, "per": "1m"}}));
    limits.push(json!({"name": "search", "match": {"path_prefix": "/search"}, "key": "caller", "token_bucket": {"burst": 20, "rate": "2/s"}}));
    policy["overload"] = json!({
        "upstreams": [{"cluster": "web"}],
        "classes": [{"class": "critical", "match": {"path_prefix": "/checkout"}}],
        "exempt": [{"path": "/healthz"}],
    });
    policy
}

fn granted(cost: u64) -> WireStanding {
    WireStanding(1, cost, 50, 1_000_000, 0, 0)
}

/// A host in which the caller `k` is known: blocks are leased, the batch has its buffers.
fn warm(policy: &Value) -> Host {
    let mut host = host(policy);
    for _ in 0..3 {
        let id = by(&mut host, "k");
        answer_all(&mut host, granted);
        host.respond(id, 200, &[]);
    }
    host.take_hostcalls();
    host
}

/// A request from its first header to its end, with the callout it needs.
fn whole(host: &mut Host) -> Calls {
    let id: StreamId = by(host, "k");
    answer_all(host, granted);
    host.respond(id, 200, &[]);
    host.take_hostcalls()
}

fn total(calls: &Calls) -> u64 {
    calls.values().sum()
}

#[track_caller]
fn is(calls: &Calls, expected: &[(&'static str, u64)]) {
    assert_eq!(*calls, expected.iter().copied().collect::<Calls>(), "{} calls", total(calls));
}

const TIME: &str = "proxy_get_current_time_nanoseconds";
const READ: &str = "proxy_get_header_map_pairs";
const WRITE: &str = "proxy_replace_header_map_value";

/// Read: the headers of the request, those of the response. The clock is looked at once.
#[test]
fn allowed_from_here() {
    for enforce in [json!("local"), json!({"leased": {"size": 20, "for": "60s"}})] {
        let calls = whole(&mut warm(&bucket(enforce)));
        is(&calls, &[(TIME, 1), (READ, 2), (WRITE, 3)]);
        assert!(total(&calls) <= 12, "the bar");
    }
}

/// Saturation control asks besides how long the upstream takes.
#[test]
fn allowed_from_here_with_all_that_a_gateway_has() {
    is(&whole(&mut warm(&full())), &[(TIME, 3), (READ, 2), (WRITE, 3)]);
}

/// The callout and its answer; in a batch they are shared by all that wait.
#[test]
fn allowed_by_the_shim() {
    let calls = whole(&mut warm(&bucket(json!("shared"))));
    is(
        &calls,
        &[
            ("proxy_continue_stream", 1),
            ("proxy_dequeue_shared_queue", 2),
            ("proxy_enqueue_shared_queue", 1),
            ("proxy_get_buffer_bytes", 1),
            ("proxy_get_header_map_value", 2),
            (TIME, 5),
            (READ, 2),
            ("proxy_http_call", 1),
            (WRITE, 3),
            ("proxy_set_effective_context", 2),
        ],
    );
}

/// Of many at once, each costs little more than one that nobody is asked about.
#[test]
fn allowed_by_the_shim_in_a_batch() {
    let mut host = warm(&bucket(json!("shared")));
    let n = 100;
    let ids: Vec<StreamId> = (0..n).map(|_| by(&mut host, "k")).collect();
    answer_all(&mut host, granted);
    for id in ids {
        host.respond(id, 200, &[]);
    }
    let calls = host.take_hostcalls();
    assert_eq!(calls["proxy_http_call"], 1);
    assert!(total(&calls) <= 12 * n, "{calls:?}");
}

#[test]
fn known_to_be_refused() {
    let mut host = host(&bucket(json!("shared")));
    by(&mut host, "k");
    answer_all(&mut host, |_| deny(9_000_000));
    host.take_hostcalls();
    by(&mut host, "k");
    is(&host.take_hostcalls(), &[(TIME, 1), (READ, 1), ("proxy_send_local_response", 1)]);
}

/// A shed request is not looked at any further: neither its key nor its limits.
#[test]
fn shed() {
    let mut policy = full();
    policy["overload"]["upstreams"][0]["max_in_flight"] = json!(1);
    let mut host = warm(&policy);
    let held: Vec<StreamId> = (0..20).map(|_| by(&mut host, "k")).collect();
    host.take_hostcalls();
    let id = by(&mut host, "k");
    assert_eq!(crate::talk::local(&host, id).status, 503, "{held:?}");
    is(&host.take_hostcalls(), &[(TIME, 1), (READ, 1), ("proxy_send_local_response", 1)]);
}

#[test]
fn exempt() {
    let mut host = warm(&full());
    let id = host.get("/healthz", &[]);
    host.respond(id, 200, &[]);
    is(&host.take_hostcalls(), &[(TIME, 3), (READ, 2)]);
}
