//! What the tests of the shim share.

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testing::client::{Client, Reply};

/// `n` keys that nobody else uses: base64url, told apart by their first six characters.
pub(crate) fn key(n: usize) -> String {
    format!("{n:06}-aaaaaaaaaaaaaaa")
}

/// A limit that lets `n` through and then nothing for as long as a test lasts.
pub(crate) fn only(name: &str, n: u64) -> Value {
    json!([name, {"token_bucket": {"burst": n, "tokens": 1, "period_us": 2_592_000_000_000_u64}}])
}

/// A batch of takes, each `[[limit, key, cost, at_least], ...]`.
pub(crate) fn batch(limits: &[Value], takes: &[Value]) -> Value {
    let takes: Vec<Value> = takes.iter().map(|asks| json!({"asks": asks})).collect();
    json!({"version": 1, "namespace": "default", "limits": limits, "takes": takes})
}

/// One take of one token of limit 0.
pub(crate) fn one(key: &str) -> Value {
    json!([[0, key, 1, 1]])
}

/// Sends a batch.
pub(crate) async fn send(client: &Client, batch: &Value) -> Reply {
    client.post("/v1/take").body(batch.to_string()).send().await
}

/// Sends a batch that has to be answered, and gives the verdicts.
pub(crate) async fn take(client: &Client, batch: &Value) -> Vec<Value> {
    let reply = send(client, batch).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.header("x-sluicegate"), Some("1"));
    let mut answer: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(answer["version"], 1);
    serde_json::from_value(answer["verdicts"].take()).unwrap()
}

/// Whether a verdict lets its request pass; `None` when there is no decision.
pub(crate) fn passed(verdict: &Value) -> Option<bool> {
    Some(verdict.as_array()?.iter().all(|standing| standing[0] == 1))
}

/// How many of the verdicts pass.
pub(crate) fn passing(verdicts: &[Value]) -> usize {
    verdicts.iter().filter(|verdict| passed(verdict) == Some(true)).count()
}

/// Polls until it holds.
///
/// # Panics
///
/// It does not hold in time.
pub(crate) async fn eventually(what: &str, within: Duration, mut holds: impl AsyncFnMut() -> bool) {
    let polled = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(within, polled).await.is_ok(), "not within {within:?}: {what}");
}
