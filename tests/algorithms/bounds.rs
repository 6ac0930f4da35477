//! What each algorithm admits at most, whatever is asked for and when.

use proptest::prelude::*;
use sluicegate_policy::algorithm::Amount;
use sluicegate_policy::limit::{Algorithm, Align};
use sluicegate_policy::store::{Ask, Store};
use sluicegate_policy::verdict::Standing;

use crate::cases::{self, START_US};

/// One key under one limit, and all that it was granted.
struct Client {
    store: Store<u8>,
    algorithm: Algorithm,
    now_us: u64,
    /// (when, how many), the time being that of a departure where there is a delay.
    grants: Vec<(u64, u64)>,
}

impl Client {
    fn new(algorithm: Algorithm) -> Client {
        Client { store: Store::new(1_000, 1), algorithm, now_us: START_US, grants: Vec::new() }
    }

    fn ask(&mut self, slot: u64, amount: Amount) -> Standing {
        let mut standings = Vec::new();
        let ask = Ask { key: &0, algorithm: &self.algorithm, amount };
        self.store.take(self.now_us, slot, &[ask], &mut standings);
        if 0 < standings[0].granted {
            self.grants.push((self.now_us + standings[0].delay_us, standings[0].granted));
        }
        standings[0]
    }

    /// The most that was granted in stretches of less than `per_us`, for each stretch that begins and ends with a grant:
    /// its length and the sum.
    fn stretches(&self, per_us: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.grants.iter().enumerate().flat_map(move |(at, (from, _))| {
            let mut sum = 0;
            let inside = self.grants[at..].iter().take_while(move |(to, _)| to - from < per_us);
            inside.map(move |(to, n)| {
                sum += n;
                (to - from, sum)
            })
        })
    }
}

/// How long passes, and how much is asked for then.
fn asks(longest_us: u64, most: u64) -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    let passes = prop_oneof![Just(0), 0..1_000.min(longest_us), 0..longest_us];
    prop::collection::vec((passes, 0..=most, 0..=most), 1..150)
}

fn amount(cost: u64, least: u64) -> Amount {
    Amount { cost: cost.max(least), at_least: cost.min(least) }
}

fn rate() -> impl Strategy<Value = (u64, u64)> {
    prop_oneof![
        Just((1, 1)),
        (1..1_000_000_u64).prop_map(|period_us| (1, period_us)),
        (1..1_000_u64, 1_000..1_000_000_u64),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// In any stretch of time no more than burst + rate x time.
    #[test]
    fn a_token_bucket_never_admits_more(burst in 1..1_000_u64, (tokens, period) in rate(), asks in asks(2_000_000, 1_200)) {
        let mut client = Client::new(cases::token_bucket(burst, tokens, period));
        for (passes, cost, least) in asks {
            client.now_us += passes;
            client.ask(0, amount(cost, least));
        }
        let (burst, tokens, period) = (u128::from(burst), u128::from(tokens), u128::from(period));
        for (time, sum) in client.stretches(u64::MAX) {
            prop_assert!(u128::from(sum) * period <= burst * period + tokens * u128::from(time), "{sum} in {time} us");
        }
    }

    /// And whoever asks all the time gets exactly that.
    #[test]
    fn a_token_bucket_admits_no_less(burst in 2..1_000_u64, (tokens, period) in rate(), steps in 1..200_u64) {
        let mut client = Client::new(cases::token_bucket(burst, tokens, period));
        // Never so long that the bucket is full again.
        let step = (burst * period / tokens / 2).max(1);
        for _ in 0..steps {
            client.ask(0, Amount { cost: 1_000_000_000, at_least: 1 });
            client.now_us += step;
        }
        client.ask(0, Amount { cost: 1_000_000_000, at_least: 1 });
        let sum: u64 = client.grants.iter().map(|(_, n)| n).sum();
        if step * tokens < burst * period {
            prop_assert_eq!(sum, burst + steps * step * tokens / period);
        }
    }

    /// A clock that steps back refills nothing: only time that is seen to pass does.
    #[test]
    fn steps_back_refill_no_bucket(burst in 1..100_u64, (tokens, period) in rate(),
                                   steps in prop::collection::vec((-2_000_000..2_000_000_i64, 0..100_u64), 1..100)) {
        let mut client = Client::new(cases::token_bucket(burst, tokens, period));
        let (mut forward, mut sum) = (0, 0);
        for (passes, cost) in steps {
            client.now_us = client.now_us.saturating_add_signed(passes);
            forward += u128::from(passes.max(0).unsigned_abs());
            sum += u128::from(client.ask(0, Amount { cost, at_least: 0 }).granted);
            prop_assert!(sum * u128::from(period) <= u128::from(burst) * u128::from(period) + u128::from(tokens) * forward);
        }
    }

    /// What a leaky bucket lets go, with its delays, is never denser than burst + rate x time.
    #[test]
    fn a_leaky_bucket_spaces_departures(burst in 1..20_u64, period in 1_000..100_000_u64, waiting in 0..50_u64,
                                        asks in asks(300_000, 1)) {
        let up_to = 1_000_000;
        let mut client = Client::new(cases::leaky_bucket(burst, 1, period, up_to, waiting));
        for (passes, cost, least) in asks {
            client.now_us += passes;
            let standing = client.ask(0, amount(cost, least));
            prop_assert!(standing.delay_us <= up_to);
        }
        for (time, sum) in client.stretches(u64::MAX) {
            // Delays are rounded up to a microsecond, each by itself.
            prop_assert!(sum * period <= burst * period + time + 1, "{} in {} us", sum, time);
        }
    }

    /// A fixed window admits its limit in each window, and so no more than twice that in any stretch of its length.
    #[test]
    fn a_fixed_window_admits_at_most_twice(limit in 1..100_u64, per in 1_000..1_000_000_u64, aligned: bool,
                                           asks in asks(600_000, 120)) {
        let align = if aligned { Align::Epoch } else { Align::FirstUse };
        let mut client = Client::new(cases::fixed_window(limit, per, align));
        for (passes, cost, least) in asks {
            client.now_us += passes;
            client.ask(0, amount(cost, least));
        }
        for (time, sum) in client.stretches(per) {
            prop_assert!(sum <= 2 * limit, "{} in {} us", sum, time);
        }
        if aligned {
            for (from, _) in &client.grants {
                let window = from / per;
                let sum: u64 = client.grants.iter().filter(|(at, _)| at / per == window).map(|(_, n)| n).sum();
                prop_assert!(sum <= limit);
            }
        }
    }

    /// A sliding window admits its limit, and as much more as would come back of it in the time: N + N x time / per.
    #[test]
    fn a_sliding_window_admits_a_little_more(limit in 1..100_u64, per in 1_000..1_000_000_u64, asks in asks(600_000, 120)) {
        let mut client = Client::new(cases::sliding_window(limit, per));
        for (passes, cost, least) in asks {
            client.now_us += passes;
            client.ask(0, amount(cost, least));
        }
        for (time, sum) in client.stretches(per) {
            prop_assert!(sum <= limit + limit * time / per, "{} in {} us", sum, time);
        }
    }

    /// The exact log never admits more than its limit in any stretch.
    #[test]
    fn a_log_admits_its_limit(limit in 1..100_u64, per in 1_000..1_000_000_u64, asks in asks(600_000, 120)) {
        let mut client = Client::new(cases::sliding_log(limit, per));
        for (passes, cost, least) in asks {
            client.now_us += passes;
            client.ask(0, amount(cost, least));
        }
        for (time, sum) in client.stretches(per) {
            prop_assert!(sum <= limit, "{} in {} us", sum, time);
        }
    }

    /// No more places are held than there are, and one that is given back or over is there again.
    #[test]
    fn places_are_never_more(max in 1..6_u64, steps in prop::collection::vec((0..700_000_u64, 0..12_u64, any::<bool>()), 1..150)) {
        let mut client = Client::new(cases::concurrency(max, 1_000_000));
        let mut held: Vec<(u64, u64)> = Vec::new();
        for (passes, slot, release) in steps {
            client.now_us += passes;
            held.retain(|(_, until)| client.now_us < *until);
            let is_held = held.iter().any(|(of, _)| *of == slot);
            if release || is_held {
                client.store.release(client.now_us, &0, &client.algorithm, slot);
                held.retain(|(of, _)| *of != slot);
            } else {
                let standing = client.ask(slot, Amount::exactly(1));
                prop_assert_eq!(standing.allowed, (held.len() as u64) < max);
                if standing.allowed {
                    held.push((slot, client.now_us + 1_000_000));
                }
                prop_assert_eq!(standing.remaining, max - held.len() as u64);
            }
        }
    }
}

/// A fixed window does admit twice its limit: all of it just before its end, and all of it just after.
#[test]
fn a_fixed_window_admits_twice_around_its_end() {
    for align in [Align::Epoch, Align::FirstUse] {
        let mut client = Client::new(cases::fixed_window(100, 60_000_000, align));
        // So that the window ends at the next minute whichever way it began.
        client.ask(0, Amount::exactly(1));
        client.now_us += 59_999_999;
        client.ask(0, Amount::exactly(99));
        client.now_us += 1;
        client.ask(0, Amount::exactly(100));
        let in_a_microsecond: u64 = client.grants[1..].iter().map(|(_, n)| n).sum();
        assert_eq!(in_a_microsecond, 199, "one less than twice, since the first had to begin it");
    }
    let mut client = Client::new(cases::fixed_window(100, 60_000_000, Align::Epoch));
    client.now_us += 59_999_999;
    client.ask(0, Amount::exactly(100));
    client.now_us += 1;
    client.ask(0, Amount::exactly(100));
    assert_eq!(client.stretches(2).last(), Some((0, 100)));
    assert_eq!(client.stretches(2).map(|(_, sum)| sum).max(), Some(200));
}
