//! The policy changes while Envoy runs.

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testing::client::{Client, Reply};

use crate::rig::{Chain, NEVER, by, eventually, passed, policy, row, statuses};

pub(crate) const SOON: Duration = Duration::from_secs(20);

/// One limit on everything.
pub(crate) fn limit(algorithm: &str, numbers: Value) -> Value {
    policy(json!([{"name": "only", "key": "caller", algorithm: numbers, "when_unavailable": "deny"}]))
}

/// Gives Envoy this policy and waits until its workers serve by it.
pub(crate) async fn adopt(chain: &mut Chain, policy: &Value) {
    let before = chain.envoy.stat("listener_manager.lds.update_success");
    chain.envoy.replace_policy(&policy.to_string());
    let taken = async || chain.envoy.stat("listener_manager.lds.update_success") > before;
    eventually("the update is taken", SOON, taken).await;
    // Connections of the old listener drain; new ones come to the new one.
    let drained = async || chain.envoy.stat("listener_manager.total_listeners_draining") == 0;
    eventually("the old listener is gone", SOON, drained).await;
}

pub(crate) fn remaining(replies: &[Reply]) -> Vec<u64> {
    replies.iter().map(|reply| reply.number("ratelimit-remaining").unwrap()).collect()
}

/// New numbers of each algorithm: usage stays, raising helps at once, lowering never shows less than nothing.
#[tokio::test]
async fn usage_carries_over_and_another_algorithm_starts_clean() {
    let bucket = |burst: u64| limit("token_bucket", json!({"burst": burst, "rate": NEVER}));
    let fixed = |limit_: u64| limit("fixed_window", json!({"limit": limit_, "per": "1h"}));
    let sliding = |limit_: u64| limit("sliding_window", json!({"limit": limit_, "per": "1h"}));
    let exact = |limit_: u64| limit("sliding_window", json!({"limit": limit_, "per": "1h", "exact": true}));
    let kinds: [&dyn Fn(u64) -> Value; 4] = [&bucket, &fixed, &sliding, &exact];
    let mut chain = Chain::with(&bucket(10), |setup| setup.dynamic());
    for (nth, numbers) in kinds.iter().enumerate() {
        if nth > 0 {
            // Another algorithm: as good as new.
            adopt(&mut chain, &numbers(10)).await;
        }
        let replies = row(&chain.client(), 6, "/", "one").await;
        assert_eq!(remaining(&replies), [9, 8, 7, 6, 5, 4], "kind {nth}");

        adopt(&mut chain, &numbers(12)).await;
        let replies = row(&chain.client(), 7, "/", "one").await;
        assert_eq!(remaining(&replies), [5, 4, 3, 2, 1, 0, 0], "kind {nth}: raised by two");
        assert_eq!(statuses(&replies), [200, 200, 200, 200, 200, 200, 429]);

        adopt(&mut chain, &numbers(5)).await;
        let refused = by(&chain.client(), "/", "one").send().await;
        assert_eq!(refused.status, 429, "kind {nth}: lowered below what is used");
        assert_eq!(
            (refused.number("ratelimit-limit"), refused.number("ratelimit-remaining")),
            (Some(5), Some(0))
        );
        assert!(refused.number("retry-after").unwrap() >= 1);

        adopt(&mut chain, &numbers(13)).await;
        assert_eq!(passed(&row(&chain.client(), 2, "/", "one").await), 1, "kind {nth}: of 13, 12 are used");
    }
}

/// Requests that wait, at the upstream or for their decision, end well when the policy changes under them, and no
/// account stays open.
#[tokio::test]
async fn requests_under_way_are_finished_by_the_policy_they_met() {
    let places = |max: u64| limit("concurrency", json!({"max": max, "release_after": "60s"}));
    let mut chain = Chain::with(&places(4), |setup| setup.dynamic().edit("timeout: 5s", "timeout: 60s"));
    chain.upstream.hold();
    let client = Client::http2(chain.envoy.address());
    let held = tokio::spawn({
        let client = client.clone();
        async move { client.burst(4, |client, _| by(client, "/", "one")).await }
    });
    eventually("all are at the upstream", SOON, async || chain.upstream.in_flight() == 4).await;
    let outstanding = |chain: &Chain| chain.envoy.metrics().sum("sluicegate_class_outstanding", &[]);
    eventually("they are counted", SOON, async || outstanding(&chain) == 4.0).await;

    let before = chain.envoy.stat("listener_manager.lds.update_success");
    chain.envoy.replace_policy(&places(5).to_string());
    let taken = async || chain.envoy.stat("listener_manager.lds.update_success") > before;
    eventually("the update is taken", SOON, taken).await;
    let fifth = tokio::spawn(by(&chain.client(), "/", "one").send());
    eventually("one more has a place", SOON, async || chain.upstream.in_flight() == 5).await;
    assert_eq!(by(&chain.client(), "/", "one").send().await.status, 429, "and no more than one");
    chain.upstream.release();
    assert_eq!(statuses(&held.await.unwrap()), [200; 4]);
    assert_eq!(fifth.await.unwrap().status, 200);

    let free = async || passed(&chain.client().burst(5, |client, _| by(client, "/", "one")).await) == 5;
    eventually("all places are free", SOON, free).await;
    eventually("nothing is outstanding", SOON, async || outstanding(&chain) == 0.0).await;
}

/// A new policy comes with new VMs: the one that read Envoy's stats is gone, and another takes over.
#[tokio::test]
async fn the_vm_that_polls_may_go() {
    let protected = |burst: u64| {
        let mut policy = limit("token_bucket", json!({"burst": burst, "rate": NEVER}));
        policy["overload"] = json!({"upstreams": [{"cluster": "web"}], "admin_cluster": "envoy-admin"});
        policy
    };
    let mut chain = Chain::with(&protected(100), |setup| setup.dynamic());
    let leaders = |chain: &Chain| chain.envoy.log().matches("this worker polls Envoy's stats").count();
    let fresh = |chain: &Chain| {
        let age_ms = chain.envoy.metrics().sum("sluicegate_overload_poll_age_ms", &[]);
        0.0 < age_ms && age_ms < 1_000.0
    };
    eventually("stats are read", SOON, async || leaders(&chain) > 0 && fresh(&chain)).await;
    let before = leaders(&chain);
    adopt(&mut chain, &protected(101)).await;
    eventually("another reads them", SOON, async || leaders(&chain) > before && fresh(&chain)).await;
    assert_eq!(statuses(&row(&chain.client(), 20, "/", "one").await), [200; 20]);
}
