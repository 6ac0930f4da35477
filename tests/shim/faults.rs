//! Redis goes away, stalls, fills up, forgets: what filters are told meanwhile, and how soon it is right again.

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testing::client::{Client, Reply};
use sluicegate_testing::meddler::{Meddler, Meddling};
use sluicegate_testing::redis::Redis;
use sluicegate_testing::shim::Shim;

use crate::rig::{batch, eventually, key, one, only, passing, send, take};

/// How soon decisions have to be right again after a repair.
const RECOVERY: Duration = Duration::from_secs(2);

/// Sends 50 batches of one take at once, three times: none gets a verdict.
async fn nothing_is_decided(client: &Client, kinds: &[&str]) {
    for _ in 0..3 {
        let ask = batch(&[only("thousand", 1_000)], &[one(&key(0))]);
        let replies = client.burst(50, |client, _| client.post("/v1/take").body(ask.to_string())).await;
        for reply in replies {
            assert_eq!(reply.status, 503, "{}", reply.text());
            assert_eq!(reply.header("x-sluicegate"), Some("1"));
            let error: Value = serde_json::from_slice(&reply.body).unwrap();
            let kind = error["error"].as_str().unwrap();
            assert!(kinds.contains(&kind), "{kind} is none of {kinds:?}");
        }
    }
}

/// Decisions come again, and a limit of five still means five.
async fn is_right_again(client: &Client, name: &str) {
    let looks = batch(&[only(name, 5)], &[json!([[0, key(1), 0, 0]])]);
    eventually("decisions come again", RECOVERY, async || send(client, &looks).await.status == 200).await;
    let six = batch(&[only(name, 5)], &vec![one(&key(1)); 6]);
    assert_eq!(passing(&take(client, &six).await), 5);
}

fn errors(shim: &Shim, kind: &str) -> f64 {
    shim.metrics().value("sluicegate_shim_store_errors_total", &[("kind", kind)])
}

/// RS-1: <https://github.com/express-rate-limit/rate-limit-redis/issues/144>: after the script cache was lost, every later
/// check failed until the limiter was restarted.
#[tokio::test]
async fn rs_1_lost_scripts_are_loaded_again_and_nothing_is_charged_twice() {
    let mut redis = Redis::start(&[]);
    let shim = Shim::patient(&redis.url());
    shim.wait_ready();
    let client = shim.client();
    let limits = [json!(["five", {"fixed_window": {"limit": 5, "per_us": 60_000_000, "aligned": false}}])];
    let remaining =
        |verdicts: &[Value]| verdicts.iter().map(|v| v[0][2].as_u64().unwrap()).collect::<Vec<_>>();

    let two = batch(&limits, &vec![one(&key(0)); 2]);
    assert_eq!(remaining(&take(&client, &two).await), [4, 3]);

    redis::cmd("SCRIPT").arg("FLUSH").exec(&mut redis.connection()).unwrap();
    let single = batch(&limits, &[one(&key(1))]);
    let replies = client.burst(50, |client, _| client.post("/v1/take").body(single.to_string())).await;
    let verdict = |reply: &Reply| -> Value {
        assert_eq!(reply.status, 200, "{}", reply.text());
        let answer: Value = serde_json::from_slice(&reply.body).unwrap();
        answer["verdicts"][0].clone()
    };
    assert_eq!(passing(&replies.iter().map(verdict).collect::<Vec<_>>()), 5);
    assert_eq!(remaining(&take(&client, &two).await), [2, 1], "each was charged once");
    assert!(shim.metrics().sum("sluicegate_shim_store_script_loads_total", &[]) >= 1.0);

    redis.restart();
    let looks = batch(&limits, &[json!([[0, key(2), 0, 0]])]);
    eventually("decisions after the restart", RECOVERY, async || send(&client, &looks).await.status == 200)
        .await;
    let six = batch(&limits, &vec![one(&key(2)); 6]);
    assert_eq!(passing(&take(&client, &six).await), 5);
}

/// RS-3: <https://github.com/envoyproxy/ratelimit/issues/462>: each request waited for the full timeout of the store.
#[tokio::test]
async fn rs_3a_a_closed_port_fails_at_once_and_heals() {
    let mut redis = Redis::start(&[]);
    let shim = Shim::patient(&redis.url());
    shim.wait_ready();
    let client = shim.client();
    redis.stop();
    nothing_is_decided(&client, &["down", "disconnected"]).await;
    assert!(errors(&shim, "down") > 0.0);
    assert!(!shim.is_ready());
    assert_eq!(shim.log().matches("store has become unavailable").count(), 1, "{}", shim.log());
    redis.restart();
    is_right_again(&client, "a").await;
    assert!(shim.is_ready());
}

/// RS-3: <https://github.com/api7/aisix/pull/1147>: the store accepted connections and never replied, and requests hung.
#[tokio::test]
async fn rs_3b_a_frozen_redis_costs_one_timeout_and_then_nothing() {
    let redis = Redis::start(&[]);
    let shim = Shim::with(&redis.url(), &["--store-timeout", "100ms"]);
    shim.wait_ready();
    let client = shim.client();
    redis.freeze();
    nothing_is_decided(&client, &["timeout", "down", "disconnected"]).await;
    assert!(errors(&shim, "timeout") >= 5.0, "the breaker waits for five in a row");
    assert!(errors(&shim, "down") >= 100.0, "from then on nothing is sent");
    assert!(!shim.is_ready());
    redis.thaw();
    is_right_again(&client, "b").await;
}

/// RS-3: <https://github.com/asuc-octo/berkeleytime/pull/1135>: memory was full and nothing was evicted, so writes failed.
#[tokio::test]
async fn rs_3c_out_of_memory_is_no_refusal() {
    let redis = Redis::start(&["--maxmemory-policy", "noeviction"]);
    let shim = Shim::patient(&redis.url());
    shim.wait_ready();
    let client = shim.client();
    let mut connection = redis.connection();
    let mut cap = |bytes: u64| {
        redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes).exec(&mut connection).unwrap();
    };
    // Less than an empty Redis needs: the cap is reached whatever buffers come and go.
    cap(100_000);
    nothing_is_decided(&client, &["oom"]).await;
    assert!(errors(&shim, "oom") >= 150.0);
    cap(0);
    is_right_again(&client, "c").await;
}

/// RS-3: <https://github.com/envoyproxy/ratelimit/issues/1143>: a store that was down at the start made a crash loop.
#[tokio::test]
async fn rs_3d_a_redis_that_comes_later_is_found() {
    let mut redis = Redis::start(&[]);
    redis.stop();
    let mut shim = Shim::patient(&redis.url());
    assert!(!shim.is_ready());
    nothing_is_decided(&shim.client(), &["down"]).await;
    assert_eq!(shim.client().get("/healthz").send().await.status, 200, "alive all the same");
    redis.restart();
    is_right_again(&shim.client(), "d").await;
    assert!(shim.is_ready());
    shim.terminate();
    assert_eq!(shim.wait_end().code(), Some(0));
}

/// A connection that dies while answers are awaited: no take is sent a second time.
#[tokio::test]
async fn a_broken_connection_is_no_reason_to_ask_twice() {
    let redis = Redis::start(&[]);
    let meddler = Meddler::start(redis.address().parse().unwrap());
    let shim = Shim::with(&format!("redis://{}", meddler.address()), &["--store-timeout", "10s"]);
    let other = Shim::patient(&redis.url());
    [&shim, &other].into_iter().for_each(Shim::wait_ready);
    let client = shim.client();
    take(&client, &batch(&[only("ten", 10)], &[one(&key(0))])).await;

    // The question passes, the answer is held back, then the connection is cut.
    meddler.set(Meddling::Delay(Duration::from_secs(1)));
    let waiting = tokio::spawn({
        let (client, ask) = (client.clone(), batch(&[only("ten", 10)], &[one(&key(0))]));
        async move { send(&client, &ask).await }
    });
    let left = async || {
        let look = batch(&[only("ten", 10)], &[json!([[0, key(0), 0, 0]])]);
        take(&other.client(), &look).await[0][0][2].clone()
    };
    eventually("the take has reached Redis", Duration::from_secs(5), async || left().await == 8).await;
    meddler.set(Meddling::Cut);
    let reply = waiting.await.unwrap();
    assert_eq!(reply.status, 503, "{}", reply.text());
    meddler.set(Meddling::Pass);

    let look = batch(&[only("ten", 10)], &[json!([[0, key(0), 0, 0]])]);
    eventually("it is connected again", RECOVERY, async || send(&client, &look).await.status == 200).await;
    assert_eq!(take(&client, &look).await[0][0][2], 8, "two takes, two tokens");
}

/// Errors that are answers: each is counted by its kind, and none is a refusal.
#[tokio::test]
async fn a_replica_is_not_used() {
    let redis = Redis::start(&[]);
    let shim = Shim::patient(&redis.url());
    shim.wait_ready();
    let client = shim.client();
    let mut connection = redis.connection();
    redis::cmd("REPLICAOF").arg("127.0.0.1").arg(redis.port()).exec(&mut connection).unwrap();
    let ask = batch(&[only("five", 5)], &[one(&key(0))]);
    let reply = send(&client, &ask).await;
    assert_eq!(reply.status, 503, "{}", reply.text());
    eventually("the shim is not ready", RECOVERY, async || !shim.is_ready()).await;
    redis::cmd("REPLICAOF").arg("NO").arg("ONE").exec(&mut connection).unwrap();
    is_right_again(&client, "e").await;
}

/// Somebody has put something else where our keys are.
#[tokio::test]
async fn a_foreign_value_is_no_obstacle() {
    let redis = Redis::start(&[]);
    let shim = Shim::patient(&redis.url());
    shim.wait_ready();
    let client = shim.client();
    let mut connection = redis.connection();
    let own = |limit: &str| format!("sluicegate:default:{{{}}}:{limit}:{}", &key(0)[..6], key(0));
    let places = json!(["places", {"concurrency": {"max": 2, "release_after_us": 60_000_000}}]);
    for foreign in [["SET", "text"], ["RPUSH", "item"], ["SADD", "member"]] {
        for name in [own("two"), format!("{}:c", own("places"))] {
            redis::cmd("DEL").arg(&name).exec(&mut connection).unwrap();
            redis::cmd(foreign[0]).arg(&name).arg(foreign[1]).exec(&mut connection).unwrap();
        }
        let mut three =
            batch(&[only("two", 2), places.clone()], &vec![json!([[0, key(0), 1, 1], [1, key(0), 1, 1]]); 3]);
        for slot in 0..3 {
            three["takes"][slot]["slot"] = json!(slot);
        }
        assert_eq!(passing(&take(&client, &three).await), 2, "{foreign:?}");
    }
    assert_eq!(shim.metrics().sum("sluicegate_shim_store_errors_total", &[]), 0.0);
}

/// As many connections as were asked for, also after all of them were lost at once while takes ran.
#[tokio::test]
async fn connections_to_the_store_are_bounded() {
    let redis = Redis::start(&[]);
    let store = redis.url();
    let shim =
        Shim::with(&store, &["--store-connections", "4", "--store-timeout", "3s", "--request-timeout", "6s"]);
    shim.wait_ready();
    let client = shim.client();
    let mut connection = redis.connection();
    let mut own = || {
        let list: String = redis::cmd("CLIENT").arg("LIST").query(&mut connection).unwrap();
        // The one that asks is not the shim's.
        list.lines().count() - 1
    };
    assert_eq!(own(), 4);
    let ask = batch(&[only("thousand", 1_000)], &[one(&key(0))]).to_string();
    let replies = client.burst(200, |client, _| client.post("/v1/take").body(ask.clone())).await;
    assert!(replies.iter().all(|reply| reply.status == 200));
    assert_eq!(own(), 4, "calls share them");
    let mut other = redis.connection();
    for _ in 0..3 {
        redis::cmd("CLIENT")
            .arg("KILL")
            .arg("TYPE")
            .arg("normal")
            .arg("SKIPME")
            .arg("yes")
            .exec(&mut other)
            .unwrap();
        connection = redis.connection();
        is_right_again(&client, "again").await;
        redis::cmd("FLUSHALL").exec(&mut other).unwrap();
        let list: String = redis::cmd("CLIENT").arg("LIST").query(&mut other).unwrap();
        assert_eq!(list.lines().count() - 2, 4, "{list}");
    }
    drop(connection);
}

/// A store that takes connections and drops them is not hammered: the waits between attempts grow, up to a bound.
#[tokio::test]
async fn attempts_to_connect_are_spaced() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let shim = Shim::start(&format!("redis://{}", listener.local_addr().unwrap()));
    let mut gaps_ms = Vec::new();
    let mut last = tokio::time::Instant::now();
    for _ in 0..10 {
        let (stream, _) =
            tokio::time::timeout(Duration::from_secs(20), listener.accept()).await.unwrap().unwrap();
        drop(stream);
        gaps_ms.push(last.elapsed().as_millis());
        last = tokio::time::Instant::now();
    }
    // 25, 50, 100, 200, 400, 800, 800, ...: each shortened by up to a half. A busy machine only makes them longer.
    for (gap_ms, longest_ms) in gaps_ms[1..].iter().zip([25, 50, 100, 200, 400, 800, 800, 800, 800]) {
        assert!(*gap_ms + 1 >= longest_ms / 2, "{gaps_ms:?}");
    }
    assert!(
        gaps_ms[6..].iter().collect::<std::collections::HashSet<_>>().len() > 1,
        "never the same twice: {gaps_ms:?}"
    );
    let log = shim.log();
    assert!(
        log.matches("store cannot be reached").count() <= 2,
        "each reason once, reset and broken pipe: {log}"
    );
}
