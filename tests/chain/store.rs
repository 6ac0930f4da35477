//! What is kept in Redis, and by whose clock.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testing::client::{Client, with_status};
use sluicegate_testing::clock::Clock;
use sluicegate_testing::envoy::Setup;
use sluicegate_testing::redis::Redis;
use sluicegate_testing::shim::Shim;

use crate::rig::{Chain, by, eventually, passed, policy, row, statuses};

/// Name, numbers of about five in two seconds.
fn kinds() -> Vec<(&'static str, Value)> {
    vec![
        ("bucket", json!({"token_bucket": {"burst": 5, "rate": "2.5/s"}})),
        ("leaky", json!({"leaky_bucket": {"burst": 5, "rate": "2.5/s", "wait": {"up_to": "1ms"}}})),
        ("fixed", json!({"fixed_window": {"limit": 5, "per": "2s"}})),
        ("aligned", json!({"fixed_window": {"limit": 5, "per": "2s", "align": "epoch"}})),
        ("sliding", json!({"sliding_window": {"limit": 5, "per": "2s"}})),
        ("exact", json!({"sliding_window": {"limit": 5, "per": "2s", "exact": true}})),
        ("places", json!({"concurrency": {"max": 5, "release_after": "2s"}})),
    ]
}

/// What is left of the life of each key, milliseconds; as Redis says, -1 for one without an end.
fn lives(redis: &mut redis::Connection) -> BTreeMap<String, i64> {
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(redis).unwrap();
    let life =
        |key: &String, redis: &mut redis::Connection| redis::cmd("PTTL").arg(key).query(redis).unwrap();
    // -2 is a key that has ended since.
    keys.into_iter()
        .map(|key| (life(&key, redis), key))
        .filter(|(life, _)| *life != -2)
        .map(|(life, key)| (key, life))
        .collect()
}

/// RS-6: <https://github.com/alisaifee/limits/pull/15>: a counter whose expiry was never set blocked its client for ever.
#[tokio::test]
async fn rs_6_every_key_has_an_end() {
    let limit = |(name, mut limit): (&str, Value)| {
        limit["name"] = json!(name);
        limit["match"] = json!({"path": format!("/{name}")});
        limit["key"] = json!("caller");
        limit["when_unavailable"] = json!("deny");
        limit
    };
    let chain = Chain::start(&policy(kinds().into_iter().map(limit).collect()));
    let client = chain.client();
    let mut redis = chain.redis.connection();
    let is_bounded = |lives: &BTreeMap<String, i64>| {
        for (key, life) in lives {
            assert!((1..=4_000).contains(life), "{key} lives {life} ms");
            assert!(!key.contains("client"), "{key} tells who it is");
        }
    };
    // Held, so that places are taken while we look.
    chain.upstream.hold();
    let mut asked = Vec::new();
    for (name, _) in kinds() {
        let path = format!("/{name}");
        asked.push(tokio::spawn(by(&client, &path, "client-1").send()));
        asked.extend((0..10).map(|_| tokio::spawn(by(&client, &path, "client-2").send())));
    }
    let all = kinds().len() * 6;
    eventually("those allowed are at the upstream", Duration::from_secs(5), async || {
        chain.upstream.in_flight() >= all.min(20)
    })
    .await;
    let there = lives(&mut redis);
    assert!(!there.is_empty());
    is_bounded(&there);
    chain.upstream.release();
    for reply in asked {
        reply.await.unwrap();
    }
    is_bounded(&lives(&mut redis));

    for (name, _) in kinds().into_iter().filter(|(name, _)| *name != "places") {
        let path = format!("/{name}");
        redis::cmd("FLUSHDB").exec(&mut redis).unwrap();
        // Used up just now.
        while by(&client, &path, "client-3").send().await.status == 200 {}
        for key in lives(&mut redis).keys() {
            redis::cmd("PERSIST").arg(key).exec(&mut redis).unwrap();
        }
        // Refusals are remembered for a moment; the one that asks again finds the key.
        let mended = async || {
            by(&client, &path, "client-3").send().await;
            lives(&mut redis).values().filter(|life| **life == -1).count() == 0
        };
        eventually(&format!("{name}: its end is put back"), Duration::from_secs(5), mended).await;
        let served = async || by(&client, &path, "client-3").send().await.status == 200;
        eventually(&format!("{name}: served after its window"), Duration::from_secs(5), served).await;
    }
    is_bounded(&lives(&mut redis));
    let none = async || lives(&mut redis).is_empty();
    eventually("idle keys vanish", Duration::from_secs(10), none).await;
}

/// TM-1: <https://github.com/spring-cloud/spring-cloud-gateway/issues/2412>: an instance with a slow clock rewound the time
/// of the last refill, and the next one filled the bucket again.
#[tokio::test]
async fn tm_1_clocks_of_shims_do_not_matter_and_that_of_redis_may_step() {
    let (slow, of_redis) = (Clock::new(), Clock::new());
    slow.set_ms(-10_000);
    let redis = Redis::with_clock(&of_redis, &[]);
    let (shim, behind) = (Shim::patient(&redis.url()), Shim::with_clock(&slow, &redis.url()));
    behind.wait_ready();
    let limits = json!([{"name": "four", "key": "caller", "token_bucket": {"burst": 4, "rate": "2/s"},
                         "when_unavailable": "deny"}]);
    let policy = policy(limits);
    let chain = Chain::on(redis, shim, &policy, |setup| setup.workers(1));
    let second = Setup::new(&policy, chain.upstream.address()).shim(behind.address()).workers(1).start();
    let clients = [chain.client(), Client::http1(second.address())];

    // Both at once, for four seconds, ten times what the limit gives.
    let begun = std::time::Instant::now();
    let mut ticker = tokio::time::interval(Duration::from_millis(50));
    let mut passes = 0;
    for nth in 0..80 {
        ticker.tick().await;
        // No pattern: bits of a multiple of the golden ratio.
        let client = &clients[((nth * 0x9e37_79b9_u64) >> 16 & 1) as usize];
        passes += passed(&row(client, 1, "/", "steady").await);
    }
    let most = 4 + (begun.elapsed().as_millis() / 500) as usize;
    assert!((8..=most).contains(&passes), "{passes} of at most {most}");

    let used_up = async |caller: &str| {
        let replies = clients[0].burst(10, |client, _| by(client, "/", caller)).await;
        assert!(with_status(&replies, 200) >= 4, "{:?}", statuses(&replies));
    };
    let soon = async |caller: &str| {
        let refused = by(&clients[1], "/", caller).send().await;
        assert_eq!(refused.status, 429, "{caller}: a step back gives nothing");
        assert_eq!(refused.number("retry-after"), Some(1), "{caller}: nor does it lock out");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(by(&clients[1], "/", caller).send().await.status, 200, "{caller}");
    };
    used_up("steps back").await;
    of_redis.set_ms(-11_000);
    soon("steps back").await;
    // An hour forward everything is as good as new; back again, nobody has to wait for that hour.
    of_redis.set_ms(3_600_000);
    used_up("forward and back").await;
    of_redis.set_ms(0);
    soon("forward and back").await;
}
