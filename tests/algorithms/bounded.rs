//! The bounded store never hands out fresh quota: compared with one that has room for everybody.

use proptest::prelude::*;
use sluicegate_policy::algorithm::Amount;
use sluicegate_policy::limit::{Algorithm, Align};
use sluicegate_policy::store::{Ask, Store};
use sluicegate_policy::verdict::Standing;

use crate::cases::{self, MS, S, START_US};

/// A key under a limit: the index of the limit, and whose.
type Key = (usize, u8);

#[derive(Clone, Debug)]
enum Step {
    Passes(u64),
    /// Takes of these keys, with a cost and a least; then perhaps all of it is given back.
    Take(Vec<(usize, u8, u64, u64)>, bool),
    /// Of the fixed window, whose debt is counted in whole tokens like its bound.
    Charge(u8, u64),
    Release(u8, usize),
}

/// Aligned, since an anchored window that newcomers share ends with the first of them: each may then have twice its
/// limit around that end, as around any other.
fn limits() -> Vec<Algorithm> {
    vec![
        cases::token_bucket(5, 1, 100 * MS),
        cases::leaky_bucket(2, 1, 50 * MS, 200 * MS, 3),
        cases::fixed_window(4, S, Align::Epoch),
        cases::sliding_window(6, S),
        cases::sliding_log(3, S),
        cases::concurrency(2, S),
    ]
}

const WINDOW: usize = 2;
const PLACES: usize = 5;

fn step() -> impl Strategy<Value = Step> {
    let whose = 0..24_u8;
    let ask = (0..6_usize, whose.clone(), 0..4_u64, 0..4_u64);
    prop_oneof![
        2 => (0..300_000_u64).prop_map(Step::Passes),
        8 => (prop::collection::vec(ask, 1..4), prop::bool::weighted(0.1)).prop_map(|(asks, back)| Step::Take(asks, back)),
        1 => (whose.clone(), 1..12_u64).prop_map(|(whose, n)| Step::Charge(whose, n)),
        2 => (whose, 0..4_usize).prop_map(|(whose, nth)| Step::Release(whose, nth)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a store admits that is too small for its keys, one that has room for all admits too.
    #[test]
    fn a_full_store_admits_nothing_that_an_endless_one_would_not(capacity in 4..40_usize,
                                                                 steps in prop::collection::vec(step(), 1..300)) {
        let limits = limits();
        let mut bounded: Store<Key> = Store::new(capacity, 1);
        let mut endless: Store<Key> = Store::new(1_000_000, 2);
        let mut now_us = START_US;
        let mut held: Vec<(u8, u64)> = Vec::new();
        for (slot, step) in steps.iter().enumerate() {
            let slot = slot as u64;
            match step {
                Step::Passes(us) => now_us += us,
                Step::Take(asks, back) => {
                    let mut keys: Vec<(Key, Amount)> = Vec::new();
                    for &(limit, whose, cost, least) in asks {
                        if keys.iter().all(|(key, _)| *key != (limit, whose)) {
                            keys.push(((limit, whose), Amount { cost: cost.max(least), at_least: cost.min(least) }));
                        }
                    }
                    let take = |store: &mut Store<Key>, keys: &[(Key, Amount)]| {
                        let asks: Vec<_> = keys.iter().map(|(key, amount)| Ask { key, algorithm: &limits[key.0], amount: *amount }).collect();
                        let mut standings: Vec<Standing> = Vec::new();
                        (store.take(now_us, slot, &asks, &mut standings), standings)
                    };
                    let (passes, standings) = take(&mut bounded, &keys);
                    if !passes {
                        continue;
                    }
                    for ((_, amount), standing) in keys.iter_mut().zip(&standings) {
                        *amount = Amount::exactly(standing.granted);
                    }
                    let (would_pass, of_endless) = take(&mut endless, &keys);
                    prop_assert!(would_pass, "{:?} at {}: {:?}, not {:?}", keys, now_us, standings, of_endless);
                    held.extend(keys.iter().filter(|(key, amount)| key.0 == PLACES && 0 < amount.cost).map(|(key, _)| (key.1, slot)));
                    if *back {
                        for (key, amount) in keys.iter().filter(|(_, amount)| 0 < amount.cost) {
                            bounded.refund(now_us, key, &limits[key.0], slot, amount.cost);
                            endless.refund(now_us, key, &limits[key.0], slot, amount.cost);
                        }
                    }
                }
                Step::Charge(whose, n) => {
                    bounded.charge(now_us, &(WINDOW, *whose), &limits[WINDOW], *n);
                    endless.charge(now_us, &(WINDOW, *whose), &limits[WINDOW], *n);
                }
                Step::Release(whose, nth) => {
                    if let Some((_, slot)) = held.iter().filter(|(of, _)| of == whose).nth(*nth) {
                        bounded.release(now_us, &(PLACES, *whose), &limits[PLACES], *slot);
                        endless.release(now_us, &(PLACES, *whose), &limits[PLACES], *slot);
                    }
                }
            }
            prop_assert!(bounded.len() <= capacity);
        }
    }
}

fn take(store: &mut Store<u64>, now_us: u64, key: u64, algorithm: &Algorithm) -> bool {
    store.take(now_us, 0, &[Ask { key: &key, algorithm, amount: Amount::exactly(1) }], &mut Vec::new())
}

/// Room is made of keys that are as good as new; those in use keep their counts.
#[test]
fn rested_keys_make_room_for_newcomers() {
    let bucket = cases::token_bucket(1, 1, S);
    let mut store = Store::new(100, 1);
    for key in 0..100 {
        // Every other one begins half a second later.
        assert!(take(&mut store, START_US + (key % 2) * 500 * MS, key, &bucket));
    }
    // Fifty have refilled by now: they go, one for each newcomer, and each newcomer has a state of its own.
    for key in 100..150 {
        assert!(take(&mut store, START_US + S, key, &bucket));
        assert!(!take(&mut store, START_US + S, key, &bucket));
    }
    assert_eq!((store.len(), store.evictions(), store.overflowed()), (100, 50, 0));
    for key in (1..100).step_by(2) {
        assert!(!take(&mut store, START_US + S, key, &bucket), "{key} is in use");
    }
    // Nobody has rested: the next fifty share one state.
    let passed = (150..200).filter(|key| take(&mut store, START_US + S, *key, &bucket)).count();
    assert_eq!((passed, store.overflowed()), (1, 50));
}

/// A key that was counted with others while there was no room does not begin anew when there is.
#[test]
fn what_was_used_in_common_is_not_forgotten() {
    let hour = cases::fixed_window(3, 3_600 * S, Align::Epoch);
    let second = cases::fixed_window(3, S, Align::Epoch);
    let mut store = Store::new(1, 1);
    assert!(take(&mut store, START_US, 0, &second));
    // Full: the newcomer is counted in common.
    assert!((0..3).all(|_| take(&mut store, START_US, 1, &hour)));
    assert!(!take(&mut store, START_US, 1, &hour));
    // The first has rested, so there is room; the quota is still used up, and comes back with its window.
    assert!(!take(&mut store, START_US + 2 * S, 1, &hour));
    assert!(take(&mut store, START_US + 3_600 * S, 1, &hour));
}

/// One take whose keys all lack room and have the same numbers is counted as what it is.
#[test]
fn asks_counted_in_common_add_up() {
    for numbers in
        [cases::fixed_window(3, S, Align::Epoch), cases::sliding_log(3, S), cases::token_bucket(3, 1, S)]
    {
        let mut store = Store::new(0, 1);
        let pair = |store: &mut Store<u64>| {
            let asks = [1, 2].map(|_| Amount::exactly(1));
            let asks = [
                Ask { key: &1, algorithm: &numbers, amount: asks[0] },
                Ask { key: &2, algorithm: &numbers, amount: asks[1] },
            ];
            store.take(START_US, 0, &asks, &mut Vec::new())
        };
        assert!(pair(&mut store), "two of three");
        assert!(!pair(&mut store), "four of three");
        assert!(take(&mut store, START_US, 3, &numbers), "three of three");
        assert!(!take(&mut store, START_US, 4, &numbers));
    }
}

/// There are only so many states to share; whoever has none is refused, until one has rested.
#[test]
fn newcomers_of_too_many_kinds_are_refused() {
    let mut store = Store::new(0, 1);
    let kind = |n: u64| cases::fixed_window(1 + n, S, Align::Epoch);
    assert!((0..1_024).all(|n| take(&mut store, START_US, n, &kind(n))));
    assert!(!take(&mut store, START_US, 2_000, &kind(2_000)));
    assert!(take(&mut store, START_US + S, 2_000, &kind(2_000)));
}

/// A key takes up its room once, however often it is asked, and gives it back whole; one that may grow takes room for that.
#[test]
fn keys_take_up_room_by_what_they_may_grow_to() {
    let bucket = cases::token_bucket(1_000, 1, S);
    // 1 cell, and 1 for each 4 of up to 200 entries with debt.
    let log = cases::sliding_log(100, S);
    let mut store = Store::new(60, 1);
    for now_us in 0..100 {
        assert!(take(&mut store, START_US + now_us, 1, &log));
        assert!(take(&mut store, START_US + now_us, 2, &bucket));
    }
    for key in 3..11 {
        assert!(take(&mut store, START_US + 100, key, &bucket));
    }
    assert_eq!((store.len(), store.overflowed()), (10, 0), "51 + 9 cells");
    assert!(take(&mut store, START_US + 100, 11, &bucket));
    assert_eq!(store.overflowed(), 1);
    assert!(store.reset(&1), "51 cells are free");
    assert!(!store.reset(&1));
    for key in 11..62 {
        assert!(take(&mut store, START_US + 100, key, &bucket));
    }
    assert_eq!((store.len(), store.overflowed()), (60, 1));
    assert!(take(&mut store, START_US + 100, 62, &bucket));
    assert_eq!(store.overflowed(), 2);
    assert!(!store.is_empty() && Store::<u64>::new(1, 1).is_empty());
}

/// Asks of one key in one take add up, and are taken together or not at all.
#[test]
fn asks_of_one_key_add_up() {
    for (limit, passes) in [(2, false), (3, true)] {
        let window = cases::fixed_window(limit, S, Align::Epoch);
        let mut store: Store<u64> = Store::new(10, 1);
        let asks = [1, 1, 1].map(|n| Ask { key: &0, algorithm: &window, amount: Amount::exactly(n) });
        let mut standings = Vec::new();
        assert_eq!(store.take(START_US, 0, &asks, &mut standings), passes);
        assert_eq!(
            standings.iter().map(|standing| standing.allowed).collect::<Vec<_>>(),
            [true, true, passes]
        );
        let left = if passes { 0 } else { limit };
        for _ in 0..2 {
            assert_eq!(store.peek(START_US, &0, &window).remaining, left, "looking takes nothing");
        }
    }
}

/// What is given back is there again, of every algorithm.
#[test]
fn what_is_given_back_is_there_again() {
    for numbers in limits().into_iter().take(PLACES) {
        let mut store: Store<u64> = Store::new(10, 1);
        let before = store.peek(START_US, &0, &numbers).remaining;
        let three = [Ask { key: &0, algorithm: &numbers, amount: Amount::exactly(3) }];
        assert!(store.take(START_US, 0, &three, &mut Vec::new()));
        store.refund(START_US, &0, &numbers, 0, 2);
        assert_eq!(store.peek(START_US, &0, &numbers).remaining, before - 1, "{numbers:?}");
        store.refund(START_US, &0, &numbers, 0, 2);
        assert_eq!(
            store.peek(START_US, &0, &numbers).remaining,
            before,
            "{numbers:?}: never more than was taken"
        );
    }
}
