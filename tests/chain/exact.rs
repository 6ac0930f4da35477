//! A limit is the same whatever the number of workers and Envoys.

use serde_json::json;
use sluicegate_testing::client::Client;

use crate::rig::{Chain, NEVER, by, passed, policy};

/// 200 at once on a key of 100, and then on another.
async fn hundred_of_two_hundred_pass(chain: &Chain) {
    let client = chain.client();
    for caller in ["a", "b"] {
        let replies = client.burst(200, |client, _| by(client, "/", caller)).await;
        assert_eq!(passed(&replies), 100, "{}", chain.envoy.log());
        let refused = replies.iter().filter(|reply| reply.status == 429);
        assert!(refused.clone().all(|reply| reply.number("ratelimit-remaining") == Some(0)));
        let mut remaining: Vec<_> = replies
            .iter()
            .filter(|reply| reply.status == 200)
            .map(|reply| reply.number("ratelimit-remaining").unwrap())
            .collect();
        remaining.sort_unstable();
        assert_eq!(remaining, (0..100).collect::<Vec<_>>(), "each of them was one token");
    }
    assert_eq!(chain.upstream.total(), 200, "what was refused did not reach the upstream");
}

/// WF-5: <https://github.com/envoyproxy/envoy/issues/13517>: what each worker's VM counts by itself is multiplied by the
/// workers.
#[tokio::test]
async fn wf_5_workers_share_a_limit_exactly() {
    let limits = json!([{"name": "hundred", "key": "caller", "token_bucket": {"burst": 100, "rate": NEVER},
                         "when_unavailable": "deny"}]);
    for workers in [1, 2, 4] {
        let chain = Chain::with(&policy(limits.clone()), |setup| setup.workers(workers));
        hundred_of_two_hundred_pass(&chain).await;
    }
}

#[tokio::test]
async fn two_envoys_share_a_limit_exactly() {
    let limits = json!([{"name": "hundred", "key": "caller", "token_bucket": {"burst": 100, "rate": NEVER},
                         "when_unavailable": "deny"}]);
    let policy = policy(limits);
    let chain = Chain::start(&policy);
    let second = chain.another(&policy);
    let clients = [chain.client(), Client::http1(second.address())];
    assert_eq!(passed(&clients[0].burst(70, |client, _| by(client, "/", "a")).await), 70);
    assert_eq!(
        passed(&clients[1].burst(70, |client, _| by(client, "/", "a")).await),
        30,
        "what the first left"
    );
    let (first, second) = tokio::join!(
        clients[0].burst(100, |client, _| by(client, "/", "b")),
        clients[1].burst(100, |client, _| by(client, "/", "b")),
    );
    assert_eq!(passed(&first) + passed(&second), 100, "both at once");
}
