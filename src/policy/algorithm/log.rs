//! The sliding log: every admission of the last window, exactly.

use std::collections::VecDeque;

use crate::limit::SlidingLog;

/// Admissions, oldest first; those of one instant are one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    total: u64,
    /// (when, how many tokens); each counts for one window from then on.
    entries: VecDeque<(u64, u64)>,
}

// === impl Log ===

impl Log {
    /// Forgets what the window has left behind. Admissions of a time still to come (the clock stepped back) count
    /// as made now, so none lasts longer than one window.
    pub(crate) fn load(&mut self, log: &SlidingLog, now_us: u64) {
        let mut ahead = 0;
        while self.entries.back().is_some_and(|entry| now_us < entry.0) {
            ahead += self.entries.pop_back().map_or(0, |entry| entry.1);
        }
        if 0 < ahead {
            self.push(now_us, ahead);
        }
        while self.entries.front().is_some_and(|entry| entry.0 + log.per_us <= now_us) {
            self.total -= self.entries.pop_front().map_or(0, |entry| entry.1);
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Time until no more than `most` tokens count.
    pub(crate) fn falls_to_us(&self, log: &SlidingLog, most: u64, now_us: u64) -> u64 {
        let mut left = self.total;
        for (at_us, n) in &self.entries {
            if left <= most {
                break;
            }
            left -= n;
            if left <= most {
                return (at_us + log.per_us).saturating_sub(now_us);
            }
        }
        0
    }

    pub(crate) fn add(&mut self, n: u64, now_us: u64) {
        self.total += n;
        self.push(now_us, n);
    }

    /// Gives back the latest `n` tokens; whether there were any.
    pub(crate) fn refund(&mut self, n: u64) -> bool {
        let was_taken = 0 < n && 0 < self.total;
        let mut left = n;
        while let Some(last) = self.entries.back_mut() {
            let given = last.1.min(left);
            last.1 -= given;
            self.total -= given;
            left -= given;
            if 0 < last.1 {
                break;
            }
            self.entries.pop_back();
        }
        was_taken
    }

    fn push(&mut self, now_us: u64, n: u64) {
        match self.entries.back_mut() {
            Some(last) if last.0 == now_us => last.1 += n,
            _ => self.entries.push_back((now_us, n)),
        }
    }
}
