//! Clients that leave while their request waits for its decision.

use std::time::Duration;

use serde_json::json;
use sluicegate_testing::client::{Client, with_status};
use sluicegate_testing::meddler::{Meddler, Meddling};
use sluicegate_testing::redis::Redis;
use sluicegate_testing::shim::Shim;

use crate::rig::{Chain, NEVER, by, eventually, policy, statuses};

/// Sends `n` requests of `gone` at once and leaves after 20 ms.
async fn send_and_leave(client: &Client, n: usize) {
    let mut leaving = tokio::task::JoinSet::new();
    for _ in 0..n {
        let ask = by(client, "/gone", "gone");
        leaving.spawn(async move {
            tokio::time::timeout(Duration::from_millis(20), ask.try_send()).await.is_err()
        });
    }
    assert!(leaving.join_all().await.into_iter().all(|left| left), "nobody was answered that soon");
}

/// WF-3: <https://github.com/proxy-wasm/proxy-wasm-rust-sdk/issues/82>: a callback for a request that was gone panicked.
#[tokio::test]
async fn wf_3_clients_that_leave_harm_nobody() {
    let redis = Redis::start(&[]);
    let shim = Shim::patient(&redis.url());
    let meddler = Meddler::start(shim.address());
    let way = meddler.address();
    let limits = json!([
        {"name": "five", "match": {"path": "/"}, "key": "caller", "when_unavailable": "deny",
         "token_bucket": {"burst": 5, "rate": NEVER}},
        {"name": "gone", "match": {"path": "/gone"}, "key": "caller", "when_unavailable": "deny",
         "token_bucket": {"burst": 1_000, "rate": NEVER}},
    ]);
    let mut policy = policy(limits);
    policy["shim"]["timeout"] = json!("10s");
    let chain = Chain::on(redis, shim, &policy, |setup| setup.shim(way).workers(1));
    let client = chain.client();
    let http2 = Client::http2(chain.envoy.address());
    assert_eq!(http2.get("/other").send().await.status, 200);

    // Nobody is decided about until all have left who will.
    meddler.set(Meddling::Hold);
    let patient = tokio::spawn({
        let client = client.clone();
        async move { client.burst(50, |client, n| by(client, "/", &format!("c{}", n % 5))).await }
    });
    for _ in 0..5 {
        // A connection that closes, and a stream that is reset.
        tokio::join!(send_and_leave(&client, 50), send_and_leave(&http2, 50));
    }
    let waiting = || chain.envoy.stat("http.gateway.downstream_rq_active");
    eventually("only the patient are left", Duration::from_secs(5), async || waiting() == 50).await;
    let abandoned = || chain.envoy.metrics().sum("sluicegate_class_abandoned", &[]);
    eventually("the others are counted", Duration::from_secs(5), async || abandoned() > 0.0).await;
    meddler.set(Meddling::Pass);
    let replies = patient.await.unwrap();
    assert_eq!(with_status(&replies, 200), 25, "{:?}", statuses(&replies));
    assert_eq!(with_status(&replies, 429), 25, "{:?}", statuses(&replies));

    let outstanding = || chain.envoy.metrics().sum("sluicegate_class_outstanding", &[]);
    eventually("nothing is in flight", Duration::from_secs(5), async || outstanding() == 0.0).await;
    let left = by(&client, "/gone", "gone").send().await.number("ratelimit-remaining").unwrap();
    assert!((499..=999).contains(&left), "500 left, and this one: {left} of 1000 remain");
    assert_eq!(chain.upstream.count("/gone"), 1, "who is gone is not sent on");
    let log = chain.envoy.log();
    assert!(!log.contains("panic") && !log.contains("[critical]") && !log.contains("[error]"), "{log}");
}
