//! What a request costs, when that is more than one token or known only afterwards.

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testing::client::{Client, Reply};

use super::CHAIN;
use crate::rig::{NEVER, by, eventually, row, statuses};

pub(super) fn limits() -> Vec<Value> {
    let limit = |name: &str, rest: Value| {
        let mut limit = json!({"name": name, "match": {"path": format!("/{name}")}, "key": "caller", "when_unavailable": "deny"});
        limit.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        limit
    };
    vec![
        limit("five-each", json!({"token_bucket": {"burst": 12, "rate": NEVER}, "cost": 5})),
        limit(
            "as-said",
            json!({"token_bucket": {"burst": 100, "rate": NEVER}, "cost": {"request_header": {"name": "x-cost", "max": 60}}}),
        ),
        limit(
            "tokens",
            json!({"fixed_window": {"limit": 100, "per": "1h"}, "cost": {"response_header": "x-tokens-used"}}),
        ),
        limit(
            "debt",
            json!({"token_bucket": {"burst": 10, "rate": "10/s"}, "cost": {"response_header": "x-tokens-used"}}),
        ),
        limit(
            "failed-logins",
            json!({"sliding_window": {"limit": 3, "per": "15m"}, "charge_when": {"status": [401, 403]}}),
        ),
    ]
}

#[tokio::test]
async fn a_cost_is_taken_whole_or_not_at_all() {
    let chain = CHAIN.chain();
    let client = chain.client();
    let replies = row(&client, 3, "/five-each", "one").await;
    assert_eq!(statuses(&replies), [200, 200, 429]);
    let remaining: Vec<_> =
        replies.iter().map(|reply| reply.number("ratelimit-remaining").unwrap()).collect();
    assert_eq!(remaining, [7, 2, 2]);
}

#[tokio::test]
async fn a_request_header_says_the_cost_within_bounds() {
    let chain = CHAIN.chain();
    let client = chain.client();
    let costing = async |cost: &str| by(&client, "/as-said", "one").header("x-cost", cost).send().await;
    let remaining = |reply: &Reply| reply.number("ratelimit-remaining").unwrap();
    assert_eq!(remaining(&costing("30").await), 70);
    assert_eq!(remaining(&costing("ten").await), 69, "no number costs one");
    assert_eq!(costing("99999999999999999999").await.status, 200, "neither does one beyond all bounds");
    let dear = costing("1000").await;
    assert_eq!((dear.status, remaining(&dear)), (200, 8), "at most 60");
    assert_eq!(costing("9").await.status, 429);
    assert_eq!(remaining(&costing("8").await), 0);
}

/// A chat that used so many tokens.
async fn chat(client: &Client, path: &str, tokens: &str) -> Reply {
    by(client, path, "one").header("reply-with", format!("x-tokens-used={tokens}")).send().await
}

/// What the response tells is charged then, even beyond the limit; until the debt is paid nothing passes.
#[tokio::test]
async fn a_response_says_the_cost() {
    let chain = CHAIN.chain();
    let client = chain.client();
    let peek = async || by(&client, "/tokens", "one").send().await;
    assert_eq!(chat(&client, "/tokens", "60").await.status, 200);
    eventually("60 are charged", Duration::from_secs(5), async || {
        peek().await.number("ratelimit-remaining") == Some(40)
    })
    .await;
    assert_eq!(chat(&client, "/tokens", "90").await.status, 200, "there were 40 left");
    eventually("90 are charged", Duration::from_secs(5), async || peek().await.status == 429).await;
    let refused = peek().await;
    assert_eq!(refused.number("ratelimit-remaining"), Some(0), "debt is not shown as a negative number");
    assert!((1..=3_600).contains(&refused.number("retry-after").unwrap()));
}

/// Debt is bounded by the limit, whatever an upstream claims: a bucket of ten is as good as new after two seconds.
#[tokio::test]
async fn debt_is_bounded() {
    let chain = CHAIN.chain();
    let client = chain.client();
    assert_eq!(chat(&client, "/debt", "18446744073709551615").await.status, 200);
    let peek = async || by(&client, "/debt", "one").send().await;
    eventually("it is charged", Duration::from_secs(5), async || peek().await.status == 429).await;
    let refused = peek().await;
    assert!(refused.number("retry-after").unwrap() <= 2, "{:?}", refused.headers);
    assert!(refused.number("ratelimit-reset").unwrap() <= 2, "{:?}", refused.headers);
    eventually("the debt is paid", Duration::from_secs(5), async || peek().await.status == 200).await;
}

#[tokio::test]
async fn only_failures_are_charged() {
    let chain = CHAIN.chain();
    let client = chain.client();
    let login = async |status: &str| {
        by(&client, "/failed-logins", "one").header("reply-status", status).send().await.status
    };
    for _ in 0..10 {
        assert_eq!(login("200").await, 200);
    }
    for status in ["401", "403", "401"] {
        assert_eq!(login(status).await.to_string(), status, "not refused yet");
    }
    eventually("three failures are charged", Duration::from_secs(5), async || login("200").await == 429)
        .await;
    assert_eq!(by(&client, "/failed-logins", "two").send().await.status, 200);
}
