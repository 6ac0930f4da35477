//! Concurrency limits: places are given back with the end of a stream, however it ends, or run out.

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testing::client::{Client, Reply};
use sluicegate_testing::clock::Clock;
use sluicegate_testing::envoy::Setup;
use sluicegate_testing::redis::Redis;
use sluicegate_testing::shim::Shim;
use tokio::task::JoinHandle;

use crate::rig::{Chain, by, eventually, passed, policy, row};

const SOON: Duration = Duration::from_secs(10);
const RELEASE_AFTER_MS: i64 = 60_000;

fn two_places() -> Value {
    policy(json!([
        {"name": "exports", "key": "caller", "concurrency": {"max": 2, "release_after": "60s"},
         "when_unavailable": "deny"},
    ]))
}

/// Requests that the upstream has and does not answer.
async fn occupy(chain: &Chain, client: &Client, n: usize) -> Vec<JoinHandle<Result<Reply, String>>> {
    chain.upstream.hold();
    let held: Vec<_> = (0..n).map(|_| tokio::spawn(by(client, "/held", "one").try_send())).collect();
    eventually("they are under way", SOON, async || chain.upstream.in_flight() == n).await;
    held
}

/// A refusal is remembered for as long as its Retry-After says, so what has come back shows a little later.
async fn comes_back(client: &Client) {
    let passes = async || by(client, "/", "one").send().await.status == 200;
    eventually("a place comes back", SOON, passes).await;
}

#[tokio::test]
async fn places_come_back_with_the_answer_or_with_the_client() {
    let chain = Chain::with(&two_places(), |setup| setup.workers(2));
    let client = chain.client();
    let held = occupy(&chain, &client, 2).await;
    let refused = row(&client, 4, "/", "one").await;
    assert_eq!(passed(&refused), 0, "both places are taken, whichever worker is asked");
    assert!(refused.iter().all(|reply| reply.number("retry-after") == Some(1)), "{refused:?}");

    // One client leaves, the other stays.
    let [leaves, stays] = <[_; 2]>::try_from(held).unwrap();
    leaves.abort();
    eventually("its stream has ended", SOON, async || chain.upstream.in_flight() == 1).await;
    let again = {
        let client = client.clone();
        tokio::spawn(async move {
            loop {
                let reply = by(&client, "/again", "one").send().await;
                if reply.status != 429 {
                    return reply;
                }
            }
        })
    };
    eventually("its place is taken again", SOON, async || chain.upstream.count("/again") == 1).await;
    chain.upstream.release();
    assert_eq!(stays.await.unwrap().unwrap().status, 200);
    assert_eq!(again.await.unwrap().status, 200);
    comes_back(&client).await;
    assert!(chain.upstream.peak() <= 2, "never more than there are places");
}

#[tokio::test]
async fn places_of_a_killed_envoy_run_out() {
    let clock = Clock::new();
    let redis = Redis::with_clock(&clock, &[]);
    let shim = Shim::patient(&redis.url());
    let chain = Chain::on(redis, shim, &two_places(), |setup| setup.workers(1));
    let other =
        Setup::new(&two_places(), chain.upstream.address()).shim(chain.shim.address()).workers(1).start();
    let _held = occupy(&chain, &chain.client(), 2).await;

    let Chain { envoy, shim: _shim, redis: _redis, upstream } = chain;
    drop(envoy);
    eventually("its streams have ended", SOON, async || upstream.in_flight() == 0).await;
    upstream.release();
    let client = Client::http1(other.address());
    clock.set_ms(RELEASE_AFTER_MS / 2);
    assert_eq!(passed(&row(&client, 1, "/", "one").await), 0, "nobody gave the places back");
    clock.set_ms(RELEASE_AFTER_MS + 1_000);
    comes_back(&client).await;
}
