//! How many requests are in flight in the whole Envoy, as one worker sees it.
//!
//! Its own count is exact and new, the others' are up to a tick old. At the onset of overload the old ones miss what
//! arrived since; its own divided by its share of the demand does not. Taking the larger of an even share and the
//! observed one keeps a worker that carries nearly everything (one pinned HTTP/2 connection) from shedding what the
//! upstream could do.

/// What a worker knows about the others, from the last tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// Requests in flight in all other workers.
    pub(super) others: f64,
    /// This worker's part of the demand, above 0, at most 1.
    pub(super) part: f64,
}

impl Default for Share {
    fn default() -> Share {
        Share { others: 0.0, part: 1.0 }
    }
}

impl Share {
    /// From own and foreign demand; `workers` are those that take traffic, this one included.
    pub(super) fn new(others: f64, own_demand: f64, foreign_demand: f64, workers: usize) -> Share {
        let even = 1.0 / workers.max(1) as f64;
        let total = own_demand + foreign_demand;
        let observed = if 0.0 < total { 0.95 * own_demand / total + 0.05 * even } else { even };
        Share { others, part: observed.max(even) }
    }

    /// Requests in flight in the whole Envoy.
    pub(super) fn estimate(&self, own: u64) -> f64 {
        let own = own as f64;
        let scaled = own / self.part;
        let summed = self.others + own;
        if scaled <= summed { scaled } else { summed.max(scaled / 1.5) }
    }
}
