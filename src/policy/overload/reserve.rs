//! Headroom: how deep a queue each class may find and still be let in, in units of the queue budget.
//!
//! Envoy's queue is first come, first served, so a class cannot be moved forward once it waits. What can be done is to
//! refuse the others earlier and so to keep room free for it (trunk reservation in telephony). The lowest class still
//! in needs a queue of about one budget, or the upstream idles between arrivals; each class above needs enough steps
//! beyond it that chance never fills them.

use super::record::CLASSES;

/// While no class has to give way: bursts only.
const RELAXED: [f64; CLASSES] = [12.0, 3.6, 3.0, 2.4, 1.8];
/// While one has to, by that class. It holds about one budget of queue whichever it is, so that the delay of those
/// let in does not depend on how deep the overload is.
const PRESSED: [[f64; CLASSES]; CLASSES] = [
    [4.0, 1.2, 1.0, 0.8, 0.8],
    [12.0, 1.2, 0.9, 0.8, 0.8],
    [12.0, 2.6, 1.5, 1.0, 0.8],
    [12.0, 3.0, 2.2, 1.4, 0.8],
    [12.0, 3.2, 2.4, 1.8, 1.2],
];
/// Latency mode, in units of the limit; the critical class is bounded by the hard bound unless it is what overloads.
const RELAXED_FACTORS: [f64; CLASSES] = [2.2, 1.5, 1.35, 1.2, 1.1];
const PRESSED_FACTORS: [[f64; CLASSES]; CLASSES] = [
    [1.15, 0.9, 0.8, 0.8, 0.8],
    [2.2, 1.05, 0.9, 0.8, 0.8],
    [2.2, 1.2, 1.05, 0.9, 0.8],
    [2.2, 1.3, 1.15, 1.05, 0.9],
    [2.2, 1.4, 1.25, 1.15, 1.05],
];
/// While not engaged: the bound that holds until the leader has looked.
const HARD: [f64; CLASSES] = [12.0, 4.5, 4.0, 3.5, 3.0];
const HARD_FACTORS: [f64; CLASSES] = [2.5, 1.1, 1.0, 1.0, 1.0];

/// Thresholds in pool mode: the limit and so many queue budgets. `marginal` is the class that has to give way.
pub(super) fn pool(limit: f64, queue: f64, marginal: Option<usize>) -> [f64; CLASSES] {
    let depths = marginal.and_then(|class| PRESSED.get(class)).unwrap_or(&RELAXED);
    depths.map(|depth| limit + queue * depth)
}

/// Thresholds in latency mode: multiples of the limit. `level` is the limit without dips and `cap` the bound while calm:
/// what was let in below the cap is still there when the limit falls, and is no reason to refuse critical requests.
pub(super) fn latency(limit: f64, level: f64, cap: f64, marginal: Option<usize>) -> [f64; CLASSES] {
    let factors = marginal.and_then(|class| PRESSED_FACTORS.get(class)).unwrap_or(&RELAXED_FACTORS);
    let mut thresholds = factors.map(|factor| limit * factor);
    let ([critical, ..], [relative, ..], [hard, ..]) = (&mut thresholds, *factors, HARD_FACTORS);
    *critical = level * relative;
    if marginal != Some(0) {
        *critical = critical.max(cap * hard);
    }
    thresholds
}

/// Hard bounds in pool mode.
pub(super) fn pool_hard(limit: f64, queue: f64) -> [f64; CLASSES] {
    HARD.map(|depth| limit + queue * depth)
}

/// Hard bounds in latency mode.
pub(super) fn latency_hard(cap: f64) -> [f64; CLASSES] {
    HARD_FACTORS.map(|factor| cap * factor)
}

/// What keeps the lower classes from starving: each earns a small part of the capacity whatever the load.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Floor {
    credit: f64,
}

impl Floor {
    /// Earns for a tick; half a second's worth is kept, so that a class that was away cannot burst.
    pub(super) fn earn(&mut self, rate: f64, elapsed_s: f64) {
        self.credit = (self.credit + rate * elapsed_s).min((rate * 0.5).max(1.0));
    }

    /// Any admission of the class spends, so the floor is a least share and not an extra one.
    pub(super) fn spend(&mut self) {
        self.credit = (self.credit - 1.0).max(0.0);
    }

    /// A request that would be shed may still be let in.
    pub(super) fn affords(&self) -> bool {
        1.0 <= self.credit
    }
}
