//! RS-6: every key has an expiry, whatever was done: long enough that expiry never refills, short enough that idle keys
//! vanish. By the clock of Redis, as the shim runs the script.

use std::time::Duration;

use sluicegate_policy::algorithm::Amount;
use sluicegate_policy::limit::{Algorithm, Align};
use sluicegate_policy::verdict::Standing;
use sluicegate_shim::script::Layout;
use sluicegate_testing::redis::Redis;

use crate::cases::{self, DAY, HOUR, MS, S};
use crate::rig::{Do, Lua};

/// What a call may take, and so how far an expiry may be from the time until the key is as good as new.
const CALL_MS: i64 = 2_000;

/// One of each algorithm, each lets five through, in about this time.
fn each(per_us: u64) -> [(&'static str, Algorithm); 7] {
    [
        ("bucket", cases::token_bucket(5, 1, per_us / 5)),
        ("queue", cases::leaky_bucket(4, 1, per_us / 5, 60 * S, 1)),
        ("fixed", cases::fixed_window(5, per_us, Align::FirstUse)),
        ("aligned", cases::fixed_window(5, per_us, Align::Epoch)),
        ("sliding", cases::sliding_window(5, per_us)),
        ("log", cases::sliding_log(5, per_us)),
        ("places", cases::concurrency(5, per_us.max(S))),
    ]
}

fn take(limit: usize, slot: u64, cost: u64) -> Do {
    Do::Take { slot, asks: vec![(limit, 0, Amount::exactly(cost))] }
}

fn lua(redis: &Redis, limits: &[(&str, Algorithm)]) -> Lua {
    let limits = limits.iter().map(|(name, numbers)| ((*name).to_owned(), numbers.clone())).collect();
    Lua::new(redis, limits, Layout::Single)
}

/// How one key stands: looked at, which changes nothing.
fn look(lua: &mut Lua, limit: usize) -> Standing {
    lua.run(None, &[take(limit, 0, 0)])[0][0]
}

/// The one key that there is lives for as long as it takes to be as good as new.
fn lives_as_long_as_it_counts(lua: &mut Lua, limit: usize, what: &str) {
    let reset_ms = i64::try_from(look(lua, limit).reset_us / 1_000).unwrap();
    let lives = lua.lives();
    let [(key, left_ms)] = lives.as_slice() else { panic!("{what}: one key, not {lives:?}") };
    // For places the reset is an upper bound: their key lives as long as one taken last.
    let shortest = if key.ends_with(":c") { 0 } else { reset_ms - CALL_MS };
    assert!(shortest < *left_ms && *left_ms <= reset_ms + CALL_MS, "{what}: {left_ms} ms for {reset_ms} ms");
}

#[test]
fn rs_6_every_path_leaves_an_expiry() {
    let redis = Redis::start(&[]);
    for (name, numbers) in each(DAY) {
        let mut lua = lua(&redis, &[(name, numbers.clone())]);
        let is_places = name == "places";
        for (what, steps) in [
            ("a look at nothing", vec![take(0, 1, 0)]),
            ("a take that is refused as too large", vec![take(0, 1, 6)]),
            ("a take", vec![take(0, 1, 1)]),
            ("a look", vec![take(0, 2, 0)]),
            ("a block", vec![Do::Take { slot: 2, asks: vec![(0, 0, Amount { cost: 3, at_least: 1 })] }]),
            ("all at once", (3..12).map(|slot| take(0, slot, 1)).collect()),
            ("a take that is refused", vec![take(0, 20, 1)]),
            ("a charge", vec![Do::Charge { limit: 0, key: 0, n: 4 }]),
            ("a charge without an end", vec![Do::Charge { limit: 0, key: 0, n: 1_000_000 }]),
            ("something given back", vec![Do::Release { limit: 0, key: 0, slot: 3 }]),
        ] {
            // Charges are for counts, releases for places.
            let fits = |step: &Do| {
                !matches!((step, is_places), (Do::Charge { .. }, true) | (Do::Release { .. }, false))
            };
            if !steps.iter().all(fits) {
                continue;
            }
            lua.run(None, &steps);
            if what.starts_with("a look at nothing") || (what.contains("too large") && !is_places) {
                assert_eq!(lua.lives(), [], "{name}: {what} leaves nothing");
                continue;
            }
            lives_as_long_as_it_counts(&mut lua, 0, &format!("{name}: {what}"));
        }
    }
}

/// Somebody takes the expiry away: whatever touches the key next puts it back, refused takes included.
#[test]
fn rs_6_a_lost_expiry_comes_back() {
    let redis = Redis::start(&[]);
    for (name, numbers) in each(DAY) {
        let mut lua = lua(&redis, &[(name, numbers)]);
        for (what, steps) in [
            ("a take", vec![take(0, 1, 1)]),
            ("a look", vec![take(0, 2, 0)]),
            ("the rest", (2..6).map(|slot| take(0, slot, 1)).collect()),
            ("a refused take", vec![take(0, 9, 1)]),
        ] {
            if let [(key, _)] = lua.lives().as_slice() {
                redis::cmd("PERSIST").arg(key).exec(&mut lua.connection).unwrap();
                assert_eq!(lua.immortal().len(), 1);
            }
            lua.run(None, &steps);
            lives_as_long_as_it_counts(&mut lua, 0, &format!("{name}: {what}"));
        }
    }
}

/// Numbers that make a state count for longer make it live for longer, though nothing is charged.
#[test]
fn a_longer_window_makes_a_longer_life() {
    let redis = Redis::start(&[]);
    for ((name, short), (_, long)) in each(HOUR).into_iter().zip(each(DAY)) {
        let mut lua = lua(&redis, &[(name, short), (name, long)]);
        lua.run(None, &[take(0, 1, 3)]);
        lives_as_long_as_it_counts(&mut lua, 1, name);
    }
}

/// Keys at rest vanish by themselves, and not before they are.
#[test]
fn idle_keys_vanish() {
    let redis = Redis::start(&[]);
    for (name, numbers) in each(200 * MS) {
        let mut lua = lua(&redis, &[(name, numbers)]);
        let (mut last_reset_us, mut takes, mut looks) = (0, 0, 0);
        // An aligned window may end at once.
        while lua.lives().is_empty() {
            lua.run(None, &[take(0, 1, 1), take(0, 2, 1)]);
            takes += 1;
            assert!(takes < 100, "{name} leaves nothing");
        }
        while !lua.lives().is_empty() {
            // A look touches the key, and puts nothing off.
            last_reset_us = look(&mut lua, 0).reset_us;
            looks += 1;
            assert!(looks < 1_000, "{name} stays: {:?}", lua.lives());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(name == "places" || last_reset_us < 100_000, "{name} vanished {last_reset_us} us early");
    }
}
