//! Answers that are none, that come too late, or for nobody.

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testing::host::{Fate, Host, StreamId};

use crate::talk::{allow, answer, by, call, deny, host, local, policy};

/// One bucket, shared, and nothing passes without a decision.
fn closed() -> Value {
    policy(json!([{"name": "per-caller", "key": "caller", "token_bucket": {"burst": 3, "rate": "1/s"},
                   "when_unavailable": "deny"}]))
}

fn is_unavailable(host: &Host, id: StreamId, what: &str) {
    let reply = local(host, id);
    assert_eq!(reply.status, 503, "{what}: nobody has used up anything");
    assert_eq!(reply.headers["x-shed-reason"], "unavailable", "{what}");
    assert!(
        !reply.headers.keys().any(|name| name.contains("ratelimit-")),
        "{what}: limits are never invented"
    );
}

#[test]
fn an_answer_that_is_none_is_no_decision() {
    let good = br#"{"version":1,"verdicts":[[[1,1,2,1000000,0,0]]]}"#;
    let huge = vec![b' '; 2 << 20];
    let answers: [(&str, u16, &[u8]); 13] = [
        ("another status", 500, good),
        ("a redirect", 302, good),
        ("nothing", 200, b""),
        ("no text", 200, b"\xff\x00\xfe"),
        ("another document", 200, b"<html></html>"),
        ("half of it", 200, &good[..good.len() - 2]),
        ("something behind it", 200, br#"{"version":1,"verdicts":[[[1,1,2,1000000,0,0]]]} x"#),
        ("another version", 200, br#"{"version":2,"verdicts":[[[1,1,2,1000000,0,0]]]}"#),
        ("no verdict", 200, br#"{"version":1,"verdicts":[]}"#),
        (
            "a verdict too many",
            200,
            br#"{"version":1,"verdicts":[[[1,1,2,1000000,0,0]],[[1,1,2,1000000,0,0]]]}"#,
        ),
        ("a standing too few", 200, br#"{"version":1,"verdicts":[[]]}"#),
        ("more than was asked for", 200, br#"{"version":1,"verdicts":[[[1,9,2,1000000,0,0]]]}"#),
        ("far too much", 200, &huge),
    ];
    for (what, status, body) in answers {
        let mut host = host(&closed());
        let id = by(&mut host, "k1");
        host.run();
        let token = call(&host).token;
        host.answer(token, status, &[], body);
        is_unavailable(&host, id, what);
        // The next one is asked for as ever.
        let id = by(&mut host, "k2");
        host.run();
        let token = call(&host).token;
        answer(&mut host, token, vec![Some(vec![allow(2)])]);
        assert_eq!(host.fate(id), Fate::Upstream, "after {what}");
    }
}

#[test]
fn a_callout_that_breaks_or_cannot_be_made_is_no_decision() {
    let mut host = host(&closed());
    let id = by(&mut host, "k1");
    host.run();
    let token = call(&host).token;
    host.reset(token);
    is_unavailable(&host, id, "a reset");
    host.refuse_calls("shim", Some(10));
    let id = by(&mut host, "k2");
    host.run();
    is_unavailable(&host, id, "no endpoint");
    host.refuse_calls("shim", None);
    let id = by(&mut host, "k3");
    host.run();
    let token = call(&host).token;
    answer(&mut host, token, vec![Some(vec![deny(1_000_000)])]);
    assert_eq!(local(&host, id).status, 429);
}

/// WF-3: what comes for a request that is gone, or comes twice, finds nobody and harms nobody.
#[test]
fn wf_3_what_comes_too_late_does_nothing() {
    let mut host = host(&closed());
    let gone = by(&mut host, "gone");
    let stays = by(&mut host, "stays");
    host.run();
    host.leave(gone);
    let mut decided = false;
    while let Some(call) = host.calls().into_iter().next() {
        let takes = crate::talk::batch(&call).takes.len();
        answer(&mut host, call.token, vec![Some(vec![allow(2)]); takes]);
        host.run();
        decided = true;
    }
    assert!(decided);
    assert_eq!(host.fate(stays), Fate::Upstream);

    // Its own deadline is past when the answer comes.
    let late = by(&mut host, "late");
    host.run();
    let token = call(&host).token;
    host.advance(Duration::from_secs(2));
    is_unavailable(&host, late, "a deadline");
    answer(&mut host, token, vec![Some(vec![allow(2)])]);
    host.advance(Duration::from_secs(2));
    let next = by(&mut host, "next");
    host.run();
    let token = call(&host).token;
    answer(&mut host, token, vec![Some(vec![allow(2)])]);
    assert_eq!(host.fate(next), Fate::Upstream);
    let log = host.log().join("\n");
    assert!(!log.contains("panic"), "{log}");
}
