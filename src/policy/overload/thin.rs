//! Feed-forward thinning: which share of each class fits, from demand and capacity alone.
//!
//! Thresholds on requests in flight order the classes, but only as sharply as a short queue can. The leader also knows
//! the demand of each class and the capacity, so it can say which share of a class will fit once all higher ones are
//! served. A request outside that share is still let in when the upstream is not full: nothing is wasted when the
//! figures are old.

use super::average::{Average, gain};
use super::record::CLASSES;

/// How much more than the capacity is selected: too little starves the upstream, too much blurs the classes.
const SLACK: f64 = 1.1;
/// Time constant of the total, seconds: how soon a fall or rise of load is believed.
const TOTAL_S: f64 = 0.25;
/// What is left of the average when the last two ticks were below it, over the larger of them.
const FALL: f64 = 1.25;
/// Time constant of the classes' parts, seconds: a small class needs longer to be counted.
const PART_S: f64 = 1.0;

/// Requests that may have got in without being selected.
const DEBT_MAX: f64 = 16.0;

/// Demand by class, smoothed.
#[derive(Clone, Debug, Default)]
pub(super) struct Demand {
    total: Average,
    before: f64,
    parts: [Average; CLASSES],
}

impl Demand {
    pub(super) fn update(&mut self, offered: &[f64; CLASSES], elapsed_s: f64) {
        let total: f64 = offered.iter().sum();
        self.total.add(total, gain(elapsed_s, TOTAL_S));
        // Two low ticks in a row are no accident: a fall is believed at once, so that nobody is refused for a storm
        // that is over.
        let most = FALL * total.max(self.before);
        if most < self.total.value() {
            self.total = Average::from_value(most);
        }
        self.before = total;
        for (part, rate) in self.parts.iter_mut().zip(offered) {
            part.add(*rate, gain(elapsed_s, PART_S));
        }
    }

    /// Requests offered a second, all classes.
    pub(super) fn total(&self) -> f64 {
        self.total.value()
    }

    /// Requests offered a second by class: the slow parts scaled to the quick total.
    pub(super) fn by_class(&self) -> [f64; CLASSES] {
        let slow: f64 = self.parts.iter().map(Average::value).sum();
        let scale = if 0.0 < slow { self.total() / slow } else { 0.0 };
        std::array::from_fn(|class| self.parts.get(class).map_or(0.0, Average::value) * scale)
    }
}

/// Which share of each class fits, most important first.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Thinning {
    /// 0 to 1.
    pub(super) select: [f64; CLASSES],
    /// Requests a second really left for a class by those above it.
    pub(super) room: [f64; CLASSES],
    /// The first class that does not fit whole.
    pub(super) marginal: Option<usize>,
}

/// Splits the capacity; an unknown capacity (0) selects everything.
pub(super) fn thin(offered: &[f64; CLASSES], capacity: f64) -> Thinning {
    let mut thinning = Thinning { select: [1.0; CLASSES], room: [f64::MAX; CLASSES], marginal: None };
    if capacity <= 0.0 {
        return thinning;
    }
    let mut above = 0.0;
    for (class, ((select, left), rate)) in
        thinning.select.iter_mut().zip(&mut thinning.room).zip(offered).enumerate()
    {
        *left = (capacity - above).max(0.0);
        let room = (capacity * SLACK - above).max(0.0);
        if room < *rate {
            *select = room / rate;
            thinning.marginal.get_or_insert(class);
        } else if thinning.marginal.is_some() && room <= 0.0 {
            *select = 0.0;
        }
        above += rate;
    }
    thinning
}

/// Turns a share into a decision for each request, without randomness: of n requests, share times n are selected.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Selector {
    credit: f64,
}

impl Selector {
    pub(super) fn select(&mut self, share: f64) -> bool {
        self.credit = (self.credit + share).min(2.0);
        let selected = 1.0 <= self.credit;
        if selected {
            self.credit -= 1.0;
        }
        selected
    }

    /// A request that was not selected got in all the same: it counts against the next ones.
    pub(super) fn charge(&mut self) {
        self.credit = (self.credit - 1.0).max(-DEBT_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marginal_class_gets_what_is_left() {
        let thinning = thin(&[400.0, 800.0, 1_600.0, 800.0, 400.0], 800.0);
        assert_eq!(thinning.marginal, Some(1));
        assert_eq!(thinning.select.map(|share| (share * 100.0).round()), [100.0, 60.0, 0.0, 0.0, 0.0]);
        assert_eq!(thin(&[1.0; CLASSES], 0.0).marginal, None);
        assert_eq!(thin(&[10.0; CLASSES], 800.0).select, [1.0; CLASSES]);
    }

    #[test]
    fn a_share_of_requests_is_selected() {
        let mut selector = Selector::default();
        let selected = (0..1_000).filter(|_| selector.select(0.3)).count();
        assert!((299..=301).contains(&selected));
    }
}
