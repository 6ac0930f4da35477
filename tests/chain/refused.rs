//! Policies that cannot be: Envoy does not start with one, and keeps what it has when one is delivered.

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testing::envoy::Setup;
use sluicegate_testing::upstream::Upstream;

use crate::change::{SOON, adopt, limit, remaining};
use crate::rig::{Chain, NEVER, by, eventually, row, statuses};

/// A policy, and what the log must say about it.
type Bad = (String, &'static str);

fn good(burst: u64) -> Value {
    limit("token_bucket", json!({"burst": burst, "rate": NEVER}))
}

/// The good policy with a part replaced.
fn with(at: &str, part: Value) -> String {
    let mut policy = good(5);
    *policy.pointer_mut(at).unwrap() = part;
    policy.to_string()
}

/// CF-1: what is misspelt, missing, double, or no policy at all.
fn misspelt() -> Vec<Bad> {
    let bucket = "/limits/0/token_bucket";
    let mut nameless = good(5);
    let twin = nameless["limits"][0].clone();
    nameless["limits"].as_array_mut().unwrap().push(twin);
    let unknown = json!({"caller": {"header": "x-api-key"}, "route": {"property": ["request", "rout"]}});
    vec![
        (
            with(bucket, json!({"burts": 5, "rate": NEVER})),
            "limits[0].token_bucket: unknown field `burts`; did you mean `burst`?",
        ),
        (
            limit("tocken_bucket", json!({})).to_string(),
            "limits[0]: unknown field `tocken_bucket`; did you mean `token_bucket`?",
        ),
        (with(bucket, json!({"rate": NEVER})), "limits[0].token_bucket: missing `burst`"),
        (
            with(&format!("{bucket}/burst"), json!("ten")),
            "limits[0].token_bucket.burst: expected a whole number",
        ),
        (nameless.to_string(), "limits[1].name: the name \"only\" is taken by limits[0]"),
        (with("/limits", json!([])), "limits: expected 1 to 1,000 items, found 0"),
        (with("/identities", unknown), "identities.route.property: Envoy has no attribute \"rout\""),
        (format!("{}garbage", good(5)), "not JSON: trailing characters"),
        (String::new(), "the document is empty"),
    ]
}

/// CF-2: numbers that nothing can be limited to.
fn impossible() -> Vec<Bad> {
    const BURST: &str = "limits[0].token_bucket.burst: expected a whole number";
    const RATE: &str = "limits[0].token_bucket.rate: expected a ";
    const PER: &str = "limits[0].fixed_window.per: expected a duration";
    let burst = |burst: Value| with("/limits/0/token_bucket/burst", burst);
    let rate = |rate: &str| with("/limits/0/token_bucket/rate", json!(rate));
    let per = |per: &str| limit("fixed_window", json!({"limit": 5, "per": per})).to_string();
    let mut shed = good(5);
    shed["overload"] =
        json!({"upstreams": [{"cluster": "web", "max_in_flight": 0}], "admin_cluster": "envoy-admin"});
    vec![
        (burst(json!(0)), BURST),
        (burst(json!(-1)), BURST),
        (burst(json!(2.5)), BURST),
        (burst(json!("NaN")), BURST),
        (burst(json!(0)).replace("\"burst\":0", "\"burst\":1e400"), "number out of range"),
        (rate("0/s"), RATE),
        (rate("-1/s"), RATE),
        (rate("NaN"), RATE),
        (per("0s"), PER),
        (per("-5s"), PER),
        (shed.to_string(), "overload.upstreams[0].max_in_flight: expected a whole number"),
    ]
}

/// CF-1 and CF-2, as an update: refused with the fault by its place, and the policy in force stays, with all it knows.
#[tokio::test]
async fn cf_1_cf_2_a_bad_update_changes_nothing() {
    let mut chain = Chain::with(&good(5), Setup::dynamic);
    let client = chain.client();
    assert_eq!(remaining(&row(&client, 2, "/", "one").await), [4, 3]);
    let rejected = |chain: &Chain| chain.envoy.stat("listener_manager.lds.update_rejected");
    for (policy, message) in misspelt().into_iter().chain(impossible()) {
        let (before, seen) = (rejected(&chain), chain.envoy.log().len());
        chain.envoy.replace_policy(&policy);
        eventually("the update is refused", SOON, async || rejected(&chain) > before).await;
        let log = chain.envoy.log().split_off(seen);
        assert!(log.contains(message), "{policy}: {message} is not in\n{log}");
        assert!(!log.contains("panic"), "{policy}:\n{log}");
    }
    assert_eq!(remaining(&row(&client, 1, "/", "one").await), [2], "on the connection there was");
    assert_eq!(statuses(&row(&chain.client(), 3, "/", "one").await), [200, 200, 429], "and on new ones");
    adopt(&mut chain, &good(6)).await;
    let replies = row(&chain.client(), 2, "/", "one").await;
    assert_eq!(statuses(&replies), [200, 429], "a good one is taken after that");
}

/// CF-1 and CF-2, as the first policy: no Envoy that limits nothing without a word, whichever form the policy has.
#[test]
fn cf_1_cf_2_envoy_does_not_start_with_a_bad_policy() {
    let upstream = Upstream::start();
    let first = |text: &str| Setup::new(&good(5), upstream.address()).raw_policy(text);
    let (misspelt, impossible) = (misspelt().swap_remove(0), impossible().swap_remove(0));
    let as_struct = Setup::shipped(upstream.address()).edit("burst: 100,", "burts: 100,");
    for (setup, message) in [
        (first(&misspelt.0), misspelt.1),
        (first(&impossible.0), impossible.1),
        (first(""), "the document is empty"),
        (as_struct, misspelt.1),
    ] {
        let log = setup.try_start().expect_err("Envoy does not serve");
        assert!(log.contains(message), "{message} is not in\n{log}");
        assert!(!log.contains("panic"), "{log}");
    }
}

/// CF-2: <https://github.com/ferro-labs/ferrotunnel/issues/171>: what was less than one became one. Half a token a second
/// is one in two seconds.
#[tokio::test]
async fn cf_2_half_a_token_a_second_is_neither_none_nor_one() {
    let chain =
        Chain::with(&limit("token_bucket", json!({"burst": 1, "rate": "0.5/s"})), |setup| setup.workers(1));
    let client = chain.client();
    for _ in 0..2 {
        let two = row(&client, 2, "/", "one").await;
        assert_eq!(statuses(&two), [200, 429]);
        assert_eq!(two[1].number("retry-after"), Some(2));
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    assert_eq!(by(&client, "/", "one").send().await.status, 200);
}
