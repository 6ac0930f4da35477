//! What the numbers of a limit may be. Within these ranges the arithmetic is exact, in Rust and in Lua.

use std::error::Error;
use std::fmt;
use std::ops::RangeInclusive;

use crate::limit::{Algorithm, Rate};

/// Most tokens in a bucket or window.
pub const TOKENS_MAX: u64 = 1_000_000_000;

/// Shortest window, microseconds.
pub const WINDOW_MIN_US: u64 = 1_000;

/// Longest window, and longest time for one token, microseconds: 30 days.
pub const PERIOD_MAX_US: u64 = 2_592_000_000_000;

/// Most tokens that an exact sliding window remembers.
pub const LOG_MAX: u64 = 1_000;

/// Most tokens that wait in a leaky bucket.
pub const WAITING_MAX: u64 = 1_000_000;

/// Longest wait in a leaky bucket, microseconds.
pub const WAIT_MAX_US: u64 = 60_000_000;

/// Most places of a concurrency limit.
pub const PLACES_MAX: u64 = 100_000;

/// How long a place may be held, microseconds.
pub const RELEASE_US: RangeInclusive<u64> = 1_000_000..=86_400_000_000;

/// A number of a limit outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// Which number.
    pub field: &'static str,
    /// What it is.
    pub value: u64,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} out of range: {}", self.field, self.value)
    }
}

impl Error for OutOfRange {}

// === impl Algorithm ===

impl Algorithm {
    /// Whether every number is in the range that [`crate::limit`] states.
    ///
    /// # Errors
    ///
    /// The first that is not.
    pub fn in_range(&self) -> Result<(), OutOfRange> {
        match self {
            Algorithm::TokenBucket(bucket) => {
                within("burst", bucket.burst, 1..=TOKENS_MAX)?;
                bucket.rate.in_range()
            }
            Algorithm::LeakyBucket(bucket) => {
                within("burst", bucket.burst, 1..=TOKENS_MAX)?;
                within("wait_up_to_us", bucket.wait_up_to_us, 0..=WAIT_MAX_US)?;
                within("waiting", bucket.waiting, 0..=WAITING_MAX)?;
                bucket.rate.in_range()
            }
            Algorithm::FixedWindow(window) => {
                within("limit", window.limit, 1..=TOKENS_MAX)?;
                within("per_us", window.per_us, WINDOW_MIN_US..=PERIOD_MAX_US)
            }
            Algorithm::SlidingWindow(window) => {
                within("limit", window.limit, 1..=TOKENS_MAX)?;
                within("per_us", window.per_us, WINDOW_MIN_US..=PERIOD_MAX_US)
            }
            Algorithm::SlidingLog(log) => {
                within("limit", log.limit, 1..=LOG_MAX)?;
                within("per_us", log.per_us, WINDOW_MIN_US..=PERIOD_MAX_US)
            }
            Algorithm::Concurrency(places) => {
                within("max", places.max, 1..=PLACES_MAX)?;
                within("release_after_us", places.release_after_us, RELEASE_US)
            }
        }
    }
}

// === impl Rate ===

impl Rate {
    fn in_range(self) -> Result<(), OutOfRange> {
        within("period_us", self.period_us, 1..=PERIOD_MAX_US)?;
        within("tokens", self.tokens, 1..=self.period_us)
    }
}

fn within(field: &'static str, value: u64, range: RangeInclusive<u64>) -> Result<(), OutOfRange> {
    match range.contains(&value) {
        true => Ok(()),
        false => Err(OutOfRange { field, value }),
    }
}
