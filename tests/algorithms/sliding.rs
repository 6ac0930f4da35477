//! How far the weighted sliding window is from the exact log: measured, and told where people read about it.

#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use sluicegate_policy::algorithm::Amount;
use sluicegate_policy::limit::Algorithm;
use sluicegate_policy::store::{Ask, Store};

use crate::cases::{self, START_US};

const LIMIT: u64 = 100;
const PER_US: u64 = 60_000_000;
const WINDOWS: u64 = 200;

/// How one client fared under both.
struct Outcome {
    /// Admitted by the window, by the log.
    admitted: [u64; 2],
    /// The most that the window admitted in any stretch of its length.
    most: u64,
}

fn compare(arrivals: &[u64]) -> Outcome {
    let mut window = Decider::new(cases::sliding_window(LIMIT, PER_US));
    let mut log = Decider::new(cases::sliding_log(LIMIT, PER_US));
    for at in arrivals {
        window.admit(*at);
        log.admit(*at);
    }
    Outcome { admitted: [window.admitted.len() as u64, log.admitted.len() as u64], most: window.most() }
}

struct Decider {
    store: Store<u8>,
    algorithm: Algorithm,
    admitted: Vec<u64>,
}

impl Decider {
    fn new(algorithm: Algorithm) -> Decider {
        Decider { store: Store::new(1_000, 1), algorithm, admitted: Vec::new() }
    }

    fn admit(&mut self, at_us: u64) {
        let ask = Ask { key: &0, algorithm: &self.algorithm, amount: Amount::exactly(1) };
        if self.store.take(at_us, 0, &[ask], &mut Vec::new()) {
            self.admitted.push(at_us);
        }
    }

    fn most(&self) -> u64 {
        let mut from = 0;
        let mut most = 0;
        for (to, at) in self.admitted.iter().enumerate() {
            while self.admitted[from] + PER_US <= *at {
                from += 1;
            }
            most = most.max(to - from + 1);
        }
        most as u64
    }
}

/// Reproducible noise in 0..1 (xorshift).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Arrivals at random, on average `share` times the limit, for so many windows.
fn at_random(share: f64) -> Vec<u64> {
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let mean_us = PER_US as f64 / (LIMIT as f64 * share);
    let (mut at, mut all) = (0.0, Vec::new());
    while at < WINDOWS as f64 * PER_US as f64 {
        at += -mean_us * (1.0 - noise.next()).ln();
        all.push(START_US + at as u64);
    }
    all
}

/// Bursts of up to the limit within a second, at random, on average `share` times the limit.
fn in_bursts(share: f64) -> Vec<u64> {
    let mut noise = Noise(0x2545_f491_4f6c_dd1d);
    let mut all = Vec::new();
    let mut at = START_US;
    while at < START_US + WINDOWS * PER_US {
        let n = 1 + (noise.next() * LIMIT as f64) as u64;
        all.extend((0..n).map(|i| at + i * 1_000_000 / n));
        at += 1_000_000 + (noise.next() * 2.0 * n as f64 / (share * LIMIT as f64) * PER_US as f64) as u64;
    }
    all
}

/// The most that a sliding window admits in a stretch of its length beyond its limit of 100, as measured here.
const AT_RANDOM_MOST: u64 = 15;
const IN_BURSTS_MOST: u64 = 80;

/// Both places where people read about it.
#[test]
fn the_figures_are_told() {
    let told = format!(
        "at most {AT_RANDOM_MOST} % above the limit when requests come at random, {IN_BURSTS_MOST} % when they come in bursts"
    );
    let manual = include_str!("../../envoy/CONFIGURATION.md").replace('\n', " ");
    let module = include_str!("../../src/policy/algorithm/sliding.rs").replace("\n//!", "");
    assert!(manual.contains(&told), "{told}");
    assert!(module.contains(&told), "{told}");
}

#[test]
fn requests_at_random_are_counted_nearly_exactly() {
    for share in [0.5, 0.9, 1.0, 2.0, 10.0] {
        let Outcome { admitted: [window, log], most } = compare(&at_random(share));
        assert!(most <= LIMIT + AT_RANDOM_MOST * LIMIT / 100, "{share}: {most}");
        assert!(window.abs_diff(log) * 100 <= 2 * log, "{share}: {window} of {log}");
        if share < 0.6 {
            assert_eq!(window, log, "whoever stays well below the limit is never refused");
        }
    }
}

#[test]
fn bursts_are_taken_as_spread_over_their_window() {
    let mut greatest = 0;
    for share in [0.5, 0.9, 1.0, 1.1, 2.0, 10.0] {
        let Outcome { admitted: [window, log], most } = compare(&in_bursts(share));
        assert!(most <= LIMIT + IN_BURSTS_MOST * LIMIT / 100, "{share}: {most}");
        assert!(window.abs_diff(log) * 100 <= 5 * log, "{share}: {window} of {log}");
        greatest = greatest.max(most);
    }
    assert!(LIMIT * 17 / 10 <= greatest, "the figure would be too high: {greatest}");
}

/// The worst there is: all at the end of one window, and then one whenever there is room: twice the limit, but one, and
/// never faster than the limit's own rate after the burst.
#[test]
fn the_worst_case_stays_below_twice_the_limit() {
    let begins = START_US + PER_US - 1;
    let burst = std::iter::repeat_n(begins, LIMIT as usize);
    let arrivals: Vec<u64> = burst.chain((1..6_000).map(|tick| begins + tick * PER_US / 6_000)).collect();
    let Outcome { admitted: [window, log], most } = compare(&arrivals);
    assert_eq!((most, window, log), (2 * LIMIT - 1, 2 * LIMIT - 1, LIMIT));
}
