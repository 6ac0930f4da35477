//! Other numbers for some keys: tiers by policy, overrides by an operator.

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testing::client::{Client, Reply};
use sluicegate_testing::envoy::Setup;
use sluicegate_testing::shim::{ADMIN_TOKEN, Shim};

use super::CHAIN;
use crate::rig::{Chain, NEVER, by, eventually, passed, policy, row, statuses};

pub(super) fn limits() -> Vec<Value> {
    let limit = |name: &str| {
        json!({"name": name, "match": {"path": format!("/{name}")}, "key": "caller", "when_unavailable": "deny",
               "token_bucket": {"burst": 4, "rate": NEVER}})
    };
    vec![limit("tiered"), limit("forgiven")]
}

pub(super) fn tiers() -> Value {
    json!({
        "gold": {"multiply": 2.5},
        "trial": {"limits": {"tiered": {"token_bucket": {"burst": 1, "rate": NEVER}}}},
        "internal": "unlimited",
        "partner": {"multiply": 2, "members": {"caller": ["tier-member"]}},
    })
}

#[tokio::test]
async fn a_tier_changes_the_numbers() {
    let chain = CHAIN.chain();
    let client = chain.client();
    for (caller, plan, expected) in [
        ("tier-none", None, 4),
        ("tier-odd", Some("no such plan"), 4),
        ("tier-gold", Some("gold"), 10),
        ("tier-trial", Some("trial"), 1),
        ("tier-internal", Some("internal"), 12),
        ("tier-member", None, 8),
    ] {
        let ask = |client: &Client| {
            let ask = by(client, "/tiered", caller);
            plan.iter().fold(ask, |ask, plan| ask.header("x-plan", plan))
        };
        let replies = client.burst(12, |client, _| ask(client)).await;
        assert_eq!(passed(&replies), expected, "{caller}");
    }
}

/// Calls the operators' listener of a shim.
async fn operate(shim: &Shim, method: &str, path: &str, body: Option<Value>) -> Reply {
    let ask = Client::http1(shim.admin_address())
        .ask(method, path)
        .header("authorization", format!("Bearer {ADMIN_TOKEN}"))
        .header("content-type", "application/json");
    let reply = ask.body(body.map(|body| body.to_string()).unwrap_or_default()).send().await;
    assert_eq!(reply.status, 200, "{method} {path}: {}", reply.text());
    reply
}

/// The digests of all keys of a limit.
fn digests(chain: &Chain, limit: &str) -> Vec<String> {
    let pattern = format!("*:{limit}:*");
    let keys: Vec<String> = redis::cmd("KEYS").arg(pattern).query(&mut chain.redis.connection()).unwrap();
    keys.iter().map(|key| key.rsplit(':').next().unwrap().to_owned()).collect()
}

/// A key that two Envoys know to be used up passes within a second of its override, and again as the policy says
/// within a second of its end.
#[tokio::test]
async fn an_override_is_seen_by_every_envoy_within_a_second() {
    let limits = json!([{"name": "two", "key": "caller", "token_bucket": {"burst": 2, "rate": NEVER},
                         "when_unavailable": "deny"}]);
    let policy = policy(limits);
    let chain = Chain::start(&policy);
    // Behind a shim of its own, which nobody tells.
    let shim = Shim::patient(&chain.redis.url());
    shim.wait_ready();
    let second = Setup::new(&policy, chain.upstream.address()).shim(shim.address()).start();
    let clients = [chain.client(), Client::http1(second.address())];
    assert_eq!(statuses(&row(&clients[0], 3, "/", "vip").await), [200, 200, 429]);
    let digest = digests(&chain, "two").remove(0);
    let path = format!("/v1/overrides/default/two/{digest}");

    for round in 0..3 {
        let passing = |client: &Client| {
            let client = client.clone();
            async move || by(&client, "/", "vip").send().await.status == 200
        };
        // Refusals are remembered; a fresh one just now is remembered longest.
        for client in &clients {
            let refused = client.burst(8, |client, _| by(client, "/", "vip")).await;
            assert_eq!(passed(&refused), 0, "round {round}");
        }
        let numbers =
            json!({"token_bucket": {"burst": 1_000_000, "tokens": 1, "period_us": 2_592_000_000_000_u64}});
        operate(&chain.shim, "PUT", &path, Some(json!({"numbers": numbers, "expires_in_s": 600}))).await;
        let second = Duration::from_secs(1);
        tokio::join!(
            eventually("the first Envoy follows", second, passing(&clients[0])),
            eventually("the second Envoy follows", second, passing(&clients[1])),
        );
        for client in &clients {
            assert_eq!(by(client, "/", "other").send().await.status, if round == 0 { 200 } else { 429 });
        }
        operate(&chain.shim, "DELETE", &path, None).await;
        let refused = |client: &Client| {
            let client = client.clone();
            async move || by(&client, "/", "vip").send().await.status == 429
        };
        tokio::join!(
            eventually("the first Envoy returns", second, refused(&clients[0])),
            eventually("the second Envoy returns", second, refused(&clients[1])),
        );
    }
    assert_eq!(operate(&chain.shim, "GET", "/v1/overrides", None).await.text().trim(), "[]");
}

/// An operator forgives a key: it passes again within a second.
#[tokio::test]
async fn a_reset_is_seen_within_a_second() {
    let chain = CHAIN.chain();
    let client = chain.client();
    assert_eq!(passed(&row(&client, 5, "/forgiven", "one").await), 4);
    let digest = digests(&chain, "forgiven").remove(0);
    operate(&chain.shim, "DELETE", &format!("/v1/keys/default/forgiven/{digest}"), None).await;
    let passes = async || by(&client, "/forgiven", "one").send().await.status == 200;
    eventually("it passes again", Duration::from_secs(1), passes).await;
}
