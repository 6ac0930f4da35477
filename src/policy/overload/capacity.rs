//! How many requests a second the upstream finishes when it is busy.
//!
//! Only a busy upstream shows its capacity. Below saturation the throughput is the demand, which can only raise the
//! figure, and only when smoothed: single ticks of a hundred requests read a tenth too high.

use super::average::{Average, gain};

/// Time constant while busy, seconds.
const BUSY_S: f64 = 1.0;
/// Time constant of what raises the figure otherwise, seconds.
const RAISE_S: f64 = 0.5;
/// Time constant by which a change is noticed, seconds; longer where so few answers come that chance would move it.
const RECENT_S: f64 = 0.25;
const RECENT_ANSWERS: f64 = 60.0;
/// An upstream that was busy for this long has shown its capacity, seconds.
const TESTED_S: f64 = 0.25;
/// A recent average that is higher by this is no chance.
const CHANCE: f64 = 1.15;
/// A recent average that is this much lower is none either.
const FELL: f64 = 1.25;
/// A capacity to count on forgets within this time, seconds.
const FORGET_S: f64 = 60.0;

/// An estimate of the capacity.
#[derive(Clone, Debug, Default)]
pub(super) struct Capacity {
    value: Average,
    calm: Average,
    recent: Average,
    busy_s: f64,
}

impl Capacity {
    pub(super) fn from_value(value: f64) -> Capacity {
        let known = Average::from_value(value);
        Capacity { value: known, calm: known, recent: known, busy_s: BUSY_S }
    }

    /// Takes in the requests finished a second during one tick.
    pub(super) fn update(&mut self, ended: f64, busy: bool, elapsed_s: f64) {
        self.calm.add(ended, gain(elapsed_s, RAISE_S));
        let recent_s = RECENT_S.max(RECENT_ANSWERS / self.value().max(1.0)).min(2.0);
        self.recent.add(ended, gain(elapsed_s, recent_s));
        if busy {
            self.busy_s += elapsed_s;
            // A mean over what was seen so far, then a running one, unless the upstream has become much slower.
            let fell = self.recent.value() * FELL < self.value();
            let constant = if fell { RECENT_S } else { self.busy_s.min(BUSY_S) };
            self.value.add(ended, (elapsed_s / constant.max(elapsed_s)).min(1.0));
        }
        // What was finished can be finished.
        let proven = if busy { self.recent.value() / CHANCE } else { self.calm.value() };
        if self.value() < proven {
            self.value = Average::from_value(if busy { self.recent.value() } else { proven });
        }
    }

    /// Requests a second; 0 when nothing has finished yet.
    pub(super) fn value(&self) -> f64 {
        self.value.value()
    }

    /// The throughput of the last moments, requests a second.
    pub(super) fn recent(&self) -> f64 {
        self.recent.value()
    }

    /// The upstream has been busy, so the figure is its capacity and not just the most it was asked for.
    pub(super) fn tested(&self) -> bool {
        TESTED_S <= self.busy_s
    }
}

/// A capacity to count on: chance hardly moves it, a rise does at once, and a fall is for others to explain.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Steady {
    value: f64,
    /// Since it last jumped, seconds.
    since_s: f64,
}

impl Steady {
    pub(super) fn from_value(value: f64) -> Steady {
        Steady { value, since_s: 1.0 }
    }

    /// Takes in the estimate of a tick.
    pub(super) fn follow(&mut self, capacity: f64, elapsed_s: f64) {
        if CHANCE * self.value < capacity {
            *self = Steady { value: capacity, since_s: 0.0 };
            return;
        }
        self.since_s += elapsed_s;
        let constant = if self.value < capacity { RAISE_S } else { self.since_s.min(FORGET_S) };
        self.value += (elapsed_s / constant.max(elapsed_s)).min(1.0) * (capacity - self.value);
    }

    /// Requests a second; 0 when unknown.
    pub(super) fn value(&self) -> f64 {
        self.value
    }
}
