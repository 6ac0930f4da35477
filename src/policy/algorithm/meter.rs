//! The bucket: how many tokens are missing, drained evenly.
//!
//! What is kept is the deficit, not the level. So an empty state is a full bucket, a higher burst helps at once, a
//! lower one counts what was used before, and the time until the deficit is gone is the time the state must live.
//!
//! The deficit is `used` whole tokens and `frac` of one, in units of which a token has `period_us` and of which
//! `rate.tokens` drain in a microsecond. Nothing is ever rounded, so nothing drifts.

use super::arithmetic::{NEVER_US, mul_div};
use crate::limit::Rate;

/// The deficit of a bucket at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// Whole tokens missing.
    pub used: u64,
    /// Units of the next one missing, below the rate's period.
    pub frac: u64,
    /// When that was so, microseconds.
    pub at_us: u64,
}

/// A deficit that is still allowed: whole tokens and units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) whole: u64,
    pub(crate) frac: u64,
}

// === impl Meter ===

impl Meter {
    /// The deficit now; whether it must be written even if nothing is charged, because time stepped back.
    ///
    /// Time that steps back drains nothing and starts counting again from where it is. A deficit beyond twice
    /// `size` (the limit was lowered) counts as twice `size`, so nobody is locked out for longer than two refills.
    /// Units that the rate has no room for (it was changed) round up to a token.
    pub(crate) fn load(self, rate: Rate, size: u64, now_us: u64) -> (Meter, bool) {
        let (used, frac) = if self.used >= 2 * size {
            (2 * size, 0)
        } else if self.frac >= rate.period_us {
            (self.used + 1, 0)
        } else {
            (self.used, self.frac)
        };
        if used == 0 && frac == 0 {
            return (Meter { used, frac, at_us: now_us }, false);
        }
        let elapsed_us = now_us.saturating_sub(self.at_us);
        let (drained, units) = mul_div(rate.tokens, elapsed_us, rate.period_us);
        let (used, frac) = if used < drained || (used == drained && frac <= units) {
            (0, 0)
        } else if frac < units {
            (used - drained - 1, frac + rate.period_us - units)
        } else {
            (used - drained, frac - units)
        };
        (Meter { used, frac, at_us: now_us }, now_us < self.at_us)
    }

    /// Whole tokens that can be taken without passing `most`.
    pub(crate) fn room(self, most: Level) -> u64 {
        most.whole.saturating_sub(self.used).saturating_sub(u64::from(most.frac < self.frac))
    }

    /// Time until the deficit is down to `level`, rounded up to a microsecond.
    pub(crate) fn drains_to_us(self, rate: Rate, level: Level) -> u64 {
        if self.used < level.whole || (self.used == level.whole && self.frac <= level.frac) {
            return 0;
        }
        let whole = self.used - level.whole;
        let (whole, units) = match level.frac <= self.frac {
            true => (whole, self.frac - level.frac),
            false => (whole - 1, self.frac + rate.period_us - level.frac),
        };
        let (us, rest) = mul_div(rate.period_us, whole, rate.tokens);
        us.saturating_add((rest + units).div_ceil(rate.tokens.max(1))).min(NEVER_US)
    }

    pub(crate) fn add(&mut self, n: u64) {
        self.used += n;
    }

    /// Whether there was anything to give back.
    pub(crate) fn refund(&mut self, n: u64) -> bool {
        let was_missing = 0 < n && (0 < self.used || 0 < self.frac);
        match self.used < n {
            true => (self.used, self.frac) = (0, 0),
            false => self.used -= n,
        }
        was_missing
    }
}
