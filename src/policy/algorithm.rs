//! The arithmetic of each algorithm: how much of a limit a key has used, and what that means for the next ask.
//!
//! A [`State`] is what is remembered of one key under one limit. An ask is answered in three steps that every
//! algorithm shares, here and in `lua/take.lua`, which holds the same arithmetic for Redis:
//!
//! 1. [`State::load`] brings the state to now: drains, rolls over, forgets.
//! 2. [`State::grant`] says how many tokens an ask would get, without taking them.
//! 3. [`State::take`] takes them, once every limit of the request has agreed.
//!
//! Rules that hold for all:
//!
//! - Time that steps back never refills, and never locks out for longer than one window or one refill.
//! - A refused ask is not charged and puts nothing off.
//! - A state that is empty is the same as none, so a key that was never seen and one that has rested are alike.
//! - When a limit's numbers change, usage stays; when its algorithm changes, the key starts clean.
//! - A charge that is made afterwards may run into debt, up to the limit's own size: usage never passes twice that.

mod arithmetic;
mod fixed;
mod log;
mod meter;
mod places;
mod range;
mod scale;
mod sliding;

use crate::limit::{Algorithm, LeakyBucket};
use crate::verdict::Standing;

pub use arithmetic::NEVER_US;
pub use places::PLACE_RETRY_US;
pub use range::{
    LOG_MAX, OutOfRange, PERIOD_MAX_US, PLACES_MAX, RELEASE_US, TOKENS_MAX, WAIT_MAX_US, WAITING_MAX,
    WINDOW_MIN_US,
};

use fixed::Fixed;
use log::Log;
use meter::{Level, Meter};
use places::Places;
use sliding::Sliding;

/// What is remembered of one key under one limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nothing: the key is as good as new.
    #[default]
    Empty,
    /// Token bucket and leaky bucket: one meter, two readings of it.
    Bucket(Meter),
    /// Fixed window.
    Fixed(Fixed),
    /// Sliding window.
    Sliding(Sliding),
    /// Sliding log.
    Log(Box<Log>),
    /// Concurrency.
    Places(Box<Places>),
}

/// How much is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    /// Tokens; 0 looks without charging, and passes while at least one token is left.
    pub cost: u64,
    /// Fewest tokens that will do, at most `cost`; below `cost` the ask is for a block.
    pub at_least: u64,
}

// === impl Amount ===

impl Amount {
    /// This many tokens, no fewer.
    pub fn exactly(cost: u64) -> Amount {
        Amount { cost, at_least: cost }
    }

    /// Tokens that must be there.
    fn needed(self) -> u64 {
        self.at_least.min(self.cost).max(1)
    }
}

// === impl State ===

impl State {
    /// Brings the state to now, under these numbers. A state of another algorithm is forgotten.
    ///
    /// True if the result must be kept even when nothing is charged: time had stepped back, and the old state would
    /// take the step for waiting still to be done.
    pub fn load(&mut self, algorithm: &Algorithm, now_us: u64) -> bool {
        match (&mut *self, algorithm) {
            (State::Log(log), Algorithm::SlidingLog(numbers)) => {
                log.load(numbers, now_us);
                return true;
            }
            (State::Places(places), Algorithm::Concurrency(numbers)) => {
                places.load(numbers, now_us);
                return true;
            }
            _ => {}
        }
        let (state, must_keep) = match (&*self, algorithm) {
            (&State::Bucket(meter), Algorithm::TokenBucket(bucket)) => {
                let (meter, must_keep) = meter.load(bucket.rate, algorithm.size(), now_us);
                (State::Bucket(meter), must_keep)
            }
            (&State::Bucket(meter), Algorithm::LeakyBucket(bucket)) => {
                let (meter, must_keep) = meter.load(bucket.rate, algorithm.size(), now_us);
                (State::Bucket(meter), must_keep)
            }
            (_, Algorithm::TokenBucket(_) | Algorithm::LeakyBucket(_)) => {
                (State::Bucket(Meter { at_us: now_us, ..Meter::default() }), false)
            }
            (state, Algorithm::FixedWindow(window)) => {
                let fixed = if let State::Fixed(fixed) = state { *fixed } else { Fixed::default() };
                let (fixed, must_keep) = fixed.load(window, now_us);
                (State::Fixed(fixed), must_keep)
            }
            (state, Algorithm::SlidingWindow(window)) => {
                let sliding = if let State::Sliding(sliding) = state { *sliding } else { Sliding::default() };
                let (sliding, must_keep) = sliding.load(window, now_us);
                (State::Sliding(sliding), must_keep)
            }
            (_, Algorithm::SlidingLog(_)) => (State::Log(Box::default()), false),
            (_, Algorithm::Concurrency(_)) => (State::Places(Box::default()), false),
        };
        *self = state;
        must_keep
    }

    /// Tokens that `amount` would get now, if any, when `taken` more than the state knows of are already promised.
    pub fn grant(&self, algorithm: &Algorithm, now_us: u64, taken: u64, amount: Amount) -> Option<u64> {
        let amount = algorithm.clip(amount);
        let room = self.room(algorithm, now_us).saturating_sub(taken);
        (amount.needed() <= room).then(|| amount.cost.min(room))
    }

    /// Takes `n` tokens that [`State::grant`] found; for concurrency, the place named `slot`.
    pub fn take(&mut self, algorithm: &Algorithm, now_us: u64, slot: u64, n: u64) {
        if n == 0 {
            return;
        }
        match self {
            State::Empty => {}
            State::Bucket(meter) => meter.add(n),
            State::Fixed(fixed) => fixed.add(n),
            State::Sliding(sliding) => sliding.add(n, now_us),
            State::Log(log) => log.add(n, now_us),
            State::Places(places) => {
                if let Algorithm::Concurrency(numbers) = algorithm {
                    places.take(numbers, slot, now_us);
                }
            }
        }
    }

    /// Takes `n` tokens whether or not they are there, into debt of at most the limit's own size; how many it took.
    /// Places are not charged.
    pub fn charge(&mut self, algorithm: &Algorithm, now_us: u64, n: u64) -> u64 {
        if matches!(self, State::Places(_)) {
            return 0;
        }
        let most = (2 * algorithm.size()).saturating_sub(self.used(algorithm, now_us));
        self.take(algorithm, now_us, 0, n.min(most));
        n.min(most)
    }

    /// Gives `n` tokens back that were taken a moment ago, or the place named `slot`; true if any were still missing.
    ///
    /// What a window has left behind meanwhile is not given back.
    pub fn refund(&mut self, slot: u64, n: u64) -> bool {
        match self {
            State::Empty => false,
            State::Bucket(meter) => meter.refund(n),
            State::Fixed(fixed) => fixed.refund(n),
            State::Sliding(sliding) => sliding.refund(n),
            State::Log(log) => log.refund(n),
            State::Places(places) => places.release(slot),
        }
    }

    /// How the key stands: `granted` tokens of `amount` if it was allowed, with `taken` promised besides.
    ///
    /// Call it after [`State::take`] for an ask that was allowed and charged, before for any other.
    pub fn standing(
        &self,
        algorithm: &Algorithm,
        now_us: u64,
        taken: u64,
        amount: Amount,
        granted: Option<u64>,
    ) -> Standing {
        Standing {
            allowed: granted.is_some(),
            granted: granted.unwrap_or(0),
            remaining: self.room(algorithm, now_us),
            reset_us: self.reset_us(algorithm, now_us),
            retry_after_us: match granted {
                Some(_) => 0,
                None => self.retry_after_us(algorithm, now_us, taken, amount),
            },
            delay_us: match granted {
                Some(1..) => self.delay_us(algorithm),
                _ => 0,
            },
        }
    }

    /// Time until the key is as good as new, microseconds; for places an upper bound.
    pub fn reset_us(&self, algorithm: &Algorithm, now_us: u64) -> u64 {
        match (self, algorithm) {
            (State::Bucket(meter), Algorithm::TokenBucket(bucket)) => {
                meter.drains_to_us(bucket.rate, Level { whole: 0, frac: 0 })
            }
            (State::Bucket(meter), Algorithm::LeakyBucket(bucket)) => {
                meter.drains_to_us(bucket.rate, Level { whole: 0, frac: 0 })
            }
            (State::Fixed(Fixed { count: 0, .. }), _) => 0,
            (State::Fixed(fixed), _) => fixed.left_us(now_us),
            (State::Sliding(sliding), Algorithm::SlidingWindow(window)) => sliding.clears_us(window, now_us),
            (State::Log(log), Algorithm::SlidingLog(numbers)) => log.falls_to_us(numbers, 0, now_us),
            (State::Places(places), Algorithm::Concurrency(numbers)) => places.clears_us(numbers),
            _ => 0,
        }
    }

    /// Tokens left, never negative.
    fn room(&self, algorithm: &Algorithm, now_us: u64) -> u64 {
        match (self, algorithm) {
            (State::Bucket(meter), Algorithm::TokenBucket(bucket)) => {
                meter.room(Level { whole: bucket.burst, frac: 0 })
            }
            (State::Bucket(meter), Algorithm::LeakyBucket(bucket)) => meter.room(bucket.most()),
            _ => algorithm.size().saturating_sub(self.used(algorithm, now_us)),
        }
    }

    /// Tokens used, rounded up.
    fn used(&self, algorithm: &Algorithm, now_us: u64) -> u64 {
        match (self, algorithm) {
            (State::Bucket(meter), _) => meter.used + u64::from(0 < meter.frac),
            (State::Fixed(fixed), _) => fixed.count,
            (State::Sliding(sliding), Algorithm::SlidingWindow(window)) => sliding.used(window, now_us),
            (State::Log(log), _) => log.total(),
            (State::Places(places), _) => places.taken(),
            _ => 0,
        }
    }

    /// Time until `amount` could be granted if nobody else asks, microseconds; [`NEVER_US`] if it never can.
    fn retry_after_us(&self, algorithm: &Algorithm, now_us: u64, taken: u64, amount: Amount) -> u64 {
        let needed = algorithm.clip(amount).needed().saturating_add(taken);
        let Some(most) = algorithm.size().checked_sub(needed) else { return NEVER_US };
        match (self, algorithm) {
            (State::Bucket(meter), Algorithm::TokenBucket(bucket)) => {
                meter.drains_to_us(bucket.rate, Level { whole: most, frac: 0 })
            }
            (State::Bucket(meter), Algorithm::LeakyBucket(bucket)) => {
                meter.drains_to_us(bucket.rate, Level { whole: most, frac: bucket.most().frac })
            }
            (State::Fixed(fixed), _) => fixed.left_us(now_us),
            (State::Sliding(sliding), Algorithm::SlidingWindow(window)) => {
                sliding.falls_to_us(window, most, now_us)
            }
            (State::Log(log), Algorithm::SlidingLog(numbers)) => log.falls_to_us(numbers, most, now_us),
            (State::Places(_), _) => PLACE_RETRY_US,
            _ => 0,
        }
    }

    /// How long the tokens just taken wait for their turn (leaky bucket), microseconds.
    fn delay_us(&self, algorithm: &Algorithm) -> u64 {
        match (self, algorithm) {
            (State::Bucket(meter), Algorithm::LeakyBucket(bucket)) => {
                meter.drains_to_us(bucket.rate, Level { whole: bucket.burst, frac: 0 })
            }
            _ => 0,
        }
    }
}

// === impl Algorithm ===

impl Algorithm {
    /// The most that one ask can ever be granted.
    pub fn size(&self) -> u64 {
        match self {
            Algorithm::TokenBucket(bucket) => bucket.burst,
            Algorithm::LeakyBucket(bucket) => bucket.most().whole,
            Algorithm::FixedWindow(window) => window.limit,
            Algorithm::SlidingWindow(window) => window.limit,
            Algorithm::SlidingLog(log) => log.limit,
            Algorithm::Concurrency(places) => places.max,
        }
    }

    /// A request holds one place, whatever it costs elsewhere.
    fn clip(&self, amount: Amount) -> Amount {
        match self {
            Algorithm::Concurrency(_) => Amount::exactly(amount.cost.min(1)),
            _ => amount,
        }
    }
}

// === impl LeakyBucket ===

impl LeakyBucket {
    /// The fullest the queue may be: whole tokens, and units of one of which a token has `rate.period_us`.
    pub fn fullest(&self) -> (u64, u64) {
        let Level { whole, frac } = self.most();
        (whole, frac)
    }

    /// The fullest the queue may be: the burst, and as much as may wait, by number and by time.
    fn most(&self) -> Level {
        let (whole, frac) = arithmetic::mul_div(self.rate.tokens, self.wait_up_to_us, self.rate.period_us);
        match whole < self.waiting {
            true => Level { whole: self.burst + whole, frac },
            false => Level { whole: self.burst + self.waiting, frac: 0 },
        }
    }
}
