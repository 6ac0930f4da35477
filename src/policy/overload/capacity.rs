//! How many requests a second the upstream finishes when it is busy.
//!
//! Only a busy upstream shows its capacity. Below saturation the throughput is the demand, which can only raise the
//! figure, and only when smoothed: single ticks of a hundred requests read a tenth too high.

use super::average::{Average, gain};

const BUSY_S: f64 = 1.0;
const RAISE_S: f64 = 0.5;
const CHANCE: f64 = 1.15;

/// An estimate of the capacity.
#[derive(Clone, Debug, Default)]
pub(super) struct Capacity {
    busy: Average,
    recent: Average,
    busy_ticks: u32,
}

impl Capacity {
    pub(super) fn from_value(value: f64) -> Capacity {
        Capacity { busy: Average::from_value(value), ..Capacity::default() }
    }

    /// Takes in the requests finished a second during one tick.
    pub(super) fn update(&mut self, ended: f64, busy: bool, elapsed_s: f64) {
        self.recent.add(ended, gain(elapsed_s, RAISE_S));
        self.busy_ticks = if busy { self.busy_ticks + 1 } else { 0 };
        let busy = 2 <= self.busy_ticks;
        if busy {
            self.busy.add(ended, gain(elapsed_s, BUSY_S));
        }
        // What was finished can be finished. A busy average is trusted before a recent one that is a little higher.
        let trusted = if busy { CHANCE * self.busy.value() } else { self.busy.value() };
        if trusted < self.recent.value() {
            self.busy = Average::from_value(self.recent.value());
        }
    }

    /// Requests a second; 0 when nothing has finished yet.
    pub(super) fn value(&self) -> f64 {
        self.busy.value()
    }
}
