//! The leaky bucket: requests wait their turn in Envoy.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sluicegate_testing::client::{Client, with_status};

use super::CHAIN;
use crate::rig::{by, eventually, statuses};

pub(super) fn limits() -> Vec<Value> {
    let queue = |name: &str, rate: &str, up_to: &str, waiting: u64| {
        json!({"name": name, "match": {"path": format!("/{name}")}, "key": "caller", "when_unavailable": "deny",
               "leaky_bucket": {"rate": rate, "wait": {"up_to": up_to, "waiting": waiting}}})
    };
    vec![
        queue("queue", "10/s", "60s", 5),
        queue("queue-short", "10/s", "250ms", 100),
        queue("queue-slow", "1/1m", "60s", 100),
    ]
}

#[tokio::test]
async fn requests_wait_their_turn_in_order_and_no_more_than_may_wait() {
    let chain = CHAIN.chain();
    // One connection, so that there is an order; it is there before the first of them is sent.
    let client = Client::http2(chain.envoy.address());
    client.get("/queue-less").send().await;
    let begun = Instant::now();
    let mut sent = Vec::new();
    for n in 0..8 {
        sent.push(tokio::spawn(by(&client, &format!("/queue?n={n}"), "one").send()));
        tokio::task::yield_now().await;
    }
    let mut replies = Vec::new();
    for reply in sent {
        replies.push(reply.await.unwrap());
    }
    // One at once and five that wait; a machine slow enough gives the seventh a place too.
    let passed = with_status(&replies, 200);
    let drained = begun.elapsed().as_millis() / 100;
    assert!((6..=6 + drained as usize).contains(&passed), "{:?}", statuses(&replies));
    assert!(replies.iter().take(6).all(|reply| reply.status == 200), "{:?}", statuses(&replies));
    assert!(begun.elapsed() >= Duration::from_millis(500), "the sixth came {:?} after", begun.elapsed());
    let arrived = chain.upstream.arrivals("/queue?");
    assert!(arrived.is_sorted(), "{arrived:?}");
    assert_eq!(arrived.len(), passed);
}

#[tokio::test]
async fn what_would_wait_too_long_is_refused_at_once() {
    let chain = CHAIN.chain();
    let client = chain.client();
    let replies = client.burst(20, |client, _| by(client, "/queue-short", "one")).await;
    // At 0, 100 and 200 ms.
    let passed = with_status(&replies, 200);
    assert!((3..20).contains(&passed), "{:?}", statuses(&replies));
    assert_eq!(with_status(&replies, 429), 20 - passed);
    let refused = replies.iter().find(|reply| reply.status == 429).unwrap();
    assert_eq!(refused.number("retry-after"), Some(1));
}

/// A caller that waits 300 ms is not kept for a minute, and one that leaves its place gives the queue nothing to do.
#[tokio::test]
async fn nobody_waits_past_a_deadline() {
    let chain = CHAIN.chain();
    let client = chain.client();
    assert_eq!(by(&client, "/queue-slow", "one").send().await.status, 200);
    let late = by(&client, "/queue-slow", "one").header("grpc-timeout", "300m").send().await;
    assert_eq!(late.status, 503, "{}", late.text());
    assert_eq!(late.number("retry-after"), Some(1));
    assert_eq!(chain.upstream.count("/queue-slow"), 1);

    let patient = tokio::spawn(by(&client, "/queue-slow", "two").send());
    assert_eq!(patient.await.unwrap().status, 200);
    let leaves = tokio::spawn(by(&client, "/queue-slow", "two").send());
    let outstanding = || chain.envoy.metrics().sum("sluicegate_class_abandoned", &[]);
    let before = outstanding();
    tokio::time::sleep(Duration::from_millis(100)).await;
    leaves.abort();
    eventually("the place is given up", Duration::from_secs(5), async || outstanding() > before).await;
}
