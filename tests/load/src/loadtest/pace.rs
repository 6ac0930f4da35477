//! How long, how often, against how much.

/// Requests that the sample upstream serves at once.
pub(crate) const SERVERS: usize = 16;

/// Its mean service time, milliseconds; exponential.
pub(crate) const SERVICE_MS: f64 = 20.0;

/// What it can do, requests a second.
pub(crate) const CAPACITY: f64 = SERVERS as f64 * 1_000.0 / SERVICE_MS;

/// The lengths of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    /// Load below capacity before what is measured, seconds.
    pub(crate) warm_s: f64,
    /// Cut from the beginning of a steady measurement, seconds.
    pub(crate) settle_s: f64,
    /// Length of a measurement, seconds.
    pub(crate) hold_s: f64,
    /// Runs of each scenario with each system.
    pub(crate) repeats: u32,
}

// === impl Pace ===

impl Pace {
    /// At 5 times capacity a run holds 6,000 critical requests, and three runs 18,000.
    pub(crate) const FULL: Pace = Pace { warm_s: 3.0, settle_s: 2.0, hold_s: 12.0, repeats: 3 };

    /// Everything once, in under five minutes.
    pub(crate) const QUICK: Pace = Pace { warm_s: 1.2, settle_s: 0.8, hold_s: 3.0, repeats: 1 };
}
