//! The same limit, smaller or larger: shares of a local limit, tiers.

use super::arithmetic::{gcd, narrow};
use super::range::{LOG_MAX, PERIOD_MAX_US, PLACES_MAX, TOKENS_MAX};
use crate::limit::{Algorithm, Rate};

// === impl Algorithm ===

impl Algorithm {
    /// One of `shares` equal parts: sizes are rounded down but stay at least 1, rates are divided exactly.
    ///
    /// So `shares` parts together never exceed the whole, unless the whole is smaller than `shares`.
    #[must_use]
    pub fn divided(&self, shares: u64) -> Algorithm {
        let shares = shares.max(1);
        let mut share = self.scaled(1, shares);
        if let Algorithm::LeakyBucket(bucket) = &mut share {
            bucket.waiting /= shares;
        }
        share
    }

    /// Sizes and rate times `thousandths / 1000`, rounded down, at least 1, and clamped to what a limit may be; lengths
    /// of time and the waiting room stay.
    #[must_use]
    pub fn multiplied(&self, thousandths: u32) -> Algorithm {
        self.scaled(u64::from(thousandths), 1_000)
    }

    fn scaled(&self, by: u64, over: u64) -> Algorithm {
        let size = |n: u64, max: u64| narrow(u128::from(n) * u128::from(by) / u128::from(over)).clamp(1, max);
        let mut scaled = self.clone();
        match &mut scaled {
            Algorithm::TokenBucket(bucket) => {
                bucket.burst = size(bucket.burst, TOKENS_MAX);
                bucket.rate = bucket.rate.scaled(by, over);
            }
            Algorithm::LeakyBucket(bucket) => {
                bucket.burst = size(bucket.burst, TOKENS_MAX);
                bucket.rate = bucket.rate.scaled(by, over);
            }
            Algorithm::FixedWindow(window) => window.limit = size(window.limit, TOKENS_MAX),
            Algorithm::SlidingWindow(window) => window.limit = size(window.limit, TOKENS_MAX),
            Algorithm::SlidingLog(log) => log.limit = size(log.limit, LOG_MAX),
            Algorithm::Concurrency(places) => places.max = size(places.max, PLACES_MAX),
        }
        scaled
    }
}

// === impl Rate ===

impl Rate {
    /// This rate times `by / over`, in lowest terms.
    ///
    /// Exact while a rate in range can say it. Beyond, with the most tokens whose period fits, and that period rounded
    /// up to a microsecond; never slower than one token in 30 days, never faster than one in a microsecond.
    fn scaled(self, by: u64, over: u64) -> Rate {
        let longest_us = u128::from(PERIOD_MAX_US);
        let tokens = u128::from(self.tokens) * u128::from(by);
        let period_us = u128::from(self.period_us) * u128::from(over);
        if tokens >= period_us {
            return Rate { tokens: 1, period_us: 1 };
        }
        let (tokens, period_us) = lowest(tokens, period_us);
        if period_us <= longest_us {
            return Rate { tokens: narrow(tokens).max(1), period_us: narrow(period_us) };
        }
        let fitting = tokens * longest_us / period_us;
        if fitting == 0 {
            return Rate { tokens: 1, period_us: PERIOD_MAX_US };
        }
        let (tokens, period_us) = lowest(fitting, (fitting * period_us).div_ceil(tokens));
        Rate { tokens: narrow(tokens), period_us: narrow(period_us) }
    }
}

fn lowest(tokens: u128, period_us: u128) -> (u128, u128) {
    let divisor = gcd(tokens, period_us).max(1);
    (tokens / divisor, period_us / divisor)
}
