//! A take over several slots of a Cluster: decided in parts, and as one all the same.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sluicegate_policy::algorithm::Amount;
use sluicegate_policy::limit::{Algorithm, Align};
use sluicegate_shim::script::Layout;
use sluicegate_testing::redis::Redis;

use crate::cases::{self, DAY, MS, S, START_US};
use crate::rig::{Do, Lua, Rust};

/// One of each but the weighted window: it remembers when tokens were taken last, and what is given back does not make that
/// earlier.
fn limits() -> Vec<(String, Algorithm)> {
    [
        ("bucket", cases::token_bucket(5, 1, 100 * MS)),
        ("queue", cases::leaky_bucket(2, 1, 50 * MS, 200 * MS, 3)),
        ("fixed", cases::fixed_window(4, S, Align::FirstUse)),
        ("log", cases::sliding_log(3, S)),
        ("places", cases::concurrency(2, S)),
    ]
    .map(|(name, numbers)| (name.to_owned(), numbers))
    .into()
}

/// How long passes, and a take over some of the limits and keys.
fn step() -> impl Strategy<Value = (u64, Vec<(usize, usize, u64, u64)>)> {
    let passes = prop_oneof![Just(0), 0..300_000_u64];
    (passes, prop::collection::vec((0..5_usize, 0..4_usize, 0..3_u64, 0..3_u64), 1..6))
}

/// With the parts of refused takes given back before anything else is asked, a Cluster decides as one Redis does, and
/// every key stands as there afterwards.
#[test]
fn parts_make_the_same_whole() {
    let redis = Redis::start(&[]);
    let mut runner = TestRunner::new(Config { cases: 48, failure_persistence: None, ..Config::default() });
    runner
        .run(&prop::collection::vec(step(), 1..60), |steps| {
            let limits = limits();
            let mut lua = Lua::new(&redis, limits.clone(), Layout::Cluster);
            let mut rust = Rust::new(limits.clone());
            let mut now_us = START_US;
            for (slot, (passes, asks)) in steps.into_iter().enumerate() {
                now_us += passes;
                let mut take: Vec<(usize, usize, Amount)> = Vec::new();
                for (limit, key, cost, least) in asks {
                    if take.iter().all(|ask| (ask.0, ask.1) != (limit, key)) {
                        take.push((limit, key, Amount { cost: cost.max(least), at_least: cost.min(least) }));
                    }
                }
                let take = [Do::Take { slot: slot as u64, asks: take }];
                let (got, expected) = (lua.run(Some(now_us), &take), rust.run(now_us, &take));
                for (got, expected) in got[0].iter().zip(&expected[0]) {
                    prop_assert_eq!((got.allowed, got.granted), (expected.allowed, expected.granted));
                    prop_assert_eq!(got.remaining, expected.remaining);
                    prop_assert_eq!(
                        (got.retry_after_us, got.delay_us),
                        (expected.retry_after_us, expected.delay_us)
                    );
                }
                // Takes of one key each have no parts, so these show what is kept.
                let looks: Vec<Do> = (0..20)
                    .map(|at| Do::Take { slot: 0, asks: vec![(at / 4, at % 4, Amount::exactly(0))] })
                    .collect();
                prop_assert_eq!(lua.run(Some(now_us), &looks), rust.run(now_us, &looks));
            }
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}

/// What comes back late, when some of it has drained, rolled over or run out, comes back as the Rust store gives it back.
#[test]
fn late_refunds_agree() {
    let redis = Redis::start(&[]);
    let mut runner = TestRunner::new(Config { cases: 64, failure_persistence: None, ..Config::default() });
    // Some at one instant, so that what comes back is part of what was taken then.
    let passes = || prop_oneof![Just(0), 0..600_000_u64];
    let late = prop_oneof![Just(0), 0..2_000_000_u64];
    let step = (passes(), late, 0..6_usize, 0..2_usize, 1..5_u64, any::<bool>());
    runner
        .run(&prop::collection::vec(step, 1..60), |steps| {
            let mut limits = limits();
            limits.push(("sliding".to_owned(), cases::sliding_window(6, S)));
            limits.push(("used-up".to_owned(), cases::fixed_window(1, DAY, Align::FirstUse)));
            let (refuser, elsewhere) = (6, 9);
            let mut lua = Lua::new(&redis, limits.clone(), Layout::Cluster);
            let mut rust = Rust::new(limits);
            let mut now_us = START_US;
            let refused = [Do::Take { slot: 0, asks: vec![(refuser, elsewhere, Amount::exactly(1))] }];
            prop_assert_eq!(lua.run(Some(now_us), &refused), rust.run(now_us, &refused));
            for (slot, (passes, late_us, limit, key, cost, is_refused)) in steps.into_iter().enumerate() {
                now_us += passes;
                let (slot, own) = (slot as u64, (limit, key, Amount { cost, at_least: 1 }));
                let of_rust = rust.run(now_us, &[Do::Take { slot, asks: vec![own] }]);
                if is_refused {
                    lua.refunds_late_us = late_us;
                    let asks = vec![own, (refuser, elsewhere, Amount::exactly(1))];
                    let of_lua = lua.run(Some(now_us), &[Do::Take { slot, asks }]);
                    prop_assert_eq!(of_lua[0][0].allowed, of_rust[0][0].allowed);
                    if 0 < of_rust[0][0].granted {
                        now_us += late_us;
                        rust.refund(now_us, limit, key, slot, of_rust[0][0].granted);
                    }
                } else {
                    let of_lua = lua.run(Some(now_us), &[Do::Take { slot, asks: vec![own] }]);
                    prop_assert_eq!(of_lua, of_rust);
                }
                let looks: Vec<Do> = (0..12)
                    .map(|at| Do::Take { slot: 0, asks: vec![(at / 2, at % 2, Amount::exactly(0))] })
                    .collect();
                prop_assert_eq!(lua.run(Some(now_us), &looks), rust.run(now_us, &looks));
            }
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}
