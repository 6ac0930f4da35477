//! A master with two replicas and three sentinels.

use std::time::{Duration, Instant};

use serde_json::json;
use sluicegate_testing::redis::sentinel::{MASTER, Trio};
use sluicegate_testing::shim::Shim;

use crate::load::{Load, is_refused};
use crate::rig::{batch, eventually, key, one, only, passing, send, take};

/// How soon the shims have to follow once the sentinels agree.
const FOLLOW: Duration = Duration::from_secs(4);

/// The master dies while takes run.
#[tokio::test]
async fn a_dead_master_is_followed_by_its_successor() {
    let mut trio = Trio::start();
    let shims = [Shim::patient(&trio.url()), Shim::patient(&trio.url())];
    shims.iter().for_each(Shim::wait_ready);
    let (keys, n) = ([key(0), key(1)], 800);
    let load = Load::start(&shims, &keys, n);
    load.recovers(FOLLOW).await;
    trio.server_mut(0).stop();
    let died = Instant::now();
    trio.wait_successor(0);
    load.recovers(FOLLOW).await;
    assert!(shims.iter().all(Shim::is_ready));

    // It comes back, is made a replica, and is not asked again.
    trio.server_mut(0).restart();
    let role = async || trio.server(0).info("replication").contains("role:slave");
    eventually("the old master is a replica", Duration::from_secs(20), role).await;
    load.recovers(FOLLOW).await;
    let used_up = async |key: &String| {
        let look = batch(&[only("load", n)], &[json!([[0, key, 0, 0]])]);
        is_refused(&send(&shims[0].client(), &look).await)
    };
    for key in &keys {
        eventually("the whole quota is used", Duration::from_secs(30), async || used_up(key).await).await;
    }
    let tally = load.stop().await;
    for at in 0..keys.len() {
        let (passed, undecided) = (tally.passed(at), tally.undecided(at));
        let lag = tally.passed_before(at, died, Duration::from_millis(500));
        assert!(passed <= n + lag, "{passed} passed, {lag} of them just before the death");
        assert!(n <= passed + undecided, "{passed} passed, {undecided} were left undecided");
    }
}

/// The master hangs, and one sentinel with it; when both run on, nobody goes back.
#[tokio::test]
async fn a_master_that_hangs_is_left_for_good() {
    let trio = Trio::start();
    let shim = Shim::with(&trio.url(), &["--store-timeout", "200ms"]);
    shim.wait_ready();
    let client = shim.client();
    let five = batch(&[only("five", 5)], &[one(&key(0))]);
    assert_eq!(passing(&take(&client, &five).await), 1);
    trio.wait_replicated(0);
    trio.freeze_sentinel(2);
    trio.server(0).freeze();
    let moved = async || [0, 1].iter().all(|&sentinel| trio.named_by(sentinel) != 0);
    eventually("two sentinels name another master", Duration::from_secs(20), moved).await;
    let decided = async || send(&client, &five).await.status == 200;
    eventually("takes are decided again", FOLLOW, decided).await;
    trio.thaw_sentinel(2);
    trio.server(0).thaw();
    // The sentinel that was away learns better within a moment; the shim never follows it back.
    let named = async || trio.named_by(2) != 0;
    eventually("all sentinels agree", Duration::from_secs(20), named).await;
    let verdicts = take(&client, &batch(&[only("five", 5)], &vec![one(&key(0)); 5])).await;
    assert_eq!(passing(&verdicts), 3, "two of five were used, before and after\n{}", shim.log());
    assert_eq!(shim.log().matches("store is available").count(), 2, "{}", shim.log());
}

/// The sentinels have named another master, and the old one does not know: cut off from them, it grants on. Whoever still
/// reaches it must leave it all the same.
#[tokio::test]
async fn a_deposed_master_is_left_though_it_answers() {
    let trio = Trio::start();
    let shim = Shim::patient(&trio.url());
    shim.wait_ready();
    let client = shim.client();
    let one_take = batch(&[only("ten", 10)], &[one(&key(0))]);
    assert_eq!(passing(&take(&client, &one_take).await), 1);
    let mut old = trio.server(0).connection();
    let mut forbid = redis::cmd("ACL");
    forbid.arg("SETUSER").arg("default").arg("-replicaof").arg("-slaveof").exec(&mut old).unwrap();
    let mut sentinel = trio.sentinel_connection(0);
    redis::cmd("SENTINEL").arg("FAILOVER").arg(MASTER).exec(&mut sentinel).unwrap();
    trio.wait_successor(0);
    let role = trio.server(0).info("replication");
    assert!(role.contains("role:master"), "the old one was told nothing: {role}");

    let left = async || shim.log().contains("\"deposed\"");
    eventually("the shim has left it", FOLLOW, left).await;
    let follows = async || {
        let named = format!("127.0.0.1:{}", trio.server(trio.named_by(0)).port());
        let log = shim.log();
        log.lines()
            .rfind(|line| line.contains("store is available"))
            .is_some_and(|line| line.contains(&named))
    };
    eventually("it follows the sentinels", FOLLOW, follows).await;
    assert_eq!(send(&client, &one_take).await.status, 200);
    assert!(shim.is_ready());
}
