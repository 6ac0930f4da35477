//! What was seen, of one tick or of several.

/// Enough answers to compare two samples, and the bounds of the time that may take, seconds.
const COMPARABLE_ANSWERS: f64 = 300.0;
const COMPARABLE_S: std::ops::Range<f64> = 0.2..2.0;

/// What one tick showed, or, added up, several.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::overload) struct Sample {
    pub(in crate::overload) elapsed_s: f64,
    /// Requests that the upstream works on, those in Envoy's queue apart; a sum over time when added up.
    pub(in crate::overload) in_flight: f64,
    pub(in crate::overload) answered: f64,
    /// Time until response headers, request-microseconds.
    pub(in crate::overload) waited_us: f64,
    /// Time after them, request-microseconds.
    pub(in crate::overload) trailed_us: f64,
    /// Requests that the upstream finished, a second; a sum over time when added up.
    pub(in crate::overload) ended: f64,
    /// Something was refused.
    pub(in crate::overload) blocked: bool,
    /// The demand is well below the capacity.
    pub(in crate::overload) fits: bool,
}

impl Sample {
    /// Adds a tick.
    pub(super) fn add(&mut self, tick: &Sample) {
        self.elapsed_s += tick.elapsed_s;
        self.in_flight += tick.in_flight * tick.elapsed_s;
        self.ended += tick.ended * tick.elapsed_s;
        self.append(tick);
    }

    /// Adds what was added up elsewhere.
    pub(super) fn merge(&mut self, other: &Sample) {
        self.elapsed_s += other.elapsed_s;
        self.in_flight += other.in_flight;
        self.ended += other.ended;
        self.append(other);
    }

    fn append(&mut self, other: &Sample) {
        self.answered += other.answered;
        self.waited_us += other.waited_us;
        self.trailed_us += other.trailed_us;
        self.blocked |= other.blocked;
        self.fits = other.fits;
    }

    /// Mean time until response headers, by Little's law, microseconds.
    pub(super) fn mean_us(&self) -> f64 {
        self.waited_us.max(0.0) / self.answered.max(1.0)
    }

    /// Mean number of requests in flight.
    pub(super) fn mean_in_flight(&self) -> f64 {
        self.in_flight / self.elapsed_s.max(1e-6)
    }

    /// Requests finished a second.
    pub(super) fn rate(&self) -> f64 {
        self.ended / self.elapsed_s.max(1e-6)
    }

    /// Enough to compare it with another.
    pub(super) fn is_comparable(&self) -> bool {
        COMPARABLE_S.end <= self.elapsed_s
            || (COMPARABLE_S.start <= self.elapsed_s && COMPARABLE_ANSWERS <= self.answered)
    }
}
