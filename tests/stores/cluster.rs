//! A Redis Cluster of three masters and their replicas.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sluicegate_testing::redis::cluster::Cluster;
use sluicegate_testing::shim::Shim;

use crate::load::{Load, is_refused};
use crate::manual;
use crate::rig::{batch, eventually, key, one, only, passing, send, take};

/// How soon takes have to be decided again after a master has died: the cluster's own fail-over, and a little.
const FAIL_OVER: Duration = Duration::from_secs(15);

/// A limit of each algorithm that counts, and the one that hands out places; each lets `n` through.
fn one_of_each(n: u64) -> [Value; 6] {
    let hour = 3_600_000_000_u64;
    [
        only("bucket", n),
        json!(["queue", {"leaky_bucket":
            {"burst": n, "tokens": 1, "period_us": hour, "wait_up_to_us": 0, "waiting": 0}}]),
        json!(["fixed", {"fixed_window": {"limit": n, "per_us": 24 * hour, "aligned": false}}]),
        json!(["sliding", {"sliding_window": {"limit": n, "per_us": 24 * hour}}]),
        json!(["log", {"sliding_log": {"limit": n, "per_us": 24 * hour}}]),
        json!(["places", {"concurrency": {"max": n, "release_after_us": hour}}]),
    ]
}

/// The slot of a key under `only("...")`: that of its tag.
fn slot(cluster: &Cluster, key: &str) -> u16 {
    cluster.slot(&key[..6])
}

/// The first keys from `from` on that each of the masters serves.
fn a_key_of_each_master(cluster: &Cluster, from: usize) -> [String; 3] {
    [0, 1, 2].map(|master| {
        (from..).map(key).find(|key| cluster.master_of(slot(cluster, key)) == Some(master)).unwrap()
    })
}

fn evalsha_calls(cluster: &Cluster, at: usize) -> u64 {
    let stats = cluster.node(at).info("commandstats");
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    calls.map_or(0, |calls| calls.split(',').next().unwrap().parse().unwrap())
}

fn keys_at(cluster: &Cluster, at: usize) -> Vec<String> {
    redis::cmd("KEYS").arg("*").query(&mut cluster.node(at).connection()).unwrap()
}

async fn remaining(shim: &Shim, limit: &Value, key: &str) -> u64 {
    let look = batch(std::slice::from_ref(limit), &[json!([[0, key, 0, 0]])]);
    take(&shim.client(), &look).await[0][0][2].as_u64().unwrap()
}

#[tokio::test]
async fn takes_of_one_identity_share_a_slot_and_others_are_given_back() {
    let cluster = Cluster::start(&[]);
    let shim = Shim::patient(&cluster.url());
    shim.wait_ready();
    let client = shim.client();

    // A node of a cluster is no Redis by itself: one of the others has the key that is tried.
    let strays: Vec<Shim> = (0..3).map(|at| Shim::start(&cluster.node(at).url())).collect();
    let told = |shim: &Shim| shim.log().contains("MOVED");
    eventually("two say so", FAIL_OVER, async || strays.iter().filter(|shim| told(shim)).count() == 2).await;
    assert!(strays.iter().filter(|shim| told(shim)).all(|shim| !shim.is_ready()));
    drop(strays);

    // A batch over many identities: each exact, on all three masters.
    let takes: Vec<Value> = (0..1_000).map(|n| one(&key(n / 4))).collect();
    assert_eq!(passing(&take(&client, &batch(&[only("three", 3)], &takes)).await), 750);
    for master in 0..3 {
        assert!(keys_at(&cluster, master).len() > 40, "master {master} has its share");
    }

    // Many limits, one identity: one slot, one call.
    let own = a_key_of_each_master(&cluster, 1_000);
    let before: u64 = (0..3).map(|at| evalsha_calls(&cluster, at)).sum();
    let asks: Vec<Value> = (0..6).map(|limit| json!([limit, own[1], 1, 1])).collect();
    let mut whole = batch(&one_of_each(2), &vec![json!(asks); 3]);
    for (slot, take) in whole["takes"].as_array_mut().unwrap().iter_mut().enumerate() {
        take["slot"] = json!(slot);
    }
    assert_eq!(passing(&take(&client, &whole).await), 2);
    let after: u64 = (0..3).map(|at| evalsha_calls(&cluster, at)).sum();
    assert_eq!(after - before, 1, "one round trip");
    let slots: HashSet<u16> = keys_at(&cluster, 1)
        .iter()
        .filter(|name| name.contains(&own[1]))
        .map(|name| cluster.slot(name))
        .collect();
    assert_eq!(slots.len(), 1, "limits of one identity share a slot");

    // Two identities at two masters: all or nothing, whatever the algorithm.
    for (n, limit) in one_of_each(5).into_iter().enumerate() {
        let [a, b, _] = a_key_of_each_master(&cluster, 2_000 + 100 * n);
        let mut both = batch(&[limit.clone(), only("narrow", 1)], &[json!([[0, a, 1, 1], [1, b, 1, 1]])]);
        both["takes"][0]["slot"] = json!(7);
        assert_eq!(passing(&take(&client, &both).await), 1, "{limit}");
        both["takes"][0]["slot"] = json!(8);
        for _ in 0..3 {
            let verdicts = take(&client, &both).await;
            assert_eq!((&verdicts[0][0][0], &verdicts[0][0][1]), (&json!(1), &json!(0)), "{limit}");
            assert_eq!((&verdicts[0][0][2], &verdicts[0][1][0]), (&json!(4), &json!(0)), "{limit}");
        }
        assert_eq!(remaining(&shim, &limit, &a).await, 4, "{limit}: what was refused is not charged");
    }
    let metrics = shim.metrics();
    assert_eq!(metrics.sum("sluicegate_shim_store_refunds_total", &[]), 18.0);
    assert_eq!(metrics.sum("sluicegate_shim_store_refunds_lost_total", &[]), 0.0);
    assert_eq!(metrics.sum("sluicegate_shim_store_errors_total", &[]), 0.0, "no CROSSSLOT, no MOVED");
    assert_eq!(metrics.sum("sluicegate_shim_store_up", &[]), 3.0);

    // And when many come at once, never more than the narrow limit.
    let [a, b, _] = a_key_of_each_master(&cluster, 4_000);
    let pair = json!([[0, a, 1, 1], [1, b, 1, 1]]);
    let pairs = batch(&[only("wide", 1_000), only("narrow", 10)], &vec![pair; 5]);
    let replies = client.burst(40, |client, _| client.post("/v1/take").body(pairs.to_string())).await;
    let verdicts = replies.iter().flat_map(|reply| {
        let answer: Value = serde_json::from_slice(&reply.body).unwrap();
        answer["verdicts"].as_array().unwrap().clone()
    });
    assert_eq!(passing(&verdicts.collect::<Vec<_>>()), 10);
    assert_eq!(remaining(&shim, &only("wide", 1_000), &a).await, 990);
}

/// A slot moves to another master while its keys are in use: nobody notices, except that a take over several keys waits,
/// and is at last left undecided, while only some of them have arrived.
#[tokio::test]
async fn a_slot_that_moves_keeps_its_counts() {
    let cluster = Cluster::start(&[]);
    // With the login that the manual tells to make.
    for at in 0..6 {
        let permissions = manual::cluster_permissions();
        let mut command = redis::cmd("ACL");
        command.arg("SETUSER").arg("sluicegate").arg("on").arg(">a-password");
        command
            .arg(permissions.split(' ').collect::<Vec<_>>())
            .exec(&mut cluster.node(at).connection())
            .unwrap();
    }
    let shim = Shim::patient(&cluster.url().replace("://", "://sluicegate:a-password@"));
    shim.wait_ready();
    let client = shim.client();
    let wrong = Shim::start(&cluster.url().replace("://", "://sluicegate:another@"));
    eventually("it says what is wrong", FAIL_OVER, async || wrong.log().contains("\"denied\"")).await;
    assert!(!wrong.is_ready(), "{}", wrong.log());
    drop(wrong);
    let [moving, _, _] = a_key_of_each_master(&cluster, 0);
    let fresh = format!("{}-bbbbbbbbbbbbbbb", &moving[..6]);
    let slot = slot(&cluster, &moving).to_string();
    let (from, to) = (cluster.id(0).to_owned(), cluster.id(1).to_owned());
    let limits = [only("ten", 10), only("six", 6)];
    let single = batch(&limits, &[one(&moving)]);
    let both = batch(&limits, &[json!([[0, moving, 1, 1], [1, moving, 1, 1]])]);
    assert_eq!(passing(&take(&client, &both).await), 1);

    cluster.cluster(1, &["SETSLOT", &slot, "IMPORTING", &from]);
    cluster.cluster(0, &["SETSLOT", &slot, "MIGRATING", &to]);
    // Keys that are still there are served there; one that is new is served where it will be: ASK.
    assert_eq!(passing(&take(&client, &both).await), 1);
    let new = batch(&limits, &vec![one(&fresh); 11]);
    assert_eq!(passing(&take(&client, &new).await), 10);
    assert!(keys_at(&cluster, 1).iter().any(|name| name.contains(&fresh)));

    // One of the two keys has gone ahead.
    let migrate = |name: &str| {
        let name = keys_at(&cluster, 0).into_iter().find(|key| key.contains(&format!(":{name}:"))).unwrap();
        let mut command = redis::cmd("MIGRATE");
        command.arg("127.0.0.1").arg(cluster.node(1).port()).arg(name).arg(0).arg(1_000);
        command.exec(&mut cluster.node(0).connection()).unwrap();
    };
    migrate("ten");
    assert_eq!(passing(&take(&client, &single).await), 1, "where it has gone: ASK");
    let reply = send(&client, &both).await;
    assert_eq!(reply.status, 503, "{}", reply.text());
    assert!(reply.text().contains("\"cluster\""), "{}", reply.text());
    // The script cache of the new master is lost as well (RS-1): asked again, loaded again.
    redis::cmd("SCRIPT").arg("FLUSH").exec(&mut cluster.node(1).connection()).unwrap();
    assert_eq!(passing(&take(&client, &single).await), 1);

    // A take that comes while the second key travels is decided when it has arrived.
    let waiting = tokio::spawn({
        let (client, both) = (client.clone(), both.clone());
        async move { send(&client, &both).await }
    });
    migrate("six");
    for at in [0, 1, 2] {
        cluster.cluster(at, &["SETSLOT", &slot, "NODE", &to]);
    }
    let waited = waiting.await.unwrap();
    let passes = if waited.status == 200 { 1 } else { 0 };
    // From now on the old master says MOVED, and the very first take follows.
    let verdicts = take(&client, &both).await;
    assert_eq!(passing(&verdicts), 1);
    let left = |at: usize| verdicts[0][at][2].as_u64().unwrap();
    assert_eq!((left(0), left(1)), (5 - passes, 3 - passes), "each was charged once");
    assert_eq!(
        shim.metrics().value("sluicegate_shim_store_errors_total", &[("kind", "cluster")]),
        2.0 - passes as f64
    );
}

/// A master dies while takes run, its replica takes over, and it comes back as a replica; then a fail-over is ordered.
#[tokio::test]
async fn a_fail_over_hands_out_nothing_twice() {
    let mut cluster = Cluster::start(&[]);
    let shims = [Shim::patient(&cluster.url()), Shim::patient(&cluster.url())];
    shims.iter().for_each(Shim::wait_ready);
    let keys = a_key_of_each_master(&cluster, 0);
    let at_master_0 = slot(&cluster, &keys[0]);

    let n = 1_000;
    let load = Load::start(&shims, &keys, n);
    load.recovers(FAIL_OVER).await;
    cluster.node_mut(0).stop();
    let died = Instant::now();
    eventually("the replica has taken over", FAIL_OVER, async || {
        cluster.master_of(at_master_0) == Some(Cluster::partner(0))
    })
    .await;
    let took = load.recovers(Duration::from_secs(3)).await;
    assert!(shims.iter().all(Shim::is_ready), "ready {took:?} after the cluster was well");

    // The old master comes back as a replica of its replica.
    cluster.node_mut(0).restart();
    cluster.wait_ok();
    load.recovers(Duration::from_secs(3)).await;
    let used_up = async |key: &String| {
        let look = batch(&[only("load", n)], &[json!([[0, key, 0, 0]])]);
        is_refused(&send(&shims[0].client(), &look).await)
    };
    for key in &keys {
        eventually("the whole quota is used", Duration::from_secs(30), async || used_up(key).await).await;
    }
    let tally = load.stop().await;
    for (at, key) in keys.iter().enumerate() {
        let (passed, undecided) = (tally.passed(at), tally.undecided(at));
        // What the old master granted and its replica had not heard of yet may be granted once more.
        let lag = if at == 0 { tally.passed_before(at, died, Duration::from_millis(500)) } else { 0 };
        assert!(passed <= n + lag, "{key}: {passed} passed, {lag} of them just before the death");
        assert!(n <= passed + undecided, "{key}: {passed} passed, {undecided} were left undecided");
    }

    // An ordered fail-over loses nothing at all.
    let load = Load::start(&shims, &[keys[0].replace("-a", "-c")], n);
    load.recovers(FAIL_OVER).await;
    cluster.until("the old master is in step", |cluster| {
        cluster.node(0).info("replication").contains("master_link_status:up")
    });
    cluster.cluster(0, &["FAILOVER"]);
    eventually("the master is the first again", FAIL_OVER, async || {
        cluster.master_of(at_master_0) == Some(0)
    })
    .await;
    load.recovers(Duration::from_secs(3)).await;
    let key = keys[0].replace("-a", "-c");
    eventually("the whole quota is used", Duration::from_secs(30), async || used_up(&key).await).await;
    let tally = load.stop().await;
    assert!(tally.passed(0) <= n, "{} of {n}", tally.passed(0));
    assert!(n <= tally.passed(0) + tally.undecided(0));
    for shim in &shims {
        assert_eq!(shim.metrics().value("sluicegate_shim_store_errors_total", &[("kind", "other")]), 0.0);
    }
}
