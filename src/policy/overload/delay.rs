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

use super::average::{Average, gain};
use super::capacity::Capacity;

/// The cap before anything is known, requests in flight.
pub(super) const INITIAL_CAP: f64 = 32.0;
const CAP_MAX: f64 = 1e6;
/// Throughput must have grown by this after the cap was doubled, or it is not doubled again.
const GROWTH: f64 = 1.3;
/// The target delay as a part of the base, where that is more than the configured one.
const TARGET: f64 = 0.75;
/// From arming to the earliest test, seconds: the limit must have been full.
const RISE_S: f64 = 0.3;
/// From arming to the first test of a base that was learnt in calm, and between tests, seconds.
const FIRST_TEST_S: f64 = 30.0;
const TEST_EVERY_S: f64 = 60.0;
/// How deep a test dips, as a part of what should keep the upstream busy. A deep dip is short: what it costs grows with
/// its depth, what it tells with the square.
const DIP: f64 = 0.5;
/// What a dip is compared with is measured until this many answers are in, within these bounds, seconds.
const BEFORE_ANSWERS: f64 = 300.0;
const BEFORE_S: std::ops::Range<f64> = 0.2..2.0;
/// A dip ends when one verdict is this much more likely than the other (logarithm), within these bounds, seconds.
const SURE: f64 = 4.0;
const DIP_S: std::ops::Range<f64> = 0.1..2.0;
/// Requests in flight must have fallen to less than this part of what should keep the upstream busy, or nothing was
/// tried.
const TRIED: f64 = 0.85;
/// A base grows no more than this at once.
const SLOWER: f64 = 4.0;
/// From a change to the test of the base, seconds.
const CHANGED_TEST_S: f64 = 10.0;
/// Throughput below this part of the capacity, with the limit full, is a change of the upstream.
const CHANGED: f64 = 0.75;
/// For so long, seconds; and then still below this when measured in full.
const CHANGED_S: f64 = 0.25;
const CHANGED_SURELY: f64 = 0.85;
/// A base from so many answers without delay is sure.
const CONFIRMED_BY: f64 = 200.0;

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
    armed_s: f64,
    capacity: Capacity,
    trail: Average,
    in_flight: Average,
    window: Sample,
    calm_s: f64,
    flat: f64,
    /// The capacity as it is counted on: chance does not move it, a change does.
    vouched: f64,
    vouched_s: f64,
    fallen_s: f64,
    changed: Option<Sample>,
    excess_us: f64,
    doubled_at: f64,
    test: Option<Test>,
    next_test_s: f64,
}

/// A test of the base under way.
#[derive(Clone, Copy, Debug, Default)]
struct Test {
    /// What was seen before the dip; the limit is held meanwhile.
    before: Sample,
    /// The dip.
    limit: f64,
    /// Its first moments, in which what was let in before ends, seconds.
    settle_s: f64,
    /// What was seen in it.
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
            armed_s: 0.0,
            capacity: Capacity::default(),
            trail: Average::default(),
            in_flight: Average::default(),
            window: Sample::default(),
            calm_s: 0.0,
            flat: 0.0,
            vouched: 0.0,
            vouched_s: 0.0,
            fallen_s: 0.0,
            changed: None,
            excess_us: 0.0,
            doubled_at: 0.0,
            test: None,
            next_test_s: 0.0,
        }
    }

    /// Goes on where an earlier leader was: armed at this limit, with this capacity.
    pub(super) fn resume(&mut self, limit: f64, capacity: f64) {
        self.armed = true;
        self.confirmed = true;
        self.limit = limit;
        self.next_test_s = TEST_EVERY_S;
        self.capacity = Capacity::from_value(capacity);
        self.in_flight = Average::from_value(limit);
    }

    /// Limiting; otherwise only the cap holds.
    pub(super) fn armed(&self) -> bool {
        self.armed
    }

    /// The limit while armed, dips included.
    pub(super) fn limit(&self) -> f64 {
        self.test.filter(Test::dips).map_or(self.limit, |test| test.limit)
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

    /// Requests a second that the upstream finishes when busy.
    pub(super) fn capacity(&self) -> &Capacity {
        &self.capacity
    }

    /// Requests in flight that keep the upstream busy: the bandwidth-delay product.
    pub(super) fn product(&self) -> f64 {
        self.vouched * (self.base_us() + self.trail.value()) / 1e6
    }

    /// Delay beyond the base in the last window, in units of its target.
    pub(super) fn excess(&self) -> f64 {
        self.excess_us / self.target_us()
    }

    fn target_us(&self) -> f64 {
        self.target_us.max(TARGET * self.base_us()).max(1.0)
    }

    /// The right limit by what is known.
    fn aim(&self) -> f64 {
        self.product() + (self.vouched * self.target_us() / 1e6).max(self.queue_least)
    }

    /// Takes in a tick; decides once enough answers are in.
    pub(super) fn update(&mut self, sample: &Sample, queue_least: f64) {
        self.queue_least = queue_least;
        self.in_flight.add(sample.in_flight, gain(sample.elapsed_s, 0.5));
        let bound = if self.armed { self.limit } else { self.cap };
        let busy = sample.blocked && 0.85 * bound <= sample.in_flight;
        if !self.test.is_some_and(|test| test.dips()) {
            self.capacity.update(sample.ended, busy, sample.elapsed_s);
        }
        self.window.add(sample);
        if self.armed {
            self.armed_s += sample.elapsed_s;
            self.next_test_s -= sample.elapsed_s;
            self.advance_test(sample);
            self.advance_change(sample);
        }
        self.vouch(sample.elapsed_s);
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
        if self.armed && self.test.is_none() && self.changed.is_none() {
            self.limit = self.aim();
        }
    }

    fn vouch(&mut self, elapsed_s: f64) {
        let capacity = self.capacity.value();
        if 1.15 * self.vouched < capacity {
            self.vouched = capacity;
            self.vouched_s = 0.0;
            return;
        }
        self.vouched_s += elapsed_s;
        let constant = if self.vouched < capacity { 2.0 } else { self.vouched_s.min(60.0) };
        self.vouched += (elapsed_s / constant).min(1.0) * (capacity - self.vouched);
    }

    fn decide(&mut self, window: &Sample) {
        let mean_us = window.mean_us();
        self.trail.add(window.trailed_us / window.answered.max(1.0), 0.1);
        let Some(base_us) = self.base_us.known() else {
            if 1.0 <= window.answered {
                self.base_us.add(mean_us, 1.0);
            }
            return;
        };
        self.excess_us = (mean_us - base_us).max(0.0);
        self.learn_base(mean_us, window);
        if self.armed { self.steer(window) } else { self.watch(window) }
    }

    fn learn_base(&mut self, mean_us: f64, window: &Sample) {
        if window.answered < 1.0 {
            return;
        }
        if !window.blocked && self.excess() < 0.5 {
            self.base_us.add(mean_us, if window.fits { 0.1 } else { 0.03 });
            self.flat += window.answered;
            self.confirmed |= CONFIRMED_BY <= self.flat;
        } else if mean_us < self.base_us() {
            // There is no time shorter than without a queue.
            self.base_us.add(mean_us, if self.confirmed { 0.2 } else { 0.5 });
        }
    }

    /// Calm: arms when the delay passes the target, or when doubling the cap brought no more throughput: then the base is
    /// a queue already.
    fn watch(&mut self, window: &Sample) {
        self.calm_s += window.elapsed_s;
        let ended = window.ended / window.elapsed_s;
        let in_vain = !self.confirmed && window.blocked && ended <= GROWTH * self.doubled_at;
        if 1.0 < self.excess() || in_vain {
            self.doubled_at = 0.0;
            self.armed = true;
            self.armed_s = 0.0;
            self.calm_s = 0.0;
            self.next_test_s = if self.confirmed { FIRST_TEST_S } else { 0.0 };
            self.cap = self.cap.min(2.0 * self.aim()).max(INITIAL_CAP);
            return;
        }
        if !window.blocked {
            self.cap = self.cap.max(2.0 * self.in_flight.value());
            self.doubled_at = 0.0;
        } else {
            self.cap *= 2.0;
            self.doubled_at = ended;
        }
        self.cap = self.cap.min(CAP_MAX);
    }

    fn steer(&mut self, window: &Sample) {
        let full = 0.85 * self.limit <= window.in_flight / window.elapsed_s;
        let fallen = self.capacity.recent() < CHANGED * self.vouched;
        let changed = window.blocked && full && fallen && self.test.is_none();
        self.fallen_s = if changed { self.fallen_s + window.elapsed_s } else { 0.0 };
        if CHANGED_S <= self.fallen_s && self.changed.is_none() {
            self.changed = Some(Sample::default());
        }
        if self.test.is_none() && window.blocked && self.next_test_s <= 0.0 && RISE_S <= self.armed_s {
            self.test = Some(Test::default());
        }
        if self.excess() <= 1.0 {
            self.disarm_when_calm(window, if window.fits { 0.3 } else { 2.0 });
        } else {
            self.calm_s = 0.0;
        }
    }

    /// The upstream has changed: once its new throughput is known, the base is taken to have grown by as much.
    fn advance_change(&mut self, sample: &Sample) {
        let Some(seen) = &mut self.changed else { return };
        seen.add(sample);
        if !seen.suffices() {
            return;
        }
        let ended = seen.ended / seen.elapsed_s;
        self.changed = None;
        self.fallen_s = 0.0;
        if ended < CHANGED_SURELY * self.vouched {
            let slower = (self.vouched / ended.max(1e-3)).min(SLOWER);
            self.base_us = Average::from_value(self.base_us() * slower);
            self.learn_capacity(ended);
            self.confirmed = false;
            self.flat = 0.0;
            self.next_test_s = CHANGED_TEST_S;
        }
    }

    fn learn_capacity(&mut self, ended: f64) {
        self.capacity = Capacity::from_value(ended);
        self.vouched = ended;
        self.vouched_s = 1.0;
    }

    fn disarm_when_calm(&mut self, window: &Sample, dwell_s: f64) {
        let idle = !window.blocked && self.in_flight.value() < 0.8 * self.limit;
        self.calm_s = if window.fits || idle { self.calm_s + window.elapsed_s } else { 0.0 };
        if dwell_s <= self.calm_s {
            self.armed = false;
            self.test = None;
            self.changed = None;
            self.cap = self.cap.max(1.5 * self.limit);
        }
    }

    fn advance_test(&mut self, sample: &Sample) {
        let Some(test) = &mut self.test else { return };
        if !test.dips() {
            test.before.add(sample);
            if test.before.suffices() {
                let before = test.before;
                self.dip(before);
            }
        } else if 0.0 < test.settle_s {
            test.settle_s -= sample.elapsed_s;
        } else {
            test.seen.add(sample);
            let test = *test;
            let left = self.left(&test);
            let over = DIP_S.end <= test.seen.elapsed_s;
            if over || (DIP_S.start <= test.seen.elapsed_s && SURE <= test.evidence(left).abs()) {
                self.test = None;
                self.conclude(&test, left);
            }
        }
    }

    /// Requests in flight during the dip, as a part of what should keep the upstream busy.
    fn left(&self, test: &Test) -> f64 {
        test.seen.in_flight / test.seen.elapsed_s / self.product().max(1e-3)
    }

    /// Starts the dip of a test.
    fn dip(&mut self, before: Sample) {
        if !self.confirmed {
            self.learn_capacity(before.ended / before.elapsed_s);
        }
        self.test = Some(Test {
            before,
            limit: (DIP * self.product()).max(1.0),
            settle_s: (2.0 * self.base_us() / 1e6).clamp(0.1, 1.0),
            seen: Sample::default(),
        });
    }

    fn conclude(&mut self, test: &Test, left: f64) {
        let (before, seen) = (test.before, test.seen);
        self.next_test_s = TEST_EVERY_S;
        if before.answered < 10.0 || TRIED < left || seen.answered < 5.0 {
            // Nothing comes back, or the load fell away by itself: nothing was tried.
            return;
        }
        let mean_us = seen.mean_us();
        if 0.0 < test.evidence(left) {
            self.base_us = Average::from_value(mean_us);
            self.confirmed = true;
        } else {
            self.confirmed = false;
            self.base_us = Average::from_value(mean_us.min(self.base_us()));
            self.dip(before);
        }
    }
}

impl Test {
    fn dips(&self) -> bool {
        0.0 < self.limit
    }

    /// How much more likely (logarithm) so few answers are if throughput fell with the requests in flight to this part
    /// than if it held, for answers that come at random.
    fn evidence(&self, left: f64) -> f64 {
        let held = self.before.ended / self.before.elapsed_s.max(1e-3) * self.seen.elapsed_s;
        self.seen.ended * left.clamp(0.05, 1.0).ln() + held * (1.0 - left).max(0.0)
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

    fn mean_us(&self) -> f64 {
        self.waited_us.max(0.0) / self.answered.max(1.0)
    }

    /// Enough to compare it with another.
    fn suffices(&self) -> bool {
        BEFORE_S.end <= self.elapsed_s
            || (BEFORE_S.start <= self.elapsed_s && BEFORE_ANSWERS <= self.answered)
    }
}
