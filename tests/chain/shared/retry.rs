//! Retry-After: whole seconds, and true.

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testing::client::Client;

use super::CHAIN;
use crate::rig::by;

/// Name, numbers, and the window in seconds: what it takes to get everything back.
fn kinds() -> Vec<(&'static str, Value, u64)> {
    vec![
        ("retry-bucket", json!({"token_bucket": {"burst": 2, "rate": "1/s"}}), 2),
        ("retry-rapid", json!({"token_bucket": {"burst": 5, "rate": "5/s"}}), 1),
        ("retry-leaky", json!({"leaky_bucket": {"burst": 2, "rate": "1/s", "wait": {"up_to": "1ms"}}}), 2),
        ("retry-fixed", json!({"fixed_window": {"limit": 2, "per": "2s"}}), 2),
        ("retry-aligned", json!({"fixed_window": {"limit": 2, "per": "2s", "align": "epoch"}}), 2),
        ("retry-sliding", json!({"sliding_window": {"limit": 2, "per": "2s"}}), 2),
        ("retry-exact", json!({"sliding_window": {"limit": 2, "per": "2s", "exact": true}}), 2),
    ]
}

pub(super) fn limits() -> Vec<Value> {
    let limit = |(name, mut limit, _): (&str, Value, u64)| {
        limit["name"] = json!(name);
        limit["match"] = json!({"path": format!("/{name}")});
        limit["key"] = json!("caller");
        limit["when_unavailable"] = json!("deny");
        limit
    };
    kinds().into_iter().map(limit).collect()
}

/// Uses a key up, waits exactly as long as it is told, and passes.
async fn waits_and_passes(client: Client, path: String, caller: String, window_s: u64) {
    let refused = loop {
        let reply = by(&client, &path, &caller).send().await;
        if reply.status != 200 {
            break reply;
        }
    };
    assert_eq!(refused.status, 429, "{path}");
    let wait_s = refused.number("retry-after").unwrap();
    assert!((1..=window_s).contains(&wait_s), "{path}: told to wait {wait_s} s of {window_s}");
    let reset_s = refused.number("ratelimit-reset").unwrap();
    assert!(wait_s <= reset_s, "{path}: good again in {wait_s} s, as good as new in {reset_s} s");
    tokio::time::sleep(Duration::from_secs(wait_s)).await;
    let reply = by(&client, &path, &caller).send().await;
    assert_eq!(reply.status, 200, "{path}: after {wait_s} s, told {:?}", reply.header("retry-after"));
}

/// HT-4: <https://github.com/fastify/fastify-rate-limit/issues/301>: clients were told a time that was not whole seconds,
/// or too short. 50 keys of each algorithm, at all moments of a window.
#[tokio::test]
async fn ht_4_retry_after_is_whole_seconds_and_true() {
    let chain = CHAIN.chain();
    let client = chain.client();
    let mut tasks = tokio::task::JoinSet::new();
    for (name, _, window_s) in kinds() {
        for n in 0..50 {
            let (client, path, caller) = (client.clone(), format!("/{name}"), format!("c{n}"));
            tasks.spawn(async move {
                tokio::time::sleep(Duration::from_millis(n * 40)).await;
                waits_and_passes(client, path, caller, window_s).await;
            });
        }
    }
    tasks.join_all().await;
}
