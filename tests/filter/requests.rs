//! The common way of a request, in both directions.

use std::time::Duration;

use sluicegate_testing::host::Fate;

use crate::talk::{allow, answer, batch, by, call, deny, host, local, shared};

#[test]
fn an_allowed_request_goes_on_with_fields_in_its_response() {
    let mut host = host(&shared());
    let id = by(&mut host, "k1");
    assert_eq!(host.fate(id), Fate::Paused);
    host.run();
    let call = call(&host);
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
    let mut host = host(&shared());
    let id = by(&mut host, "k1");
    host.run();
    let token = call(&host).token;
    answer(&mut host, token, vec![Some(vec![deny(1_500_000)])]);
    let reply = local(&host, id);
    assert_eq!(reply.status, 429);
    assert_eq!(reply.headers["retry-after"], "2");
    assert_eq!(reply.headers["content-type"], "application/problem+json");
    assert!(reply.body.contains("\"violated-policies\":[\"per-caller\"]"), "{}", reply.body);
}
