//! The same limit, smaller or larger: shares of a local limit, tiers.

use super::arithmetic::{gcd, narrow};
use super::range::{LOG_MAX, PERIOD_MAX_US, PLACES_MAX, TOKENS_MAX, WAITING_MAX};
use crate::limit::{Algorithm, Rate};

// === impl Algorithm ===

impl Algorithm {
    /// One of `shares` equal parts: sizes are rounded down but stay at least 1, rates are divided exactly.
    ///
    /// So `shares` parts together never exceed the whole, unless the whole is smaller than `shares`.
    #[must_use]
    pub fn divided(&self, shares: u64) -> Algorithm {
        self.scaled(1, shares.max(1))
    }

    /// Sizes and rate times `thousandths / 1000`, rounded down, and clamped to what a limit may be.
    #[must_use]
    pub fn multiplied(&self, thousandths: u32) -> Algorithm {
        self.scaled(u64::from(thousandths), 1_000)
    }

    fn scaled(&self, by: u64, over: u64) -> Algorithm {
        let size = |n: u64, max: u64| scaled(n, by, over).clamp(1, max);
        let mut scaled_one = self.clone();
        match &mut scaled_one {
            Algorithm::TokenBucket(bucket) => {
                bucket.burst = size(bucket.burst, TOKENS_MAX);
                bucket.rate = bucket.rate.scaled(by, over);
            }
            Algorithm::LeakyBucket(bucket) => {
                bucket.burst = size(bucket.burst, TOKENS_MAX);
                bucket.rate = bucket.rate.scaled(by, over);
                bucket.waiting = scaled(bucket.waiting, by, over).min(WAITING_MAX);
            }
            Algorithm::FixedWindow(window) => window.limit = size(window.limit, TOKENS_MAX),
            Algorithm::SlidingWindow(window) => window.limit = size(window.limit, TOKENS_MAX),
            Algorithm::SlidingLog(log) => log.limit = size(log.limit, LOG_MAX),
            Algorithm::Concurrency(places) => places.max = size(places.max, PLACES_MAX),
        }
        scaled_one
    }
}

// === impl Rate ===

impl Rate {
    /// This rate times `by / over`, in lowest terms.
    ///
    /// Exact while a rate in range can say it. Beyond, the nearest that can is taken: never slower than one token
    /// in 30 days, never faster than one in a microsecond, and a fraction that would need a longer period than 30
    /// days loses less than one token in 30 days.
    fn scaled(self, by: u64, over: u64) -> Rate {
        let tokens = u128::from(self.tokens) * u128::from(by);
        let period = u128::from(self.period_us) * u128::from(over);
        let divisor = gcd(tokens, period).max(1);
        let (tokens, period) = (tokens / divisor, period / divisor);
        if period < tokens || period == 0 {
            return Rate { tokens: 1, period_us: 1 };
        }
        if period <= u128::from(PERIOD_MAX_US) {
            return Rate { tokens: narrow(tokens).max(1), period_us: narrow(period) };
        }
        let tokens = (tokens * u128::from(PERIOD_MAX_US) / period).max(1);
        let divisor = gcd(tokens, u128::from(PERIOD_MAX_US));
        Rate { tokens: narrow(tokens / divisor), period_us: narrow(u128::from(PERIOD_MAX_US) / divisor) }
    }
}

fn scaled(n: u64, by: u64, over: u64) -> u64 {
    narrow(u128::from(n) * u128::from(by) / u128::from(over))
}
