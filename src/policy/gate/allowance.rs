//! The bound on exempt requests.

/// So many requests a second, as many at once.
#[derive(Debug)]
pub(super) struct Allowance {
    rate: u64,
    /// Millionths of a request.
    left_e6: u64,
    at_us: u64,
}

// === impl Allowance ===

impl Allowance {
    pub(super) fn new(rate: u64, now_us: u64) -> Self {
        Allowance { rate, left_e6: rate.saturating_mul(1_000_000), at_us: now_us }
    }

    /// Whether one more is within the bound.
    pub(super) fn take(&mut self, now_us: u64) -> bool {
        // One request a second is one millionth of a request a microsecond.
        let passed_us = now_us.saturating_sub(self.at_us);
        let most_e6 = self.rate.saturating_mul(1_000_000);
        self.left_e6 = self.left_e6.saturating_add(passed_us.saturating_mul(self.rate)).min(most_e6);
        self.at_us = self.at_us.max(now_us);
        let left_e6 = self.left_e6.checked_sub(1_000_000);
        self.left_e6 = left_e6.unwrap_or(self.left_e6);
        left_e6.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holds_the_rate() {
        let mut allowance = Allowance::new(10, 0);
        assert_eq!((0..20).filter(|_| allowance.take(0)).count(), 10);
        assert!(!allowance.take(99_999));
        assert!(allowance.take(100_000));
        assert_eq!((0..100).filter(|_| allowance.take(60_000_000)).count(), 10);
    }
}
