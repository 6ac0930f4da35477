//! Who is counted.

use serde_json::{Value, json};
use sluicegate_testing::client::{Ask, Client, Reply};
use sluicegate_testing::envoy::Setup;

use super::CHAIN;
use crate::rig::{Chain, NEVER, passed, policy, statuses};

pub(super) fn identities() -> Value {
    json!({
        "behind_one": {"client_ip": {"trusted_hops": 1}},
        "caller_or_address": [{"header": "x-api-key"}, {"client_ip": {"trusted_hops": 1}}],
        "tenant": {"header": "x-tenant"},
        "user": {"header": "x-user"},
    })
}

pub(super) fn limits() -> Vec<Value> {
    let limit = |name: &str, key: Value, burst: u64| {
        json!({"name": name, "match": {"path": format!("/{name}")}, "key": key, "when_unavailable": "deny",
               "token_bucket": {"burst": burst, "rate": NEVER}})
    };
    let missing = |name: &str, choice: &str| {
        let mut limit = limit(name, json!("caller"), 3);
        limit["when_missing"] = json!(choice);
        limit
    };
    vec![
        limit("direct", json!("address"), 3),
        limit("balanced", json!("behind_one"), 3),
        limit("household", json!("behind_one"), 3),
        limit("missing-default", json!("caller"), 3),
        missing("missing-skip", "skip"),
        missing("missing-shared", "shared"),
        limit("missing-next", json!("caller_or_address"), 3),
        limit("pair", json!(["tenant", "user"]), 2),
        limit("pair-wide", json!(["tenant", "user"]), 100),
    ]
}

/// Statuses of requests of the clients at these addresses, one after the other; each is what the balancer saw.
async fn from(client: &Client, path: &str, forwarded_for: &[&str]) -> Vec<u16> {
    let mut statuses = Vec::new();
    for forwarded_for in forwarded_for {
        statuses.push(client.get(path).header("x-forwarded-for", forwarded_for).send().await.status);
    }
    statuses
}

/// What one client may do, whatever it writes in front.
async fn invented_addresses_buy_nothing(client: &Client, balanced: &str, direct: &str) {
    let invented: Vec<String> = (1..6).map(|n| format!("198.51.100.{n}, 203.0.113.9")).collect();
    let invented: Vec<&str> = invented.iter().map(String::as_str).collect();
    assert_eq!(from(client, balanced, &invented).await, [200, 200, 200, 429, 429]);
    let stranger = ["198.51.100.7, 203.0.113.10"; 5];
    assert_eq!(from(client, balanced, &stranger).await, [200, 200, 200, 429, 429]);
    assert_eq!(from(client, balanced, &["198.51.100.7"; 4]).await, [200, 200, 200, 429], "its own quota");

    let invented: Vec<String> = (1..6).map(|n| format!("198.51.100.{n}")).collect();
    let invented: Vec<&str> = invented.iter().map(String::as_str).collect();
    assert_eq!(from(client, direct, &invented).await, [200, 200, 200, 429, 429]);
}

/// ID-1: <https://github.com/codelibs/fess/pull/3360>: the limiter believed an address that the client had written.
#[tokio::test]
async fn id_1_invented_addresses_buy_nothing() {
    let chain = CHAIN.chain();
    invented_addresses_buy_nothing(&chain.client(), "/balanced", "/direct").await;
}

/// ID-1, with an Envoy that appends nothing: the balancer in front is the last to write.
#[tokio::test]
async fn id_1_invented_addresses_buy_nothing_inside_a_mesh() {
    let mut policy = policy(limits().into_iter().take(2).collect());
    policy["identities"]["behind_one"] = identities()["behind_one"].clone();
    let chain =
        Chain::with(&policy, |setup| setup.edit("use_remote_address: true", "use_remote_address: false"));
    invented_addresses_buy_nothing(&chain.client(), "/balanced", "/direct").await;
}

/// ID-3: <https://github.com/sozu-proxy/sozu/issues/1270>: one household owns 2^64 addresses, each with a quota of its own.
#[tokio::test]
async fn id_3_a_household_is_one_client() {
    let chain = CHAIN.chain();
    let addresses: Vec<String> = (1..6).map(|n| format!("2001:db8:1:2::{n}")).collect();
    let mut addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    addresses.extend(["2001:db8:1:3::1", "2001:0DB8:0001:0002:0000:0000:0000:0001"]);
    let statuses = from(&chain.client(), "/household", &addresses).await;
    assert_eq!(statuses, [200, 200, 200, 429, 429, 200, 429]);
}

/// ID-5: <https://github.com/netlify/gotrue/pull/447>: clients without a key shared one bucket, or had no limit at all.
#[tokio::test]
async fn id_5_a_missing_key_is_a_visible_choice() {
    let chain = CHAIN.chain();
    let client = chain.client();
    for (path, [first_a, first_b, later_a]) in [
        // Nothing is unlimited by accident.
        ("/missing-default", [0, 0, 0]),
        ("/missing-skip", [5, 5, 5]),
        ("/missing-shared", [3, 0, 0]),
        ("/missing-next", [3, 3, 0]),
    ] {
        let five = async |address: &str, key: Option<&str>| {
            let mut replies: Vec<Reply> = Vec::new();
            for _ in 0..5 {
                let ask = client.get(path).header("x-forwarded-for", address);
                let ask: Ask = key.iter().fold(ask, |ask, key| ask.header("x-api-key", key));
                replies.push(ask.send().await);
            }
            passed(&replies)
        };
        assert_eq!(five("192.0.2.1", None).await, first_a, "{path}: A");
        assert_eq!(five("192.0.2.2", None).await, first_b, "{path}: B");
        assert_eq!(five("192.0.2.1", Some("")).await, later_a, "{path}: empty is missing");
        assert_eq!(five("192.0.2.1", Some("  ")).await, later_a, "{path}: blank is missing");
        assert_eq!(five("192.0.2.1", Some("k1")).await, 3, "{path}: a key has its own");
    }
}

/// Statuses of `n` requests of this user of this tenant.
async fn pair(client: &Client, path: &str, n: usize, tenant: &str, user: &str) -> Vec<u16> {
    let mut replies = Vec::new();
    for _ in 0..n {
        replies.push(client.get(path).header("x-tenant", tenant).header("x-user", user).send().await);
    }
    statuses(&replies)
}

/// ID-8: <https://github.com/kgateway-dev/kgateway/issues/3801>: parts of a key were glued together, and different clients
/// had the same.
#[tokio::test]
async fn id_8_no_two_pairs_are_one() {
    let chain = CHAIN.chain();
    let client = chain.client();
    for joiner in [":", "|", "_", "/", ".", ";", ",", " ", "{", "}", "\t"] {
        let [a_b, b_c] = [format!("a{joiner}b"), format!("b{joiner}c")];
        assert_eq!(pair(&client, "/pair", 2, &a_b, "c").await, [200, 200], "{joiner:?}");
        assert_eq!(pair(&client, "/pair", 1, "a", &b_c).await, [200], "{joiner:?}");
        assert_eq!(pair(&client, "/pair", 1, &a_b, "c").await, [429], "{joiner:?}");
        let whole = format!("a{joiner}b{joiner}c");
        assert_eq!(pair(&client, "/pair", 1, &whole, "").await, [429], "{joiner:?}: half a key is none");
        assert_eq!(pair(&client, "/pair", 3, &whole, "{x}").await, [200, 200, 429], "{joiner:?}");
    }
    assert_eq!(pair(&client, "/pair-wide", 50, "t", "u").await, [200; 50]);
    assert_eq!(pair(&client, "/pair", 3, "t", "u").await, [200, 200, 429], "another limit, another count");
}

/// ID-8: <https://github.com/traefik/traefik/issues/13706>: two proxies on one Redis overwrote each other's counts.
#[tokio::test]
async fn id_8_proxies_share_only_what_the_policy_says() {
    let chain = CHAIN.chain();
    let two = json!([{"name": "two", "key": "caller", "token_bucket": {"burst": 2, "rate": NEVER}}]);
    let mut other = policy(two.clone());
    other["namespace"] = json!("other");
    let start = |policy: &Value| {
        Setup::new(policy, chain.upstream.address()).shim(chain.shim.address()).workers(1).start()
    };
    let envoys = [start(&policy(two)), start(&other)];
    for envoy in &envoys {
        let replies = crate::rig::row(&Client::http1(envoy.address()), 3, "/", "one").await;
        assert_eq!(statuses(&replies), [200, 200, 429]);
    }
}
