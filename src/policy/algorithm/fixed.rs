//! The fixed window: a count that ends with its window. Around a boundary it admits up to twice the limit.

use crate::limit::{Align, FixedWindow};

/// A count, and when it ends.
///
/// The end is kept, not the beginning: whether the count still holds can then be told without knowing how long the
/// window was when it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fixed {
    /// Tokens taken in this window.
    pub count: u64,
    /// When it ends, microseconds.
    pub end_us: u64,
}

// === impl Fixed ===

impl Fixed {
    /// The window in force now; whether it must be written even if nothing is charged.
    ///
    /// A window that ends later than any that could begin now comes from a clock that stepped back, or from a
    /// longer `per`: its count holds for one window from now, so it is neither forgotten nor kept for too long.
    pub(crate) fn load(self, window: &FixedWindow, now_us: u64) -> (Fixed, bool) {
        if self.count == 0 || self.end_us <= now_us {
            return (Fixed { count: 0, end_us: end_us(window, now_us) }, false);
        }
        if now_us + window.per_us < self.end_us {
            return (Fixed { count: self.count, end_us: now_us + window.per_us }, true);
        }
        (self, false)
    }

    pub(crate) fn left_us(self, now_us: u64) -> u64 {
        self.end_us.saturating_sub(now_us)
    }

    pub(crate) fn add(&mut self, n: u64) {
        self.count += n;
    }

    /// Whether there was anything to give back.
    pub(crate) fn refund(&mut self, n: u64) -> bool {
        let was_taken = 0 < n && 0 < self.count;
        self.count = self.count.saturating_sub(n);
        was_taken
    }
}

fn end_us(window: &FixedWindow, now_us: u64) -> u64 {
    match window.align {
        Align::Epoch => aligned_end_us(window.per_us, now_us),
        Align::FirstUse => now_us + window.per_us,
    }
}

/// The next multiple of `per_us` after now.
pub(crate) fn aligned_end_us(per_us: u64, now_us: u64) -> u64 {
    now_us - now_us % per_us.max(1) + per_us
}
