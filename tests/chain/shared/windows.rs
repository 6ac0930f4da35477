//! Windows and buckets at their extremes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::CHAIN;
use crate::rig::{NEVER, by, passed, row, statuses};

pub(super) fn limits() -> Vec<Value> {
    let limit = |name: &str, algorithm: &str, numbers: Value| {
        json!({"name": name, "match": {"path_prefix": format!("/{name}")}, "key": "caller",
               algorithm: numbers, "when_unavailable": "deny"})
    };
    vec![
        limit("burst-weighted", "sliding_window", json!({"limit": 10, "per": "60s"})),
        limit("burst-exact", "sliding_window", json!({"limit": 10, "per": "60s", "exact": true})),
        limit("burst-fixed", "fixed_window", json!({"limit": 10, "per": "60s"})),
        limit("burst-bucket", "token_bucket", json!({"burst": 10, "rate": NEVER})),
        limit("only-exact", "sliding_window", json!({"limit": 1, "per": "1s", "exact": true})),
        limit("only-weighted", "sliding_window", json!({"limit": 1, "per": "1s"})),
        limit("wide", "token_bucket", json!({"burst": 6000, "rate": "6000/s"})),
        limit("swift", "token_bucket", json!({"burst": 1, "rate": "2000/s"})),
        limit("eager", "sliding_window", json!({"limit": 10, "per": "600ms"})),
        limit("lawful", "fixed_window", json!({"limit": 4, "per": "600ms"})),
    ]
}

/// TM-3: <https://github.com/peterkhayes/rolling-rate-limiter/issues/11>: requests of one instant fell into one entry.
#[tokio::test]
async fn tm_3a_a_burst_in_one_instant_is_counted() {
    let chain = CHAIN.chain();
    let client = chain.client();
    for path in ["/burst-weighted", "/burst-exact", "/burst-fixed", "/burst-bucket"] {
        let replies = client.burst(200, |client, _| by(client, path, "one")).await;
        assert_eq!(passed(&replies), 10, "{path}");
        assert_eq!(chain.upstream.count(path), 10);
    }
}

/// TM-3: <https://github.com/sockudo/sockudo/issues/251>: a limit of one always denied.
#[tokio::test]
async fn tm_3b_a_limit_of_one_is_one() {
    let chain = CHAIN.chain();
    let client = chain.client();
    for path in ["/only-exact", "/only-weighted"] {
        let two = row(&client, 2, path, "one").await;
        assert_eq!(statuses(&two), [200, 429], "{path}");
        assert_eq!(two[1].number("retry-after"), Some(1), "{path}");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(by(&client, path, "one").send().await.status, 200, "{path}");
    }
}

/// TM-3: <https://github.com/brandur/redis-cell/issues/50>: rates above a thousand a second were not enforced.
#[tokio::test]
async fn tm_3cd_thousands_a_second_are_counted_one_by_one() {
    let chain = CHAIN.chain();
    let client = chain.client();
    for (path, burst, rate, n) in [("/wide", 6_000, 6_000, 7_500), ("/swift", 1, 2_000, 200)] {
        let begun = Instant::now();
        let mut most = 0;
        let mut passes = 0;
        for _ in 0..n / 50 {
            let replies = client.burst(50, |client, _| by(client, path, "one")).await;
            passes += passed(&replies);
            most = most.max(replies.iter().filter_map(|r| r.number("ratelimit-remaining")).max().unwrap());
        }
        let refilled = rate * begun.elapsed().as_micros() as usize / 1_000_000;
        assert!(passes <= burst + refilled, "{path}: {passes} passed, {burst} + {refilled} may");
        assert!(passes >= burst, "{path}: {passes}");
        assert!(most < burst as u64, "{path}: remaining {most}");
    }
}

/// TM-4: <https://github.com/mennanov/limiters/issues/110>: denied attempts were counted, and a client slightly over its
/// rate got nothing at all.
#[tokio::test]
async fn tm_4_denied_attempts_do_not_lock_out() {
    let chain = CHAIN.chain();
    let client = chain.client();
    // Twice the rate for ten windows.
    let mut ticker = tokio::time::interval(Duration::from_millis(30));
    let (mut passes, mut dry) = (0, Instant::now());
    for _ in 0..200 {
        ticker.tick().await;
        let reply = by(&client, "/eager", "one").send().await;
        if reply.status == 200 {
            passes += 1;
            dry = Instant::now();
        } else {
            assert_eq!((reply.status, reply.number("retry-after")), (429, Some(1)));
        }
        assert!(dry.elapsed() < Duration::from_millis(1_200), "nothing for {:?}", dry.elapsed());
    }
    assert!((80..=110).contains(&passes), "{passes} of 200 passed");
}

/// TM-4: <https://github.com/peterkhayes/rolling-rate-limiter/issues/9>: each hit pushed the end of the window on.
#[tokio::test]
async fn tm_4_a_slow_client_is_never_refused() {
    let chain = CHAIN.chain();
    let client = chain.client();
    for _ in 0..5 {
        assert_eq!(by(&client, "/lawful", "one").send().await.status, 200);
        tokio::time::sleep(Duration::from_millis(590)).await;
    }
}
