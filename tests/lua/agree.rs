//! Answer by answer: worked cases, and random numbers, costs and clocks.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sluicegate_policy::algorithm::Amount;
use sluicegate_policy::limit::{Algorithm, Align};
use sluicegate_shim::script::Layout;
use sluicegate_testing::redis::Redis;

use crate::cases::{self, Action, START_US, cases};
use crate::rig::{Do, Lua, Rust};

#[test]
fn worked_cases() {
    let redis = Redis::start(&[]);
    let mut wrong = Vec::new();
    for case in cases() {
        let limits =
            case.limits.iter().map(|(name, numbers)| ((*name).to_owned(), numbers.clone())).collect();
        let mut lua = Lua::new(&redis, limits, Layout::Single);
        for (at, step) in case.steps.iter().enumerate() {
            let action = match &step.action {
                Action::Take(slot, asks) => Do::Take {
                    slot: *slot,
                    asks: asks.iter().map(|&(limit, amount)| (limit, 0, amount)).collect(),
                },
                Action::Charge(limit, n) => Do::Charge { limit: *limit, key: 0, n: *n },
                Action::Release(limit, slot) => Do::Release { limit: *limit, key: 0, slot: *slot },
            };
            let got = lua.run(Some(step.now_us), &[action]).concat();
            if got != step.expected {
                wrong.push(format!(
                    "{}, step {at}:\n  got      {got:?}\n  expected {:?}",
                    case.name, step.expected
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// === Random numbers, costs and clocks ===

/// Numbers of every size, the extremes among them.
fn algorithm() -> impl Strategy<Value = Algorithm> {
    let size = prop_oneof![1..20_u64, 1..1_000_000_000_u64, Just(1_000_000_000)];
    let per = prop_oneof![1_000..100_000_u64, 1_000..2_592_000_000_000_u64, Just(2_592_000_000_000)];
    let rate = prop_oneof![
        Just((1, 1)),
        Just((1, 2_592_000_000_000)),
        (1..1_000_000_u64).prop_map(|period_us| (1, period_us)),
        (1..=2_592_000_000_000_u64, 1..=2_592_000_000_000_u64).prop_map(|(a, b)| {
            let divisor = gcd(a, b);
            (a.min(b) / divisor, a.max(b) / divisor)
        }),
    ];
    prop_oneof![
        (size.clone(), rate.clone()).prop_map(|(burst, (t, p))| cases::token_bucket(burst, t, p)),
        (size.clone(), rate, 0..60_000_000_u64, 0..1_000_000_u64)
            .prop_map(|(burst, (t, p), wait, waiting)| cases::leaky_bucket(burst, t, p, wait, waiting)),
        (size.clone(), per.clone(), any::<bool>()).prop_map(|(limit, per, aligned)| {
            cases::fixed_window(limit, per, if aligned { Align::Epoch } else { Align::FirstUse })
        }),
        (size, per.clone()).prop_map(|(limit, per)| cases::sliding_window(limit, per)),
        (prop_oneof![1..10_u64, 1..=1_000_u64], per).prop_map(|(limit, per)| cases::sliding_log(limit, per)),
        (1..6_u64, 1_000_000..100_000_000_u64).prop_map(|(max, after)| cases::concurrency(max, after)),
    ]
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// How much, as a share of the limit's size, so that limits are reached whatever they are.
#[derive(Clone, Debug)]
enum Much {
    Exactly(u64),
    Share(u64),
    Block(u64, u64),
}

#[derive(Clone, Debug)]
struct Step {
    /// What passes before: a share of what the first limit's reset takes, or microseconds, perhaps backwards.
    passes: Passes,
    actions: Vec<(usize, usize, Much, u8)>,
    pair: bool,
}

#[derive(Clone, Debug)]
enum Passes {
    Us(i64),
    /// To the moment the last refusal named, or a microsecond before.
    ToRetry(bool),
}

const NAMES: usize = 3;
const KEYS: usize = 3;

fn step() -> impl Strategy<Value = Step> {
    let passes = prop_oneof![
        4 => Just(Passes::Us(0)),
        4 => (0..100_i64).prop_map(Passes::Us),
        4 => (0..10_000_000_i64).prop_map(Passes::Us),
        2 => (0..4_000_000_000_000_i64).prop_map(Passes::Us),
        1 => (-10_000_000..0_i64).prop_map(Passes::Us),
        1 => (-4_000_000_000_000..0_i64).prop_map(Passes::Us),
        3 => any::<bool>().prop_map(Passes::ToRetry),
    ];
    let much = prop_oneof![
        1 => Just(Much::Exactly(0)),
        6 => Just(Much::Exactly(1)),
        2 => (0..2_000_000_000_u64).prop_map(Much::Exactly),
        4 => (0..120_u64).prop_map(Much::Share),
        2 => (0..120_u64, 0..120_u64).prop_map(|(cost, least)| Much::Block(cost, least)),
    ];
    let action = (0..2 * NAMES, 0..KEYS, much, 0..10_u8);
    (passes, prop::collection::vec(action, 1..5), any::<bool>()).prop_map(|(passes, actions, pair)| Step {
        passes,
        actions,
        pair,
    })
}

fn steps_of(step: &Step, limits: &[(String, Algorithm)]) -> Vec<Do> {
    let amount = |limit: usize, much: &Much| {
        let share = |percent: u64| (limits[limit].1.size() * percent).div_ceil(100).min(1_000_000_000);
        match *much {
            Much::Exactly(n) => Amount::exactly(n.min(1_000_000_000)),
            Much::Share(percent) => Amount::exactly(share(percent)),
            Much::Block(cost, least) => {
                Amount { cost: share(cost.max(least)), at_least: share(cost.min(least)) }
            }
        }
    };
    let mut all = Vec::new();
    let mut asks: Vec<(usize, usize, Amount)> = Vec::new();
    for (limit, key, much, kind) in &step.actions {
        let (limit, key) = (*limit, *key);
        let concurrency = matches!(limits[limit].1, Algorithm::Concurrency(_));
        let amount = amount(limit, much);
        match (kind, concurrency) {
            (0, false) => all.push(Do::Charge { limit, key, n: amount.cost.max(1) }),
            (0..4, true) => all.push(Do::Release { limit, key, slot: amount.cost % 8 }),
            // One take asks a key once under one name.
            _ if asks.iter().all(|ask| ask.1 != key || limits[ask.0].0 != limits[limit].0) => {
                asks.push((limit, key, amount));
            }
            _ => {}
        }
    }
    let slot = step.actions.len() as u64 + step.actions[0].1 as u64;
    match step.pair {
        true if !asks.is_empty() => all.push(Do::Take { slot, asks }),
        _ => all.extend(asks.into_iter().map(|ask| Do::Take { slot, asks: vec![ask] })),
    }
    all
}

/// Each name has two sets of numbers, so numbers and algorithms change in the middle; each step is one batch.
#[test]
fn rust_and_lua_agree() {
    let redis = Redis::start(&[]);
    let mut runner = TestRunner::new(Config { cases: 96, failure_persistence: None, ..Config::default() });
    let story = (prop::collection::vec(algorithm(), 2 * NAMES), prop::collection::vec(step(), 1..120));
    runner
        .run(&story, |(algorithms, steps)| {
            let limits: Vec<_> = algorithms
                .into_iter()
                .enumerate()
                .map(|(at, algorithm)| (format!("limit-{}", at % NAMES), algorithm))
                .collect();
            let mut lua = Lua::new(&redis, limits.clone(), Layout::Single);
            let mut rust = Rust::new(limits.clone());
            let (mut now_us, mut retry_us) = (START_US, 0);
            for (at, step) in steps.iter().enumerate() {
                now_us = match step.passes {
                    Passes::Us(us) => now_us.saturating_add_signed(us).clamp(START_US / 2, START_US * 2),
                    Passes::ToRetry(short) if retry_us < 10_000_000_000_000 => {
                        now_us + retry_us - u64::from(short && 0 < retry_us)
                    }
                    Passes::ToRetry(_) => now_us,
                };
                let batch = steps_of(step, &limits);
                let expected = rust.run(now_us, &batch);
                let got = lua.run(Some(now_us), &batch);
                prop_assert_eq!(&got, &expected, "step {} at {}: {:?}", at, now_us, batch);
                retry_us =
                    expected.iter().flatten().map(|standing| standing.retry_after_us).max().unwrap_or(0);
            }
            prop_assert_eq!(lua.immortal(), Vec::<String>::new());
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}
