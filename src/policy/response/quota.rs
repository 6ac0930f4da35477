//! What a client was promised, in the terms of the RateLimit fields.

use crate::limit::{Algorithm, Rate};
use crate::verdict::Standing;

/// A limit's promise: so many requests, in so many seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    name: Box<str>,
    /// Requests at once.
    requests: u64,
    /// Whole seconds, at least 1; `None` for requests in progress.
    window_s: Option<u64>,
    /// The item of `RateLimit-Policy`, which never changes.
    policy_item: Box<str>,
}

/// A limit that a request met, and how it stands; `None` when the store was not asked about it.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    /// The promise.
    pub quota: &'a Quota,
    /// How the key stands.
    pub standing: Option<Standing>,
    /// Whether the standing is the limit's own, and may be told.
    pub is_known: bool,
}

// === impl Quota ===

impl Quota {
    /// The promise of a limit.
    pub fn new(name: &str, algorithm: &Algorithm) -> Self {
        let (requests, window_us) = match algorithm {
            Algorithm::TokenBucket(b) => (b.burst, Some(fill_us(b.burst, b.rate))),
            Algorithm::LeakyBucket(b) => (b.burst + b.waiting, Some(fill_us(b.burst + b.waiting, b.rate))),
            Algorithm::FixedWindow(w) => (w.limit, Some(w.per_us)),
            Algorithm::SlidingWindow(w) => (w.limit, Some(w.per_us)),
            Algorithm::SlidingLog(w) => (w.limit, Some(w.per_us)),
            Algorithm::Concurrency(c) => (c.max, None),
        };
        // Sub-second windows cannot be expressed in the fields.
        let window_s = window_us.map(super::whole_seconds);
        let policy_item = match window_s {
            Some(window_s) => format!("\"{name}\";q={requests};w={window_s}"),
            None => format!("\"{name}\";q={requests};qu=\"concurrent-requests\""),
        };
        Quota { name: name.into(), requests, window_s, policy_item: policy_item.into() }
    }

    /// The limit's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Requests at once.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Seconds until an idle key is as good as new; `None` for requests in progress.
    pub fn window_s(&self) -> Option<u64> {
        self.window_s
    }

    /// The item of `RateLimit-Policy`.
    pub fn policy_item(&self) -> &str {
        &self.policy_item
    }
}

/// Time to fill an empty bucket.
fn fill_us(burst: u64, rate: Rate) -> u64 {
    let us = (u128::from(burst) * u128::from(rate.period_us)).div_ceil(u128::from(rate.tokens.max(1)));
    u64::try_from(us).unwrap_or(u64::MAX)
}
