//! TM-1: clocks that disagree and clocks that are set. Only the clock of Redis counts, and it may step.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sluicegate_testing::client::Client;
use sluicegate_testing::clock::Clock;
use sluicegate_testing::redis::Redis;
use sluicegate_testing::shim::{ADMIN_TOKEN, Shim};

use crate::rig::{batch, eventually, key, one, only, passing, take};

/// Burst 4, one token every half second.
fn four() -> Value {
    json!(["four", {"token_bucket": {"burst": 4, "tokens": 1, "period_us": 500_000}}])
}

/// Burst 4, one token a second.
fn slow_four() -> Value {
    json!(["four", {"token_bucket": {"burst": 4, "tokens": 1, "period_us": 1_000_000}}])
}

/// When the shim wrote the last line of its log, by its own clock: `...T12:34:56.789Z`.
fn seconds_of_day(shim: &Shim) -> f64 {
    let log = shim.log();
    let line: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    let time =
        line["timestamp"].as_str().unwrap().split_once('T').unwrap().1.trim_end_matches('Z').to_owned();
    time.split(':').fold(0.0, |sum, part| sum * 60.0 + part.parse::<f64>().unwrap())
}

/// <https://github.com/spring-cloud/spring-cloud-gateway/issues/2412>: an instance whose clock was slow rewound the time of
/// the last refill, so the next one refilled the bucket again.
#[tokio::test]
async fn tm_1_shims_ten_seconds_apart_are_as_one() {
    let (slow, fast) = (Clock::new(), Clock::new());
    slow.set_ms(-10_000);
    let redis = Redis::start(&[]);
    let shims = [Shim::with_clock(&fast, &redis.url()), Shim::with_clock(&slow, &redis.url())];
    shims.iter().for_each(Shim::wait_ready);
    let apart = (seconds_of_day(&shims[0]) - seconds_of_day(&shims[1])).rem_euclid(86_400.0);
    assert!((8.0..12.0).contains(&apart), "the clocks are not apart: {apart}");

    // (1) Five by the one, one by the other, four by the one.
    let since = Instant::now();
    let mut passed = 0;
    for (at, n) in [(0, 5), (1, 1), (0, 4)] {
        passed += passing(&take(&shims[at].client(), &batch(&[four()], &vec![one(&key(0)); n])).await);
    }
    let most = 4 + since.elapsed().as_millis() as usize / 500;
    assert!((4..=most).contains(&passed), "{passed} of at most {most}");

    // (2) Steadily, by either: the rate of one bucket. The case has 60 s; three show the same.
    let since = Instant::now();
    let mut passed = 0;
    for n in 0.. {
        passed += passing(&take(&shims[n % 2].client(), &batch(&[four()], &[one(&key(1))])).await);
        if Duration::from_secs(3) < since.elapsed() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    let most = 4 + since.elapsed().as_millis() as usize / 500;
    assert!((most - 2..=most).contains(&passed), "{passed}, not {most}");

    // What one of them sets reaches the other, and ends when Redis says so.
    let path = format!("/v1/overrides/default/two/{}", key(2));
    let set = json!({"numbers": only("two", 9)[1], "expires_in_s": 2}).to_string();
    let admin = Client::http1(shims[1].admin_address());
    let ask = admin.ask("PUT", &path).header("authorization", format!("Bearer {ADMIN_TOKEN}"));
    let since = Instant::now();
    assert_eq!(ask.header("content-type", "application/json").body(set).send().await.status, 200);
    let look = batch(&[only("two", 2)], &[json!([[0, key(2), 0, 0]])]);
    for (at, shim) in shims.iter().enumerate() {
        let sees = async |n: u64| take(&shim.client(), &look).await[0][0][2] == n;
        if at == 0 {
            eventually("it is in force", Duration::from_secs(1), async || sees(9).await).await;
        }
        eventually("it ends", Duration::from_secs(3), async || sees(2).await).await;
        let elapsed = since.elapsed();
        assert!(Duration::from_millis(1_900) < elapsed, "{elapsed:?}");
    }

    // A clock that is set while the shim runs changes nothing either.
    for shift in [3_600_000, -3_600_000, 0] {
        fast.set_ms(shift);
        let three = batch(&[only("three", 3)], &vec![one(&key(3)); 2]);
        let passed = passing(&take(&shims[0].client(), &three).await);
        assert_eq!(
            passed,
            match shift {
                3_600_000 => 2,
                -3_600_000 => 1,
                _ => 0,
            }
        );
    }
}

/// Redis's own clock steps, which is the one that counts: nothing is refilled by it, and nobody is locked out for longer
/// than one token takes.
#[tokio::test]
async fn tm_1_redis_may_step_too() {
    let clock = Clock::new();
    let redis = Redis::with_clock(&clock, &[]);
    let shim = Shim::patient(&redis.url());
    shim.wait_ready();
    let client = shim.client();
    let takes = async |key: &str, n: usize| {
        let verdicts = take(&client, &batch(&[slow_four()], &vec![one(key); n])).await;
        let retry_us = verdicts.last().unwrap()[0][4].as_u64().unwrap();
        (passing(&verdicts), retry_us)
    };
    let passes_after = async |key: &str| {
        let since = Instant::now();
        eventually("it passes", Duration::from_secs(10), async || takes(key, 1).await.0 == 1).await;
        since.elapsed()
    };
    let longest = Duration::from_secs(4);

    // (3) Three, then 11 s back: the fourth is still there, and the next comes after one token's time.
    clock.set_ms(0);
    let a = key(0);
    assert_eq!(takes(&a, 3).await.0, 3);
    clock.set_ms(-11_000);
    assert_eq!(takes(&a, 1).await.0, 1, "one of four is left");
    let (passed, retry_us) = takes(&a, 1).await;
    assert_eq!(passed, 0, "the step refilled nothing");
    assert!(retry_us <= 1_000_000, "{retry_us}");
    assert!(passes_after(&a).await <= longest);

    // (4) An hour forward and back, with and without a request in between.
    for (n, in_between) in [(1, false), (2, true)] {
        let b = key(n);
        clock.set_ms(0);
        assert_eq!(takes(&b, 4).await.0, 4);
        clock.set_ms(3_600_000);
        if in_between {
            assert_eq!(takes(&b, 4).await.0, 4, "an hour has passed, as far as anybody can tell");
        }
        clock.set_ms(0);
        let (_, retry_us) = takes(&b, 1).await;
        assert!(retry_us <= 1_000_000, "{retry_us}");
        assert!(passes_after(&b).await <= longest);
    }

    // Windows: the count holds, for one window at most, and waits never pass it.
    let window = json!(["window", {"fixed_window": {"limit": 2, "per_us": 1_000_000, "aligned": true}}]);
    let sliding = json!(["sliding", {"sliding_window": {"limit": 2, "per_us": 1_000_000}}]);
    let log = json!(["log", {"sliding_log": {"limit": 2, "per_us": 1_000_000}}]);
    for (n, limit, longest_us) in [(3, window, 1_000_000), (4, sliding, 2_000_000), (5, log, 1_000_000)] {
        clock.set_ms(0);
        let ask = batch(&[limit], &vec![one(&key(n)); 3]);
        assert_eq!(passing(&take(&client, &ask).await), 2);
        clock.set_ms(-3_600_000);
        let verdicts = take(&client, &ask).await;
        assert_eq!(passing(&verdicts), 0, "{ask}: the step refilled nothing");
        let retry_us = verdicts[0][0][4].as_u64().unwrap();
        assert!(retry_us <= longest_us, "{ask}: {retry_us}");
    }
}
