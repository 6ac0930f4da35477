//! Latency mode: a concurrency limit learnt from the time that answers take.
//!
//! Where no connection bound makes the queue visible (HTTP/2, Istio's defaults), it hides in the upstream and shows
//! as delay beyond the time service takes without a queue, the *base*. By Little's law the mean time of requests is
//! the integral of requests in flight over the number of answers. Measured like this it is unbiased when clients give
//! up (they leave time but no answer) and just after a start (when only short requests have come back).
//!
//! - **Calm**: a cap holds, wide enough to be out of the way: never below what was proven harmless, doubled while
//!   requests are refused without delay to show for it (slow start).
//! - **Armed**, once the delay passes the target: additive increase while the delay is below it, multiplicative
//!   decrease while above, never below what the throughput and the base need.
//! - **Probe**: from time to time while armed the limit dips by a quarter. If throughput holds, there was a queue,
//!   and the base is no more than the time seen in the dip. If it falls, there was none, and the time seen *is* the
//!   base. So a base learnt in a cold overload, or before the service slowed down, is corrected under load.

use super::average::{Average, gain};

/// The cap before anything is known, requests in flight.
pub(super) const INITIAL_CAP: f64 = 32.0;
const CAP_MAX: f64 = 1e6;
/// Throughput must have grown by this after the cap was doubled, or it is not doubled again.
const GROWTH: f64 = 1.3;
/// A dip lasts until this many answers are in, within these bounds, seconds.
const PROBE_ANSWERS: f64 = 400.0;
const PROBE_S: std::ops::Range<f64> = 0.2..2.0;
const PROBE_DEPTH: f64 = 0.75;
/// While the base may be a queue: deeper dips, decided by fewer answers.
const DOUBT_ANSWERS: f64 = 150.0;
const DOUBT_DEPTH: f64 = 0.6;
/// A dip that costs more throughput than this went below the knee.
const LOSS: f64 = 0.12;
/// Between dips when the base is confirmed, seconds.
const PROBE_EVERY_S: f64 = 5.0;

/// What one tick showed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub(super) elapsed_s: f64,
    /// Requests that the upstream works on, those in Envoy's queue apart.
    pub(super) in_flight: f64,
    pub(super) answered: f64,
    /// Time until response headers, request-microseconds.
    pub(super) waited_us: f64,
    /// Time after them, request-microseconds.
    pub(super) trailed_us: f64,
    /// Requests that the upstream finished, a second.
    pub(super) ended: f64,
    /// Something was refused.
    pub(super) blocked: bool,
    /// The demand is well below the capacity.
    pub(super) fits: bool,
}

/// The latency law's state.
#[derive(Clone, Debug)]
pub(super) struct Delay {
    target_us: f64,
    queue_least: f64,
    base_us: Average,
    confirmed: bool,
    cap: f64,
    limit: f64,
    armed: bool,
    peak: f64,
    trail: Average,
    window: Sample,
    calm_s: f64,
    excess_us: f64,
    floored: Floored,
    doubled_at: f64,
    steady: Steady,
    probe: Option<Probe>,
    since_probe_s: f64,
}

/// Recent throughput and requests in flight, the reference of a probe.
#[derive(Clone, Copy, Debug, Default)]
struct Steady {
    ended: Average,
    in_flight: Average,
}

/// How long the limit has been at its least, and the shortest mean time seen meanwhile.
#[derive(Clone, Copy, Debug)]
struct Floored {
    seconds: f64,
    least_us: f64,
}

impl Default for Floored {
    fn default() -> Floored {
        Floored { seconds: 0.0, least_us: f64::MAX }
    }
}

/// A dip under way.
#[derive(Clone, Copy, Debug)]
struct Probe {
    limit: f64,
    ended: f64,
    in_flight: f64,
    settle_s: f64,
    seen: Sample,
}

impl Delay {
    /// `base_us` and `cap` from an earlier leader, 0 when unknown.
    pub(super) fn new(target_us: f64, base_us: f64, cap: f64) -> Delay {
        Delay {
            target_us,
            queue_least: 4.0,
            base_us: if 0.0 < base_us { Average::from_value(base_us) } else { Average::default() },
            confirmed: false,
            cap: cap.clamp(INITIAL_CAP, CAP_MAX),
            limit: INITIAL_CAP,
            armed: false,
            peak: 0.0,
            trail: Average::default(),
            window: Sample::default(),
            calm_s: 0.0,
            excess_us: 0.0,
            floored: Floored::default(),
            doubled_at: 0.0,
            steady: Steady::default(),
            probe: None,
            since_probe_s: 0.0,
        }
    }

    /// Goes on where an earlier leader was: armed at this limit, with this throughput.
    pub(super) fn resume(&mut self, limit: f64, ended: f64) {
        self.armed = true;
        self.confirmed = true;
        self.limit = limit;
        self.peak = ended;
        self.steady.ended = Average::from_value(ended);
        self.steady.in_flight = Average::from_value(limit);
    }

    /// Limiting; otherwise only the cap holds.
    pub(super) fn armed(&self) -> bool {
        self.armed
    }

    /// The limit while armed, dips included.
    pub(super) fn limit(&self) -> f64 {
        self.probe.map_or(self.limit, |probe| probe.limit)
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
        self.base_us.value()
    }

    /// Requests in flight that the throughput needs: the bandwidth-delay product.
    pub(super) fn product(&self) -> f64 {
        self.peak * (self.base_us() + self.trail.value()) / 1e6
    }

    /// Delay beyond the base in the last window, in units of its target.
    pub(super) fn excess(&self) -> f64 {
        self.excess_us / self.delay_target_us()
    }

    fn delay_target_us(&self) -> f64 {
        self.target_us.max(0.75 * self.base_us()).max(1.0)
    }

    fn queue(&self) -> f64 {
        (self.peak * self.delay_target_us() / 1e6).max(self.queue_least)
    }

    /// Takes in a tick; decides once enough answers are in.
    pub(super) fn update(&mut self, sample: &Sample, queue_least: f64) {
        self.queue_least = queue_least;
        self.since_probe_s += sample.elapsed_s;
        self.steady.ended.add(sample.ended, gain(sample.elapsed_s, 0.5));
        self.steady.in_flight.add(sample.in_flight, gain(sample.elapsed_s, 0.5));
        // A capacity that was there is believed in through a lull of a minute. Under pressure the throughput is the
        // capacity, but slower than the base is corrected, lest a limit too low prove itself right.
        let memory_s = if self.armed && sample.blocked { 3.0 } else { 60.0 };
        let ended = self.steady.ended.value();
        self.peak = (self.peak + gain(sample.elapsed_s, memory_s) * (ended - self.peak)).max(ended);
        self.window.add(sample);
        if self.probe.is_some() {
            self.advance_probe(sample);
        }
        let enough = 50.0 <= self.window.answered
            || (1.0 <= self.window.elapsed_s && 10.0 <= self.window.answered)
            || (0.3 <= self.window.elapsed_s && self.window.answered < 1.0 && 1.0 <= sample.in_flight);
        if enough {
            let window = std::mem::take(&mut self.window);
            self.decide(&window);
        } else if 2.0 <= self.window.elapsed_s {
            self.window = Sample::default();
            self.disarm_when_calm(sample, 2.0);
        }
    }

    fn decide(&mut self, window: &Sample) {
        let mean_us = window.waited_us.max(0.0) / window.answered.max(1.0);
        self.trail.add(window.trailed_us / window.answered.max(1.0), 0.1);
        let base_us = match self.base_us.known() {
            Some(base_us) => base_us,
            None if window.answered < 1.0 => return,
            None => {
                // The first window holds the ramp up to the cap, which says nothing about throughput.
                self.base_us.add(mean_us, 1.0);
                return;
            }
        };
        self.excess_us = (mean_us - base_us).max(0.0);
        let ratio = self.excess();
        self.learn_base(mean_us, ratio, window);
        if self.armed { self.steer(mean_us, ratio, window) } else { self.watch(ratio, window) }
    }

    fn learn_base(&mut self, mean_us: f64, ratio: f64, window: &Sample) {
        if window.answered < 1.0 {
            return;
        }
        if !window.blocked && ratio < 0.5 {
            let easy = window.fits && self.steady.in_flight.value() < 0.7 * self.cap;
            self.base_us.add(mean_us, if easy { 0.1 } else { 0.03 });
            self.confirmed |= easy && 1.0 <= self.calm_s;
        } else if mean_us < self.base_us() {
            // There is no time shorter than without a queue.
            self.base_us.add(mean_us, if self.confirmed { 0.2 } else { 0.5 });
        }
    }

    /// Calm: arms when the delay passes the target, or when doubling the cap brought no more throughput: then the base is
    /// a queue already.
    fn watch(&mut self, ratio: f64, window: &Sample) {
        self.calm_s += window.elapsed_s;
        let in_vain = window.blocked && window.ended / window.elapsed_s <= GROWTH * self.doubled_at;
        if 1.0 < ratio || in_vain {
            self.confirmed &= !in_vain;
            self.doubled_at = 0.0;
            self.armed = true;
            self.calm_s = 0.0;
            let target = self.product() + self.queue();
            self.limit = if in_vain { 0.5 * self.cap } else { 1.25 * target };
            self.cap = self.cap.min(2.0 * target).max(INITIAL_CAP);
            // Whatever was learnt in the first moments may be a queue.
            self.since_probe_s = if self.confirmed { 0.0 } else { PROBE_EVERY_S };
            return;
        }
        let proven = 2.0 * self.steady.in_flight.value();
        let ended = window.ended / window.elapsed_s;
        if !window.blocked {
            self.cap = self.cap.max(proven);
            self.doubled_at = 0.0;
        } else {
            self.cap *= 2.0;
            self.doubled_at = ended;
        }
        self.cap = self.cap.min(CAP_MAX);
    }

    /// Armed: additive increase, multiplicative decrease.
    fn steer(&mut self, mean_us: f64, ratio: f64, window: &Sample) {
        let needed = self.product() + self.queue_least;
        let target = self.product() + self.queue();
        if 1.0 < ratio {
            let factor = (1.0 - 0.2 * (ratio - 1.0)).max(0.7);
            self.limit = (self.limit * factor).max(needed);
            self.suspect(mean_us, needed, window.elapsed_s);
        } else if window.blocked || 0.8 * self.limit < self.steady.in_flight.value() {
            self.limit = (self.limit + (0.05 * self.limit).max(1.0)).min(4.0 * target);
        }
        let patience_s = if self.confirmed { PROBE_EVERY_S } else { 0.2 };
        if self.probe.is_none() && window.blocked && patience_s <= self.since_probe_s {
            self.start_probe(None);
        }
        let dwell_s = if window.fits { 0.3 } else { 2.0 };
        if ratio <= 1.0 {
            self.disarm_when_calm(window, dwell_s);
        } else {
            self.calm_s = 0.0;
        }
    }

    /// At the least limit the delay is still there: so few cannot queue that long, the service itself has slowed down.
    /// The base follows the shortest time seen since, not the last, or it would run after the queue it lets in.
    fn suspect(&mut self, mean_us: f64, needed: f64, elapsed_s: f64) {
        if needed < self.limit {
            self.floored = Floored::default();
            return;
        }
        self.floored.seconds += elapsed_s;
        self.floored.least_us = self.floored.least_us.min(mean_us);
        if 0.5 <= self.floored.seconds && self.base_us() < self.floored.least_us {
            self.base_us.add(self.floored.least_us, 0.1);
            self.since_probe_s = self.since_probe_s.max(PROBE_EVERY_S - 1.0);
        }
    }

    fn disarm_when_calm(&mut self, window: &Sample, dwell_s: f64) {
        let idle = !window.blocked && self.steady.in_flight.value() < 0.8 * self.limit;
        self.calm_s = if window.fits || idle { self.calm_s + window.elapsed_s } else { 0.0 };
        if dwell_s <= self.calm_s {
            self.armed = false;
            self.probe = None;
            self.cap = self.cap.max(1.5 * self.limit);
        }
    }

    fn start_probe(&mut self, reference: Option<Probe>) {
        let in_flight = self.steady.in_flight.value().min(self.limit);
        let depth = if self.confirmed { PROBE_DEPTH } else { DOUBT_DEPTH };
        let limit = reference.map_or(in_flight, |before| before.limit) * depth;
        self.since_probe_s = 0.0;
        self.probe = Some(Probe {
            limit: limit.max(2.0),
            ended: reference.map_or(self.steady.ended.value(), |before| before.ended),
            in_flight: reference.map_or(in_flight, |before| before.in_flight),
            settle_s: (3.0 * self.base_us() / 1e6).clamp(0.1, 1.0),
            seen: Sample::default(),
        });
    }

    fn advance_probe(&mut self, sample: &Sample) {
        let enough = if self.confirmed { PROBE_ANSWERS } else { DOUBT_ANSWERS };
        let Some(probe) = &mut self.probe else { return };
        if 0.0 < probe.settle_s {
            probe.settle_s -= sample.elapsed_s;
            return;
        }
        probe.seen.add(sample);
        let probe = *probe;
        let seen = probe.seen;
        let over =
            PROBE_S.end <= seen.elapsed_s || (PROBE_S.start <= seen.elapsed_s && enough <= seen.answered);
        if over {
            self.probe = None;
            self.since_probe_s = 0.0;
            if 10.0 <= seen.answered {
                self.conclude(&probe);
            }
        }
    }

    fn conclude(&mut self, probe: &Probe) {
        let seen = probe.seen;
        let mean_us = seen.waited_us.max(0.0) / seen.answered;
        let depth = 1.0 - (seen.in_flight / seen.elapsed_s) / probe.in_flight.max(1.0);
        let loss = 1.0 - (seen.ended / seen.elapsed_s) / probe.ended.max(1.0);
        if depth < LOSS {
            // The load fell away by itself: nothing was tried.
            return;
        }
        if LOSS < loss {
            self.base_us = Average::from_value(mean_us);
            self.confirmed = true;
            self.peak = self.peak.max(probe.ended);
            self.limit = self.limit.max(self.product() + self.queue());
            return;
        }
        if mean_us < self.base_us() {
            self.confirmed &= 0.8 * self.base_us() < mean_us;
            self.base_us = Average::from_value(mean_us);
        }
        if !self.confirmed {
            self.limit = probe.limit;
            let ended = probe.ended.max(seen.ended / seen.elapsed_s);
            self.start_probe(Some(Probe { ended, ..*probe }));
        }
    }
}

impl Sample {
    /// Adds a tick. `in_flight` and `ended` become sums weighted by time.
    fn add(&mut self, other: &Sample) {
        self.elapsed_s += other.elapsed_s;
        self.in_flight += other.in_flight * other.elapsed_s;
        self.ended += other.ended * other.elapsed_s;
        self.answered += other.answered;
        self.waited_us += other.waited_us;
        self.trailed_us += other.trailed_us;
        self.blocked |= other.blocked;
        self.fits = other.fits;
    }
}
