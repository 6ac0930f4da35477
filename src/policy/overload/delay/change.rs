//! Whether the upstream has changed: throughput falls while the limit is full.
//!
//! A service that has become slower needs as many requests in flight as before, one that has become smaller needs fewer.
//! Cutting the limit would cost the first one throughput; keeping it costs the second one a little time.

use super::sample::Sample;

/// Throughput below this part of the capacity is suspicious.
const SUSPICIOUS: f64 = 0.75;
/// For so long, seconds.
const SUSPICIOUS_S: f64 = 0.25;
/// And then below this part when measured in full.
const SURE: f64 = 0.85;

/// The suspicion.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Change {
    fallen_s: f64,
    measured: Option<Sample>,
}

impl Change {
    /// The limit is held while throughput is being measured.
    pub(super) fn is_measuring(&self) -> bool {
        self.measured.is_some()
    }

    /// Takes in a window in which the limit was full, or not.
    pub(super) fn look(&mut self, full: bool, recent: f64, capacity: f64, elapsed_s: f64) {
        let fallen = full && recent < SUSPICIOUS * capacity;
        self.fallen_s = if fallen { self.fallen_s + elapsed_s } else { 0.0 };
        if SUSPICIOUS_S <= self.fallen_s && self.measured.is_none() {
            self.measured = Some(Sample::default());
        }
    }

    /// Takes in a tick; the new throughput, once that is sure.
    pub(super) fn advance(&mut self, tick: &Sample, capacity: f64) -> Option<f64> {
        let measured = self.measured.as_mut()?;
        measured.add(tick);
        if !measured.is_comparable() {
            return None;
        }
        let rate = measured.rate();
        *self = Change::default();
        (rate < SURE * capacity).then_some(rate)
    }
}
