//! What the README promises, with the shipped configuration and nothing changed but the ports.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use sluicegate_testing::client::{Client, Reply, with_status};
use sluicegate_testing::envoy::Setup;
use sluicegate_testing::redis::Redis;
use sluicegate_testing::shim::Shim;
use sluicegate_testing::upstream::Upstream;
use tokio::task::{JoinHandle, JoinSet};

use crate::rig::{Chain, by, eventually, row, statuses};

/// The shipped Envoy. Only the wait for decisions is longer: a busy machine is no outage.
fn start(upstream: Upstream) -> Chain {
    let redis = Redis::start(&[]);
    let shim = Shim::patient_on_socket(&redis.url());
    shim.wait_ready();
    let setup = Setup::shipped(upstream.address()).shim_socket(shim.socket());
    let envoy = setup.edit("timeout: 50ms", "timeout: 3s").start();
    Chain { envoy, shim, redis, upstream }
}

/// Sends until one is refused; how many passed, and the refusal.
async fn use_up(client: &Client, path: &str, caller: &str) -> (usize, Reply) {
    let mut passes = 0;
    loop {
        let reply = by(client, path, caller).send().await;
        if reply.status != 200 {
            assert_eq!(reply.status, 429, "{path}: {}", reply.text());
            return (passes, reply);
        }
        passes += 1;
    }
}

#[tokio::test]
async fn the_shipped_configuration_limits_as_it_says() {
    let chain = start(Upstream::start());
    let client = chain.client();
    // What the rate gives back meanwhile comes on top.
    for (path, burst, per_s) in [("/", 100, 1.0), ("/search/shoes", 20, 2.0), ("/reports/7/export", 3, 0.05)]
    {
        let begun = Instant::now();
        let [one, two] = ["one", "two"].map(|name| format!("{name} of {path}"));
        let (passes, refused) = use_up(&client, path, &one).await;
        let more = (begun.elapsed().as_secs_f64() * per_s) as usize + 1;
        assert!((burst..=burst + more).contains(&passes), "{path}: {passes} passed");
        assert_eq!(refused.header("content-type"), Some("application/problem+json"));
        assert_eq!(refused.header("cache-control"), Some("no-store"));
        assert_eq!(refused.number("ratelimit-remaining"), Some(0));
        assert_eq!(by(&client, path, &two).send().await.status, 200, "{path}: another key");
        if path == "/" {
            let wait_s = refused.number("retry-after").unwrap();
            tokio::time::sleep(Duration::from_secs(wait_s)).await;
            assert_eq!(by(&client, path, &one).send().await.status, 200, "after {wait_s} s");
            let bearer = client.get(path).header("authorization", format!("Bearer {one}")).send().await;
            assert_eq!(bearer.status, 200, "a token is not a key of the same text");
        }
    }

    // By address: another key buys no more guesses.
    let mut logins = Vec::new();
    for n in 0..6 {
        logins.push(by(&client, "/login", &format!("guess-{n}")).send().await);
    }
    assert_eq!(statuses(&logins), [200, 200, 200, 200, 200, 429]);
    assert!((1..=60).contains(&logins[5].number("retry-after").unwrap()));
    assert_eq!(
        statuses(&row(&client, 150, "/healthz", "one").await),
        [200; 150],
        "health is always answered"
    );
}

/// Clients that each send one request after the other until told to stop, and wait a little when they are refused; all
/// that came back.
fn keep_asking(
    client: &Client,
    n: usize,
    path: &'static str,
    stop: &Arc<AtomicBool>,
) -> JoinHandle<Vec<Reply>> {
    let ask = |at: usize| {
        let (client, stop) = (client.clone(), Arc::clone(stop));
        async move {
            let mut replies: Vec<Reply> = Vec::new();
            while !stop.load(Relaxed) {
                // Nobody meets a quota here.
                let caller = format!("{path}-{at}-{}", replies.len() / 50);
                let reply = by(&client, path, &caller).send().await;
                if reply.status != 200 {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                replies.push(reply);
            }
            replies
        }
    };
    let clients: JoinSet<_> = (0..n).map(ask).collect();
    tokio::spawn(async move { clients.join_all().await.concat() })
}

#[tokio::test]
async fn a_slow_upstream_sheds_beacons_and_serves_checkouts() {
    // Sixteen at a time, as envoy.yaml says, 160 a second; eighty clients who would have far more.
    let chain = start(Upstream::limited(16, Duration::from_millis(100)));
    let client = chain.client();
    let stop = Arc::new(AtomicBool::new(false));
    let beacons = keep_asking(&client, 40, "/beacon", &stop);
    let pages = keep_asking(&client, 32, "/page", &stop);
    let checkouts = keep_asking(&client, 8, "/checkout", &stop);
    let enough = async || {
        let metrics = chain.envoy.metrics();
        let shed = metrics.sum("sluicegate_class_saturation_rejected", &[("class", "sheddable")]);
        shed >= 200.0 && metrics.value("sluicegate_class_ok", &[("class", "critical")]) >= 100.0
    };
    eventually("beacons are shed and checkouts served", Duration::from_secs(30), enough).await;
    let health = row(&client, 20, "/healthz", "probe").await;
    stop.store(true, Relaxed);
    let [beacons, pages, checkouts] =
        [beacons.await.unwrap(), pages.await.unwrap(), checkouts.await.unwrap()];

    assert_eq!(with_status(&checkouts, 200), checkouts.len(), "{:?}", statuses(&checkouts));
    assert_eq!(with_status(&health, 200), health.len(), "{:?}", statuses(&health));
    let refused: Vec<_> = beacons.iter().chain(&pages).filter(|reply| reply.status != 200).collect();
    assert!(refused.len() >= 200);
    for reply in refused {
        assert_eq!(reply.status, 503, "{}", reply.text());
        assert_eq!(reply.header("x-envoy-overloaded"), Some("true"));
        assert!(reply.number("retry-after").unwrap() >= 1);
    }
}
