//! The sliding window: this window's count, and the part of the one before that still overlaps.
//!
//! It takes the previous window's requests as spread evenly, so it is off by up to what was bunched there: measured with
//! a limit of 100, it admits at most 15 % above the limit when requests come at random, 80 % when they come in bursts,
//! and never more than N + N x time / per. The exact log next door has no error, but remembers each request. Since the last request is remembered, none counts for longer than
//! the window: who waits for that long passes, whatever was bunched where.

use super::arithmetic::mul_div;
use super::fixed::aligned_end_us;
use crate::limit::SlidingWindow;

/// Counts of two windows, and when the later one ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sliding {
    /// Tokens taken in the window before.
    pub before: u64,
    /// Tokens taken in this window.
    pub count: u64,
    /// When it ends, microseconds.
    pub end_us: u64,
    /// When tokens were taken last: a window later nothing counts any more.
    pub last_us: u64,
}

// === impl Sliding ===

impl Sliding {
    /// The windows in force now; whether they must be written even if nothing is charged.
    ///
    /// After a step back, or with a shorter `per`, the later window begins now, and what was taken last was taken now:
    /// see the fixed window.
    pub(crate) fn load(self, window: &SlidingWindow, now_us: u64) -> (Sliding, bool) {
        let empty = self.count == 0 && self.before == 0;
        if empty || self.last_us + window.per_us <= now_us {
            let end_us = aligned_end_us(window.per_us, now_us);
            return (Sliding { before: 0, count: 0, end_us, last_us: now_us }, false);
        }
        if self.end_us <= now_us {
            let end_us = self.end_us + window.per_us;
            return (Sliding { before: self.count, count: 0, end_us, ..self }, false);
        }
        let (end_us, last_us) = (self.end_us.min(now_us + window.per_us), self.last_us.min(now_us));
        let moved = Sliding { end_us, last_us, ..self };
        (moved, moved != self)
    }

    /// Tokens that count now: those of this window, and those of the one before by the part that overlaps, rounded up.
    pub(crate) fn used(self, window: &SlidingWindow, now_us: u64) -> u64 {
        let overlap_us = self.end_us.saturating_sub(now_us);
        let (whole, rest) = mul_div(self.before, overlap_us, window.per_us);
        self.count + whole + u64::from(0 < rest)
    }

    /// Time until no more than `most` tokens count.
    pub(crate) fn falls_to_us(self, window: &SlidingWindow, most: u64, now_us: u64) -> u64 {
        if self.used(window, now_us) <= most {
            return 0;
        }
        // The overlap may be as long as keeps `before * overlap / per` at `most - count`.
        let until_us = |before: u64, count: u64, end_us: u64| {
            let (overlap_us, _) = mul_div(window.per_us, most - count, before);
            end_us.saturating_sub(overlap_us).saturating_sub(now_us)
        };
        let weighted_us = match self.count <= most {
            true => until_us(self.before, self.count, self.end_us),
            false => until_us(self.count, 0, self.end_us + window.per_us),
        };
        weighted_us.min(self.left_us(window, now_us))
    }

    /// Time until nothing counts any more.
    pub(crate) fn clears_us(self, window: &SlidingWindow, now_us: u64) -> u64 {
        match (self.before, self.count) {
            (0, 0) => 0,
            (_, 0) => self.left_us(window, now_us).min(self.end_us.saturating_sub(now_us)),
            _ => self.left_us(window, now_us),
        }
    }

    pub(crate) fn add(&mut self, n: u64, now_us: u64) {
        self.count += n;
        self.last_us = now_us;
    }

    /// Whether there was anything to give back.
    pub(crate) fn refund(&mut self, n: u64) -> bool {
        let was_taken = 0 < n && 0 < self.count;
        self.count = self.count.saturating_sub(n);
        was_taken
    }

    /// Time until what was taken last is over.
    fn left_us(self, window: &SlidingWindow, now_us: u64) -> u64 {
        (self.last_us + window.per_us).saturating_sub(now_us)
    }
}
