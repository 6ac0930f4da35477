//! Latency mode: a limit on requests in flight learnt from the time that answers take.
//!
//! Where no connection bound makes the queue visible (HTTP/2, Istio's defaults), it hides in the upstream and shows
//! as delay beyond the time service takes without a queue, the *base*. By Little's law the mean time of requests is
//! the integral of requests in flight over the number of answers. Measured like this it is unbiased when clients give
//! up (they leave time but no answer) and just after a start (when only short requests have come back).
//!
//! - **Calm**: a cap holds, wide enough to be out of the way: never below what was proven harmless, doubled while
//!   requests are refused without delay to show for it (slow start).
//! - **Armed**, once the delay passes the target: the limit is what the capacity keeps busy for the base and the
//!   target delay, capacity x (base + target). It needs no search: a limit above the knee shows the capacity at once, and
//!   one below it grows by the target's part with each look, since the throughput that it lets through grows with it.
//! - **Test**: what the base is cannot be seen while there is always a queue. So when it is in doubt, and seldom when it
//!   is not, the limit dips to half of the knee for a moment. If throughput falls with it, there was no queue left, and
//!   the time seen *is* the base. If it holds, the base is no more than the time seen, and the next dip starts from there.
//! - **Change**: when throughput falls at the same limit, the upstream has become slower or smaller. Cutting the limit
//!   would cost throughput if it is slower; keeping it costs little time if it is smaller. So the base is taken to have
//!   grown, and tested later.

mod base;
mod change;
mod probe;
mod sample;
#[cfg(test)]
mod tests;

use super::average::{Average, gain};
use super::capacity::{Capacity, Steady};
use base::Base;
use change::Change;
use probe::{Finding, Probe};
pub(super) use sample::Sample;

/// The cap before anything is known, requests in flight.
pub(super) const INITIAL_CAP: f64 = 32.0;
const CAP_MAX: f64 = 1e6;
/// Throughput must have grown by this after the cap was doubled, or it is not doubled again.
const GROWTH: f64 = 1.3;
/// The target delay as a part of the base, where that is more than the configured one.
const TARGET: f64 = 0.75;
/// The limit counts as full from this part of it.
const FULL: f64 = 0.85;
/// A decision needs so many answers, or so many seconds with fewer.
const WINDOW_ANSWERS: f64 = 50.0;
/// From arming to the earliest test of the base, seconds: the limit must have been full.
const RISE_S: f64 = 0.3;
/// From arming to the first test of a base that was learnt in calm, from a change, and between tests, seconds.
const FIRST_PROBE_S: f64 = 30.0;
const CHANGED_PROBE_S: f64 = 10.0;
const PROBE_EVERY_S: f64 = 60.0;
/// A capacity that has crept to less than this part of what it was calls for a test of the base, after so many seconds.
const DRIFTED: f64 = 0.93;
const DRIFTED_PROBE_S: f64 = 1.0;
/// A base grows no more than this at once.
const SLOWER: f64 = 4.0;

/// The latency law's state.
#[derive(Clone, Debug)]
pub(super) struct Delay {
    /// The configured target delay, microseconds.
    target_us: f64,
    /// The shortest queue worth having, requests.
    queue_least: f64,
    /// What keeps requests from the upstream whatever the limit.
    bound: f64,
    base: Base,
    capacity: Capacity,
    /// The capacity that the limit counts on.
    steady: Steady,
    /// Time after response headers, microseconds.
    trail: Average,
    in_flight: Average,
    window: Sample,
    /// Delay beyond the base in the last window, microseconds.
    excess_us: f64,
    /// Calm: the cap, throughput when it was last doubled, and whether the last window was slow.
    cap: f64,
    doubled_at: f64,
    was_slow: bool,
    /// Armed: since when, the limit, and how long it could have been calm again.
    armed: bool,
    armed_s: f64,
    limit: f64,
    calm_s: f64,
    change: Change,
    probe: Option<Probe>,
    next_probe_s: f64,
    /// The capacity at which the base was right.
    vouched: f64,
}

impl Delay {
    /// `base_us` and `cap` from an earlier leader, 0 when unknown.
    pub(super) fn new(target_us: f64, base_us: f64, cap: f64) -> Delay {
        Delay {
            target_us,
            queue_least: 4.0,
            bound: f64::MAX,
            base: Base::new(base_us),
            capacity: Capacity::default(),
            steady: Steady::default(),
            trail: Average::default(),
            in_flight: Average::default(),
            window: Sample::default(),
            excess_us: 0.0,
            cap: cap.clamp(INITIAL_CAP, CAP_MAX),
            doubled_at: 0.0,
            was_slow: false,
            armed: false,
            armed_s: 0.0,
            limit: INITIAL_CAP,
            calm_s: 0.0,
            change: Change::default(),
            probe: None,
            next_probe_s: 0.0,
            vouched: 0.0,
        }
    }

    /// Goes on where an earlier leader was: armed at this limit, with this capacity.
    pub(super) fn resume(&mut self, limit: f64, capacity: f64) {
        self.armed = true;
        self.limit = limit;
        self.base.trust();
        self.learn_capacity(capacity);
        self.in_flight = Average::from_value(limit);
        self.next_probe_s = PROBE_EVERY_S;
    }

    /// Limiting; otherwise only the cap holds.
    pub(super) fn armed(&self) -> bool {
        self.armed
    }

    /// The limit while armed, dips included.
    pub(super) fn limit(&self) -> f64 {
        self.probe.and_then(|probe| probe.limit()).unwrap_or(self.limit)
    }

    /// The limit without dips: what the most important class may count on.
    pub(super) fn level(&self) -> f64 {
        self.limit
    }

    /// The cap while calm.
    pub(super) fn cap(&self) -> f64 {
        self.cap
    }

    /// Time to response headers without queueing, microseconds; 0 when unknown.
    pub(super) fn base_us(&self) -> f64 {
        self.base.us()
    }

    /// Requests a second that the upstream finishes when busy.
    pub(super) fn capacity(&self) -> &Capacity {
        &self.capacity
    }

    /// Requests in flight that keep the upstream busy: the bandwidth-delay product.
    pub(super) fn product(&self) -> f64 {
        self.steady.value() * (self.base.us() + self.trail.value()) / 1e6
    }

    /// Takes in a tick; decides once enough answers are in. `bound` keeps requests from the upstream whatever the limit,
    /// `queue_least` is the shortest queue worth having.
    pub(super) fn update(&mut self, tick: &Sample, bound: f64, queue_least: f64) {
        self.bound = bound;
        self.queue_least = queue_least;
        self.in_flight.add(tick.in_flight, gain(tick.elapsed_s, 0.5));
        let limit = if self.armed { self.limit } else { self.cap }.min(bound);
        let busy = tick.blocked && FULL * limit <= tick.in_flight;
        if self.probe.is_none_or(|probe| probe.limit().is_none()) {
            self.capacity.update(tick.ended, busy, tick.elapsed_s);
        }
        self.steady.follow(self.capacity.value(), tick.elapsed_s);
        if self.armed {
            self.armed_s += tick.elapsed_s;
            self.next_probe_s -= tick.elapsed_s;
            self.advance_probe(tick);
            if let Some(rate) = self.change.advance(tick, self.steady.value()) {
                self.base.lengthen((self.steady.value() / rate.max(1e-3)).min(SLOWER));
                self.learn_capacity(rate);
                self.next_probe_s = CHANGED_PROBE_S;
            }
        }
        self.window.add(tick);
        let Sample { answered, elapsed_s, .. } = self.window;
        let enough = WINDOW_ANSWERS <= answered
            || (1.0 <= elapsed_s && 10.0 <= answered)
            // Nothing comes back.
            || (0.3 <= elapsed_s && answered < 1.0 && 1.0 <= tick.in_flight);
        if enough {
            let window = std::mem::take(&mut self.window);
            self.decide(&window);
        } else if 2.0 <= elapsed_s {
            self.window = Sample::default();
            self.disarm_when_calm(tick, 2.0);
        }
        if self.armed && self.probe.is_none() && !self.change.is_measuring() {
            self.limit = self.aim();
        }
    }

    fn decide(&mut self, window: &Sample) {
        self.trail.add(window.trailed_us / window.answered.max(1.0), 0.1);
        let Some(base_us) = self.base.known_us() else {
            if 1.0 <= window.answered {
                self.base.guess(window.mean_us());
            }
            return;
        };
        self.excess_us = (window.mean_us() - base_us).max(0.0);
        let target_us = self.target_us();
        self.base.learn(window, target_us);
        if self.armed { self.steer(window) } else { self.watch(window) }
    }

    /// Calm: arms when the delay passes the target, or when doubling the cap brought no more throughput while the base is
    /// not sure: then it is a queue already.
    fn watch(&mut self, window: &Sample) {
        let excess = self.excess_us / self.target_us();
        let slow = 2.0 < excess || (1.0 < excess && self.was_slow);
        self.was_slow = 1.0 < excess;
        let in_vain =
            !self.base.is_confirmed() && window.blocked && window.rate() <= GROWTH * self.doubled_at;
        if slow || in_vain {
            self.arm();
        } else if !window.blocked {
            self.cap = self.cap.max(2.0 * self.in_flight.value()).min(CAP_MAX);
            self.doubled_at = 0.0;
        } else if !self.was_slow {
            self.cap = (2.0 * self.cap).min(CAP_MAX);
            self.doubled_at = window.rate();
        }
    }

    fn arm(&mut self) {
        self.armed = true;
        self.armed_s = 0.0;
        self.calm_s = 0.0;
        self.doubled_at = 0.0;
        self.next_probe_s = if self.base.is_confirmed() { FIRST_PROBE_S } else { 0.0 };
        self.cap = self.cap.min(2.0 * self.aim()).max(INITIAL_CAP);
    }

    /// Armed: looks for changes of the upstream, for doubts about the base, and for calm.
    fn steer(&mut self, window: &Sample) {
        let full = window.blocked && FULL * self.limit.min(self.bound) <= window.mean_in_flight();
        let steady = self.probe.is_none() && full;
        self.change.look(steady, self.capacity.recent(), self.steady.value(), window.elapsed_s);
        self.vouched = self.vouched.max(self.steady.value());
        if steady && self.steady.value() < DRIFTED * self.vouched {
            // Too slowly for a change: the service may have become slower all the same, or have been when the load came.
            // Then each look at a limit that is too low shows less of the capacity.
            self.vouched = self.steady.value();
            self.next_probe_s = self.next_probe_s.min(DRIFTED_PROBE_S);
        }
        let due = self.next_probe_s <= 0.0 && RISE_S <= self.armed_s;
        if due && window.blocked && self.probe.is_none() {
            self.probe = Some(Probe::default());
        }
        if self.excess_us <= self.target_us() {
            self.disarm_when_calm(window, if window.fits { 0.3 } else { 2.0 });
        } else {
            self.calm_s = 0.0;
        }
    }

    fn disarm_when_calm(&mut self, window: &Sample, dwell_s: f64) {
        let idle = !window.blocked && self.in_flight.value() < 0.8 * self.limit;
        self.calm_s = if window.fits || idle { self.calm_s + window.elapsed_s } else { 0.0 };
        if dwell_s <= self.calm_s {
            self.armed = false;
            self.probe = None;
            self.change = Change::default();
            self.cap = self.cap.max(1.5 * self.limit);
        }
    }

    fn advance_probe(&mut self, tick: &Sample) {
        let Some(finding) = self.probe.as_mut().and_then(|probe| probe.advance(tick)) else { return };
        match finding {
            Finding::Measured(rate) if !self.base.is_confirmed() => self.learn_capacity(rate),
            Finding::Measured(_) => {}
            Finding::Queue(mean_us) => self.base.shorten(mean_us),
            Finding::Base(mean_us) => self.base.confirm(mean_us),
            Finding::Nothing => {}
        }
        let product = self.product();
        match (&mut self.probe, finding) {
            (Some(probe), Finding::Measured(_) | Finding::Queue(_)) => probe.dip(product, self.base.us()),
            _ => {
                self.probe = None;
                self.next_probe_s = PROBE_EVERY_S;
            }
        }
    }

    fn learn_capacity(&mut self, rate: f64) {
        self.capacity = Capacity::from_value(rate);
        self.steady = Steady::from_value(rate);
        self.vouched = rate;
    }

    fn target_us(&self) -> f64 {
        self.target_us.max(TARGET * self.base.us()).max(1.0)
    }

    /// The right limit by what is known.
    fn aim(&self) -> f64 {
        self.product() + (self.steady.value() * self.target_us() / 1e6).max(self.queue_least)
    }
}
