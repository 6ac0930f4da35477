//! The base: the time to response headers without a queue.

use super::sample::Sample;
use crate::overload::average::Average;

/// Answers without delay that the base remembers.
const MEMORY: f64 = 1_000.0;
/// A base from so many answers without delay is sure.
const CONFIRMED_BY: f64 = 200.0;
/// It is learnt from so many answers at a time, or from what came in so many seconds.
const LESSON_ANSWERS: f64 = 200.0;
const LESSON_S: f64 = 2.0;
const LESSON_LEAST: f64 = 20.0;
/// What takes longer than the base by this part of the target delay is no lesson about the base.
const FLAT: f64 = 0.75;

/// The base and how sure it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Base {
    us: Average,
    confirmed: bool,
    /// Answers without delay.
    flat: f64,
    lesson: Sample,
}

impl Base {
    /// A base that an earlier leader knew, 0 when it did not.
    pub(super) fn new(us: f64) -> Base {
        let us = if 0.0 < us { Average::from_value(us) } else { Average::default() };
        Base { us, ..Base::default() }
    }

    /// Microseconds; `None` before the first answers.
    pub(super) fn known_us(&self) -> Option<f64> {
        self.us.known()
    }

    /// Microseconds, 0 when unknown.
    pub(super) fn us(&self) -> f64 {
        self.us.value()
    }

    /// Nothing speaks against it.
    pub(super) fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// The first answers: better than nothing.
    pub(super) fn guess(&mut self, mean_us: f64) {
        self.us.add(mean_us, 1.0);
    }

    /// Learns from requests that nothing delayed, and from those that were answered sooner than can be.
    pub(super) fn learn(&mut self, window: &Sample, target_us: f64) {
        self.lesson.merge(window);
        let Sample { answered, elapsed_s, blocked, .. } = self.lesson;
        if answered < LESSON_ANSWERS && (elapsed_s < LESSON_S || answered < LESSON_LEAST) {
            return;
        }
        let mean_us = self.lesson.mean_us();
        self.lesson = Sample::default();
        let is_flat = mean_us - self.us() < FLAT * target_us || self.flat < CONFIRMED_BY;
        if !blocked && is_flat {
            // A mean of all that was seen so far, then a running one.
            self.flat += answered;
            self.us.add(mean_us, answered / self.flat.min(MEMORY).max(answered));
            self.confirmed |= CONFIRMED_BY <= self.flat;
        } else if mean_us < 0.9 * self.us() {
            // There is no time shorter than without a queue.
            self.us.add(mean_us, 0.5);
        }
    }

    /// A dip has shown it.
    pub(super) fn confirm(&mut self, mean_us: f64) {
        self.us = Average::from_value(mean_us);
        self.confirmed = true;
    }

    /// A dip has shown that it is no longer than this.
    pub(super) fn shorten(&mut self, mean_us: f64) {
        self.us = Average::from_value(mean_us.min(self.us()));
        self.confirmed = false;
    }

    /// The upstream seems to have become slower by this factor.
    pub(super) fn lengthen(&mut self, factor: f64) {
        self.us = Average::from_value(self.us() * factor);
        self.confirmed = false;
        self.flat = 0.0;
    }

    /// Takes an earlier leader's word for it.
    pub(super) fn trust(&mut self) {
        self.confirmed = true;
    }
}
