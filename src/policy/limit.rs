//! One named rule: whom it counts, what it matches, how much, and what happens when no decision can be had.

use crate::identity::IdentityId;
use crate::mode::Mode;
use crate::pattern::Pattern;

/// A rule of the policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Unique in the policy, `[a-z0-9][a-z0-9_-]{0,63}`; it appears in Redis keys, metrics and responses.
    pub name: Box<str>,
    /// The requests this limit counts.
    pub pattern: Pattern,
    /// Limits of one group exclude each other: only the first that matches, in configuration order, applies.
    pub group: Option<Box<str>>,
    /// The identities that together make the key, in order; never empty.
    pub key: Vec<IdentityId>,
    /// What happens when one of `key` yields no value.
    pub when_missing: WhenMissing,
    /// How the tokens are counted.
    pub algorithm: Algorithm,
    /// What one request costs.
    pub cost: Cost,
    /// Charge only responses with these statuses, when they are known; the take only looks.
    pub charge_when: Option<ChargeWhen>,
    /// CORS preflights (`OPTIONS` with `Origin` and `Access-Control-Request-Method`) are charged too.
    pub charge_preflight: bool,
    /// Where the tokens are counted.
    pub enforce: Enforce,
    /// What happens when the shim or Redis gives no answer in time.
    pub when_unavailable: WhenUnavailable,
    /// Whether a refusal is carried out.
    pub mode: Mode,
}

/// How tokens are counted. All numbers are validated: see each field for the range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// A bucket that refills evenly.
    TokenBucket(TokenBucket),
    /// A queue that drains evenly: requests wait within a bound instead of being refused.
    LeakyBucket(LeakyBucket),
    /// A counter that starts again with every window; admits up to twice the limit around a boundary.
    FixedWindow(FixedWindow),
    /// The current window plus the still overlapping part of the one before.
    SlidingWindow(SlidingWindow),
    /// Every admitted request of the last window, exactly; for small limits.
    SlidingLog(SlidingLog),
    /// Requests in progress.
    Concurrency(Concurrency),
}

/// An exact rate: `tokens` per `period_us`, reduced to lowest terms.
///
/// Range: from one token per 30 days (2,592,000,000,000 us) to 1,000,000 per second (one per microsecond).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Tokens that come back in one period, 1 to `period_us`.
    pub tokens: u64,
    /// Microseconds, 1 to 2,592,000,000,000.
    pub period_us: u64,
}

/// Bucket of `burst` tokens that refills at `rate`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    /// Tokens a rested client may spend at once, 1 to 1,000,000,000.
    pub burst: u64,
    /// How fast they come back.
    pub rate: Rate,
}

/// A queue that drains at `rate`; what exceeds `burst` waits its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeakyBucket {
    /// Tokens that pass without waiting, 1 to 1,000,000,000.
    pub burst: u64,
    /// How fast the queue drains.
    pub rate: Rate,
    /// The longest wait, microseconds, 0 to 60,000,000; a request that would wait longer is refused.
    pub wait_up_to_us: u64,
    /// Tokens that may wait at once, 0 to 1,000,000.
    pub waiting: u64,
}

/// `limit` tokens in each window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    /// Tokens in one window, 1 to 1,000,000,000.
    pub limit: u64,
    /// Length, microseconds, 1,000 to 2,592,000,000,000.
    pub per_us: u64,
    /// Where windows begin.
    pub align: Align,
}

/// Where a fixed window begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// At multiples of its length since the Unix epoch: the same for all keys.
    Epoch,
    /// At the first request of the key.
    FirstUse,
}

/// `limit` tokens in any stretch of `per_us`, by the weighted previous window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlidingWindow {
    /// Tokens in one window, 1 to 1,000,000,000.
    pub limit: u64,
    /// Length, microseconds, 1,000 to 2,592,000,000,000.
    pub per_us: u64,
}

/// `limit` tokens in any stretch of `per_us`, exactly: each admission is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlidingLog {
    /// Tokens in one window, 1 to 1,000.
    pub limit: u64,
    /// Length, microseconds, 1,000 to 2,592,000,000,000.
    pub per_us: u64,
}

/// `max` requests in progress at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concurrency {
    /// Slots, 1 to 100,000.
    pub max: u64,
    /// A slot whose proxy died comes back after this, microseconds, 1,000,000 to 86,400,000,000.
    pub release_after_us: u64,
}

/// What a request costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cost {
    /// The same for each request, 1 to 1,000,000,000.
    Constant(u64),
    /// A number in a request header that the operator vouches for; absent or no number: `default`; at most `max`.
    RequestHeader {
        /// Header name, lower case.
        name: Box<str>,
        /// Used when the header is absent or no whole number.
        default: u64,
        /// Clamp, 1 to 1,000,000,000.
        max: u64,
    },
    /// A number in a response header, charged when it is known. The take only looks; a key in debt is refused.
    ResponseHeader {
        /// Header name, lower case.
        name: Box<str>,
        /// Clamp of one charge, 1 to 1,000,000,000. The debt of a key never exceeds the limit's own size.
        max: u64,
    },
}

/// A charge that depends on the response status (failed logins).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChargeWhen {
    /// Statuses, each 100 to 599.
    pub statuses: Vec<u16>,
}

/// Where tokens are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enforce {
    /// Every take is decided by the store: exact.
    Shared,
    /// Tokens are taken in blocks ahead of time: never above the limit, at most (Envoys x workers x size) stranded.
    Leased {
        /// Tokens in a block, 1 to 1,000,000, at most a quarter of the limit.
        size: u64,
        /// Life of a block, microseconds, 1,000 to 60,000,000.
        for_us: u64,
    },
    /// Each Envoy worker counts by itself; the limit is divided by `shares`.
    Local {
        /// Expected Envoys times workers, 1 to 10,000.
        shares: u64,
    },
}

/// What happens when no decision can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenUnavailable {
    /// The request passes.
    Allow,
    /// The request is refused with 503, never 429.
    Deny,
    /// An emergency allowance inside the worker: the limit divided by `shares`.
    Local {
        /// Expected Envoys times workers, 1 to 10,000.
        shares: u64,
    },
}

/// What happens when a key has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenMissing {
    /// The limit does not apply to the request.
    Skip,
    /// The request is refused with 429.
    Deny,
    /// All such requests share one key.
    Shared,
}
