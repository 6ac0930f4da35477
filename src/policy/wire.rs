//! What filter and shim say to each other: `POST /v1/take` with a [`Batch`], answered by an [`Answer`].
//!
//! One body carries any number of takes. A limit's numbers travel with the batch, once each, and takes name them
//! by index, so the shim holds no policy that could be stale. Lists stand for the frequent records, to keep the
//! body short:
//!
//! ```json
//! {"version":1,"namespace":"default",
//!  "limits":[["per-caller",{"token_bucket":{"burst":100,"tokens":1,"period_us":100000}}]],
//!  "takes":[{"asks":[[0,"q83vASNFZ4mrze8BI0VniQ",1,1]]}]}
//! ```
//!
//! ```json
//! {"version":1,"verdicts":[[[1,1,99,100000,0,0]]]}
//! ```

use serde::{Deserialize, Serialize};

use crate::algorithm::OutOfRange;
use crate::limit::{
    Algorithm, Align, Concurrency, FixedWindow, LeakyBucket, Rate, SlidingLog, SlidingWindow, TokenBucket,
};
use crate::verdict::Standing;

/// The version both sides must name.
pub const VERSION: u32 = 1;

/// Path of the take call.
pub const TAKE_PATH: &str = "/v1/take";

/// A response header that only a shim sets: Envoy's own error pages (503, 504) lack it.
pub const MARKER: &str = "x-sluicegate";

/// Most takes in one batch.
pub const TAKES_MAX: usize = 1_024;

/// Most asks in one take.
pub const ASKS_MAX: usize = 64;

/// Most distinct limits in one batch.
pub const LIMITS_MAX: usize = 1_000;

/// Longest body, bytes, either way.
pub const BODY_MAX: usize = 1_048_576;

/// Longest key, bytes.
pub const KEY_MAX: usize = 64;

/// Length of the part of a key that chooses the Redis slot.
pub const TAG_LEN: usize = 6;

/// Many takes, and what responses have cost since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// [`VERSION`].
    pub version: u32,
    /// Part of every key.
    pub namespace: Box<str>,
    /// The limits that `takes`, `charges` and `releases` name by index.
    pub limits: Vec<WireLimit>,
    /// Each is decided by itself, in order, all or nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub takes: Vec<Take>,
    /// Costs known after the fact: charged without condition, into debt of at most the limit's own size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub charges: Vec<Charge>,
    /// Slots of concurrency limits that are given back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub releases: Vec<Release>,
}

/// `[name, numbers]`: a limit without what only the filter needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireLimit(pub Box<str>, pub WireAlgorithm);

/// The numbers of [`Algorithm`], flat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields are those of the limit module")]
pub enum WireAlgorithm {
    TokenBucket { burst: u64, tokens: u64, period_us: u64 },
    LeakyBucket { burst: u64, tokens: u64, period_us: u64, wait_up_to_us: u64, waiting: u64 },
    FixedWindow { limit: u64, per_us: u64, aligned: bool },
    SlidingWindow { limit: u64, per_us: u64 },
    SlidingLog { limit: u64, per_us: u64 },
    Concurrency { max: u64, release_after_us: u64 },
}

/// One request's atomic ask: all limits are charged, or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Take {
    /// One entry for each limit.
    pub asks: Vec<Ask>,
    /// Names the slot that concurrency limits hand out, below 2^53; drawn at random by the filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u64>,
}

/// `[limit, key, cost, at_least]`.
///
/// A cost of 0 looks without charging: allowed while at least one token is left. `at_least` below `cost` asks for a
/// block: as many as there are, if there are that many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask(pub usize, pub Box<str>, pub u64, pub u64);

/// `[limit, key, amount]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charge(pub usize, pub Box<str>, pub u64);

/// `[limit, key, slot]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release(pub usize, pub Box<str>, pub u64);

/// The answer to a [`Batch`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// [`VERSION`].
    pub version: u32,
    /// One for each take, in order; `null` where the store gave no decision.
    pub verdicts: Vec<Option<Vec<WireStanding>>>,
}

/// `[allowed, granted, remaining, reset_us, retry_after_us, delay_us]`, one for each ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireStanding(pub u8, pub u64, pub u64, pub u64, pub u64, pub u64);

// === impl WireStanding ===

impl From<Standing> for WireStanding {
    fn from(s: Standing) -> Self {
        WireStanding(u8::from(s.allowed), s.granted, s.remaining, s.reset_us, s.retry_after_us, s.delay_us)
    }
}

impl From<WireStanding> for Standing {
    fn from(w: WireStanding) -> Self {
        Standing {
            allowed: w.0 == 1,
            granted: w.1,
            remaining: w.2,
            reset_us: w.3,
            retry_after_us: w.4,
            delay_us: w.5,
        }
    }
}

// === impl WireAlgorithm ===

impl From<&Algorithm> for WireAlgorithm {
    fn from(algorithm: &Algorithm) -> Self {
        match algorithm {
            Algorithm::TokenBucket(b) => WireAlgorithm::TokenBucket {
                burst: b.burst,
                tokens: b.rate.tokens,
                period_us: b.rate.period_us,
            },
            Algorithm::LeakyBucket(b) => WireAlgorithm::LeakyBucket {
                burst: b.burst,
                tokens: b.rate.tokens,
                period_us: b.rate.period_us,
                wait_up_to_us: b.wait_up_to_us,
                waiting: b.waiting,
            },
            Algorithm::FixedWindow(w) => WireAlgorithm::FixedWindow {
                limit: w.limit,
                per_us: w.per_us,
                aligned: w.align == Align::Epoch,
            },
            Algorithm::SlidingWindow(w) => WireAlgorithm::SlidingWindow { limit: w.limit, per_us: w.per_us },
            Algorithm::SlidingLog(w) => WireAlgorithm::SlidingLog { limit: w.limit, per_us: w.per_us },
            Algorithm::Concurrency(c) => {
                WireAlgorithm::Concurrency { max: c.max, release_after_us: c.release_after_us }
            }
        }
    }
}

impl TryFrom<&WireAlgorithm> for Algorithm {
    type Error = OutOfRange;

    /// The numbers, if each is in the range that the limit module states.
    fn try_from(wire: &WireAlgorithm) -> Result<Algorithm, OutOfRange> {
        let algorithm = match *wire {
            WireAlgorithm::TokenBucket { burst, tokens, period_us } => {
                Algorithm::TokenBucket(TokenBucket { burst, rate: Rate { tokens, period_us } })
            }
            WireAlgorithm::LeakyBucket { burst, tokens, period_us, wait_up_to_us, waiting } => {
                let rate = Rate { tokens, period_us };
                Algorithm::LeakyBucket(LeakyBucket { burst, rate, wait_up_to_us, waiting })
            }
            WireAlgorithm::FixedWindow { limit, per_us, aligned } => {
                let align = if aligned { Align::Epoch } else { Align::FirstUse };
                Algorithm::FixedWindow(FixedWindow { limit, per_us, align })
            }
            WireAlgorithm::SlidingWindow { limit, per_us } => {
                Algorithm::SlidingWindow(SlidingWindow { limit, per_us })
            }
            WireAlgorithm::SlidingLog { limit, per_us } => {
                Algorithm::SlidingLog(SlidingLog { limit, per_us })
            }
            WireAlgorithm::Concurrency { max, release_after_us } => {
                Algorithm::Concurrency(Concurrency { max, release_after_us })
            }
        };
        algorithm.in_range()?;
        Ok(algorithm)
    }
}
