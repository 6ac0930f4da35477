//! Something between filter and Redis fails: requests follow `when_unavailable`, in time, and it heals by itself.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sluicegate_testing::client::{Client, Reply, with_status};
use sluicegate_testing::envoy::Setup;
use sluicegate_testing::meddler::{Meddler, Meddling};
use sluicegate_testing::redis::Redis;
use sluicegate_testing::shim::Shim;
use sluicegate_testing::upstream::Upstream;

use crate::rig::{Chain, NEVER, by, eventually, passed, policy, statuses};

/// Longest wait of the filter for a decision.
const TIMEOUT: Duration = Duration::from_millis(400);

/// Its share for the shim's own wait for Redis.
const STORE_TIMEOUT: &str = "250ms";

/// The filter's breaker tries again after a second at most, and the shim connects within another; the rest is for a busy
/// machine.
const RECOVERY: Duration = Duration::from_secs(4);

/// What an emergency allowance of 20 may pass in both workers.
const SPARE: usize = 20;

fn limits() -> Value {
    let limit = |name: &str, when_unavailable: Value| {
        json!({"name": name, "match": {"path": format!("/{name}")}, "key": "caller",
               "fixed_window": {"limit": 1_000, "per": "60s"}, "when_unavailable": when_unavailable})
    };
    json!([
        limit("open", json!("allow")),
        limit("closed", json!("deny")),
        {"name": "spare", "match": {"path": "/spare"}, "key": "caller",
         "token_bucket": {"burst": SPARE, "rate": NEVER}, "when_unavailable": {"local": {"replicas": 1, "workers": 2}}},
        {"name": "five", "match": {"path": "/five"}, "key": "caller",
         "fixed_window": {"limit": 5, "per": "60s"}, "when_unavailable": "deny"},
    ])
}

fn patient() -> Value {
    let mut policy = policy(limits());
    policy["shim"]["timeout"] = json!(format!("{}ms", TIMEOUT.as_millis()));
    policy
}

fn start() -> Chain {
    let redis = Redis::start(&[]);
    let shim = Shim::with(&redis.url(), &["--store-timeout", STORE_TIMEOUT]);
    Chain::on(redis, shim, &patient(), |setup| setup)
}

/// Sends 50 at once; none waits much longer than it may.
async fn fifty(client: &Client, path: &str) -> Vec<Reply> {
    let begun = Instant::now();
    let replies = client.burst(50, |client, _| by(client, path, "one")).await;
    // One after the other they would take fifty times the timeout; the allowance is for a machine that is busy.
    assert!(begun.elapsed() < TIMEOUT + Duration::from_secs(4), "{path} took {:?}", begun.elapsed());
    for name in ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"] {
        assert!(replies.iter().all(|reply| reply.header(name).is_none()), "{path}: {name} is invented");
    }
    replies
}

/// Three rounds in which no decision can be had.
async fn follow_when_unavailable(chain: &Chain) {
    let client = chain.client();
    let before = chain.upstream.count("/closed");
    let mut spared = 0;
    for round in 1..=3 {
        let open = fifty(&client, "/open").await;
        assert_eq!(with_status(&open, 200), 50, "round {round}: {:?}", statuses(&open));
        assert_eq!(chain.upstream.count("/open"), 50 * round, "served by the upstream");
        let closed = fifty(&client, "/closed").await;
        assert_eq!(with_status(&closed, 503), 50, "round {round}: {:?}", statuses(&closed));
        assert!(closed.iter().all(|reply| reply.header("x-shed-reason") == Some("unavailable")));
        assert!(closed.iter().all(|reply| reply.number("retry-after") == Some(1)));
        spared += passed(&fifty(&client, "/spare").await);
    }
    assert!((SPARE / 2..=SPARE).contains(&spared), "{spared} passed by the emergency allowance");
    assert_eq!(chain.upstream.count("/closed"), before, "refused is not sent on");
    let metric = |limit: &str, name: &str| {
        chain.envoy.metrics().value(&format!("sluicegate_limit_{name}"), &[("limit", limit)])
    };
    let seen = async || {
        metric("open", "fallback_allow") == 150.0
            && metric("closed", "fallback_deny") == 150.0
            && metric("spare", "fallback_local") == 150.0
    };
    eventually("each fallback is counted", Duration::from_secs(5), seen).await;
    let log = chain.envoy.log();
    assert_eq!(log.matches("limits follow when_unavailable").count() as u32, log_lines(chain), "{log}");
}

/// A change of state is told once by each worker that has seen it.
fn log_lines(chain: &Chain) -> u32 {
    let log = chain.envoy.log();
    let workers = |line: &str| line.split(']').nth(1).map(str::to_owned);
    let told = log.lines().filter(|line| line.contains("limits follow when_unavailable"));
    told.filter_map(workers).collect::<std::collections::BTreeSet<_>>().len() as u32
}

/// Decisions come again, with no restart of Envoy or shim, and five means five.
async fn is_right_again(chain: &Chain) {
    let client = chain.client();
    let repaired = Instant::now();
    // Each worker finds out by itself, from requests of its own: all that told of the loss have to tell of the repair.
    let decided = async || {
        let replies = client.burst(10, |client, _| by(client, "/closed", "two")).await;
        let log = chain.envoy.log();
        let found = log.matches("limits are decided by the shim again").count();
        with_status(&replies, 200) == 10 && found == log.matches("limits follow when_unavailable").count()
    };
    eventually("decisions come again", RECOVERY, decided).await;
    let replies = client.burst(20, |client, _| by(client, "/five", "two")).await;
    assert_eq!(passed(&replies), 5, "{:?} after the repair: {:?}", repaired.elapsed(), statuses(&replies));
}

async fn outage(mut chain: Chain, fail: impl FnOnce(&mut Chain), repair: impl FnOnce(&mut Chain)) {
    let client = chain.client();
    assert_eq!(by(&client, "/closed", "one").send().await.status, 200);
    fail(&mut chain);
    follow_when_unavailable(&chain).await;
    repair(&mut chain);
    is_right_again(&chain).await;
}

/// RS-3: <https://github.com/istio/istio/issues/12115>: everything was answered 429 while Redis was down.
#[tokio::test]
async fn rs_3a_redis_is_gone() {
    outage(start(), |chain| chain.redis.stop(), |chain| chain.redis.restart()).await;
}

/// RS-3: <https://github.com/api7/aisix/pull/1147>: the store accepted and never replied, and requests hung for minutes.
#[tokio::test]
async fn rs_3b_redis_hangs() {
    outage(start(), |chain| chain.redis.freeze(), |chain| chain.redis.thaw()).await;
}

/// RS-3: <https://github.com/asuc-octo/berkeleytime/pull/1135>: memory was full and nothing was evicted.
#[tokio::test]
async fn rs_3c_redis_is_full() {
    let cap = |chain: &mut Chain, bytes: u64| {
        let mut connection = chain.redis.connection();
        redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes).exec(&mut connection).unwrap();
    };
    outage(start(), |chain| cap(chain, 100_000), |chain| cap(chain, 0)).await;
}

/// RS-3: <https://github.com/envoyproxy/ratelimit/issues/1143>: a store that was down at the start made a crash loop.
#[tokio::test]
async fn rs_3d_redis_comes_later() {
    let mut redis = Redis::start(&[]);
    redis.stop();
    let shim = Shim::with(&redis.url(), &["--store-timeout", STORE_TIMEOUT]);
    assert!(!shim.is_ready());
    let upstream = Upstream::start();
    let envoy = Setup::new(&patient(), upstream.address()).shim(shim.address()).start();
    let mut chain = Chain { envoy, shim, redis, upstream };
    follow_when_unavailable(&chain).await;
    assert!(!chain.shim.is_ready());
    chain.redis.restart();
    is_right_again(&chain).await;
    assert!(chain.shim.is_ready());
}

#[tokio::test]
async fn redis_is_slow() {
    let redis = Redis::start(&[]);
    let meddler = Meddler::start(redis.address().parse().unwrap());
    let shim = Shim::with(&format!("redis://{}", meddler.address()), &["--store-timeout", STORE_TIMEOUT]);
    let chain = Chain::on(redis, shim, &patient(), |setup| setup);
    let slow = Meddling::Delay(Duration::from_millis(300));
    outage(chain, |_| meddler.set(slow), |_| meddler.set(Meddling::Pass)).await;
}

#[tokio::test]
async fn the_shim_is_killed() {
    outage(start(), |chain| chain.shim.kill(), |chain| chain.shim.start_again()).await;
}

#[tokio::test]
async fn the_shim_hangs() {
    outage(start(), |chain| chain.shim.freeze(), |chain| chain.shim.thaw()).await;
}

/// Between Envoy and shim, connections break, and new ones as well.
#[tokio::test]
async fn the_way_to_the_shim_is_cut() {
    let redis = Redis::start(&[]);
    let shim = Shim::with(&redis.url(), &["--store-timeout", STORE_TIMEOUT]);
    let meddler = Meddler::start(shim.address());
    let way = meddler.address();
    let chain = Chain::on(redis, shim, &patient(), |setup| setup.shim(way));
    outage(chain, |_| meddler.set(Meddling::Cut), |_| meddler.set(Meddling::Pass)).await;
}

/// RS-1: <https://github.com/express-rate-limit/rate-limit-redis/issues/144>: the script cache was lost, and every later
/// check failed until the limiter was restarted.
#[tokio::test]
async fn rs_1_lost_scripts_are_loaded_again() {
    let mut chain = start();
    let client = chain.client();
    let remaining = async || {
        let reply = by(&client, "/five", "a").send().await;
        (reply.status, reply.number("ratelimit-remaining"))
    };
    assert_eq!([remaining().await, remaining().await], [(200, Some(4)), (200, Some(3))]);
    redis::cmd("SCRIPT").arg("FLUSH").exec(&mut chain.redis.connection()).unwrap();
    let replies = client.burst(50, |client, _| by(client, "/five", "b")).await;
    assert_eq!(passed(&replies), 5);
    assert_eq!([remaining().await, remaining().await], [(200, Some(2)), (200, Some(1))], "each charged once");
    chain.redis.restart();
    is_right_again(&chain).await;
}
