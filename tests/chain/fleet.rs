//! Several Envoys, each with a different load: how exact each way to enforce is.

use serde_json::{Value, json};
use sluicegate_testing::client::Client;
use sluicegate_testing::envoy::{Envoy, Setup};

use crate::rig::{Chain, NEVER, by, eventually, passed, policy};

const LIMIT: usize = 300;
const BLOCK: usize = 20;

/// Requests of one key that each Envoy is offered.
const OFFERED: [usize; 3] = [400, 120, 30];

fn rules() -> Value {
    let limit = |name: &str, enforce: Value| {
        json!({"name": name, "match": {"path": format!("/{name}")}, "key": "caller", "enforce": enforce,
               "token_bucket": {"burst": LIMIT, "rate": NEVER}, "when_unavailable": "deny"})
    };
    policy(json!([
        limit("shared", json!("shared")),
        limit("leased", json!({"leased": {"size": BLOCK, "for": "500ms"}})),
        limit("local", json!({"local": {"replicas": 3}})),
    ]))
}

/// How many of what is offered to each passes, all at once.
async fn offer(clients: &[Client; 3], path: &str, offered: [usize; 3]) -> [usize; 3] {
    let burst = |at: usize| clients[at].burst(offered[at], |client, _| by(client, path, "one"));
    let (a, b, c) = tokio::join!(burst(0), burst(1), burst(2));
    [passed(&a), passed(&b), passed(&c)]
}

#[tokio::test]
async fn each_bound_holds_over_three_envoys_under_skewed_load() {
    let chain = Chain::with(&rules(), |setup| setup.workers(1));
    let start =
        || Setup::new(&rules(), chain.upstream.address()).shim(chain.shim.address()).workers(1).start();
    let others: [Envoy; 2] = [start(), start()];
    let clients = [&chain.envoy, &others[0], &others[1]].map(|envoy: &Envoy| Client::http1(envoy.address()));

    let passes = offer(&clients, "/shared", OFFERED).await;
    assert_eq!(passes.iter().sum::<usize>(), LIMIT, "shared is exact: {passes:?}");

    let passes = offer(&clients, "/leased", OFFERED).await;
    let (total, stranded) = (passes.iter().sum::<usize>(), OFFERED.len() * BLOCK);
    assert!(total <= LIMIT, "leased is never above the limit: {passes:?}");
    assert!(total >= LIMIT - stranded, "no more than a block each is stranded: {passes:?}");
    assert_eq!(chain.upstream.count("/leased"), total);

    let passes = offer(&clients, "/local", OFFERED).await;
    assert_eq!(passes, [LIMIT / 3, LIMIT / 3, OFFERED[2]], "local is a share each");
}

/// Tokens of a lease that nobody spends are not kept for ever, and while it lasts spending needs nobody.
#[tokio::test]
async fn a_lease_spares_callouts_and_ends() {
    let chain = Chain::with(&rules(), |setup| setup.workers(1));
    let client = chain.client();
    let replies = crate::rig::row(&client, 100, "/leased", "one").await;
    assert_eq!(passed(&replies), 100);
    let told = async || {
        let metrics = chain.envoy.metrics();
        metrics.value("sluicegate_limit_allowed", &[("limit", "leased")]) == 100.0
    };
    eventually("all are counted", std::time::Duration::from_secs(5), told).await;
    let metrics = chain.envoy.metrics();
    let takes = metrics.value("sluicegate_callout_takes", &[]);
    // A block of 20 is refilled at a quarter: six or seven; a busy machine may outlive some.
    assert!(takes <= 50.0, "{takes} takes for 100 requests");
    assert!(metrics.value("sluicegate_limit_leased", &[("limit", "leased")]) >= 50.0);
}
