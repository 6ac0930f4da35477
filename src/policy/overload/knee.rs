//! Pool mode: the connection bound is the knee, and the queue before it is visible.
//!
//! With `max_connections` a little above what the upstream works on at once, every further request waits inside Envoy,
//! where it is counted. The limit is the bound; the queue budget is what drains within the target delay.

use super::average::{Average, gain};
use super::stats::ClusterStats;

/// Poll answers older than this many ticks are not used.
const FRESH_TICKS: u64 = 5;

/// The connection bound and the queue before it.
#[derive(Clone, Debug, Default)]
pub(super) struct Knee {
    bound: Option<f64>,
    poll: Option<(ClusterStats, u64)>,
    overflowed: bool,
    queue: Average,
    load: Average,
    calm_s: f64,
    engaged: bool,
    reading: Reading,
}

/// How one tick looked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    /// Requests that the upstream works on.
    pub(super) active: f64,
    /// Requests that wait for a connection.
    pub(super) pending: f64,
    /// Every connection has work and requests wait.
    pub(super) busy: bool,
}

/// What decides about engaging.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pressure {
    /// Queue budget, requests.
    pub(super) queue: f64,
    /// Requests shed a second.
    pub(super) shed: f64,
    /// Requests a second the upstream finishes when busy.
    pub(super) capacity: f64,
    /// Requests offered a second.
    pub(super) demand: f64,
}

impl Knee {
    /// A knee whose bound somebody knew before.
    pub(super) fn new(bound: Option<f64>) -> Knee {
        Knee { bound, ..Knee::default() }
    }

    /// The connection bound; `None` where none is set, and then there is no pool mode.
    pub(super) fn bound(&self) -> Option<f64> {
        self.bound
    }

    /// Shedding by class.
    pub(super) fn engaged(&self) -> bool {
        self.engaged
    }

    /// Takes in an answer of the admin endpoint.
    pub(super) fn on_poll(&mut self, stats: ClusterStats, now_us: u64) {
        if let Some(bound) = stats.connection_bound() {
            self.bound = Some(bound as f64);
        }
        if let Some((last, _)) = self.poll {
            self.overflowed |= last.overflows < stats.overflows;
        }
        self.poll = Some((stats, now_us));
    }

    /// Where requests are: by the last poll if it is fresh, else by the filter's own count.
    pub(super) fn read(&mut self, in_flight: f64, now_us: u64, tick_us: u64) -> Reading {
        let fresh = self.poll.filter(|(_, at_us)| now_us.abs_diff(*at_us) <= tick_us * FRESH_TICKS);
        let bound = self.bound.unwrap_or(f64::MAX);
        let (active, pending) = match fresh {
            Some((stats, _)) => (stats.active as f64, stats.pending as f64),
            None => (in_flight.min(bound), (in_flight - bound).max(0.0)),
        };
        self.reading = Reading { active, pending, busy: 0.0 < pending && 0.9 * bound <= active };
        self.reading
    }

    /// Engages when requests wait for longer than chance would have it, or when something hard refused; releases
    /// when the queue is short and little is shed.
    pub(super) fn engage(&mut self, pressure: &Pressure, hard: bool, elapsed_s: f64) {
        let Some(bound) = self.bound else {
            self.engaged = false;
            return;
        };
        let Reading { active, pending, .. } = self.reading;
        self.queue.add(pending, gain(elapsed_s, 0.23));
        self.load.add(active + pending, gain(elapsed_s, 0.4));
        let overflowed = std::mem::take(&mut self.overflowed);
        if !self.engaged {
            // Just below the capacity queues come and go; refusing for them would cost more than they do.
            let deep = if pressure.capacity < pressure.demand { 1.0 } else { 2.5 };
            self.engaged = hard || overflowed || deep * pressure.queue < self.queue.value();
            self.calm_s = 0.0;
            return;
        }
        let short = self.load.value() < bound + 0.5 * pressure.queue;
        let fits = pressure.demand < 0.95 * pressure.capacity;
        let quiet = pressure.shed < 0.05 * pressure.capacity;
        self.calm_s = if short && (fits || quiet) && !overflowed { self.calm_s + elapsed_s } else { 0.0 };
        let dwell_s = if fits { 0.3 } else { 1.0 };
        if dwell_s <= self.calm_s {
            self.engaged = false;
        }
    }
}
