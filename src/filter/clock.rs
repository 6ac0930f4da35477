//! Time that never goes back.

/// Turns the system clock into one that never goes back: when the system clock is set back, time goes on from where
/// it was.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    last_us: u64,
    behind_us: u64,
}

impl Clock {
    /// The time for a reading of the system clock, microseconds.
    pub(crate) fn read(&mut self, system_us: u64) -> u64 {
        if system_us.saturating_add(self.behind_us) < self.last_us {
            self.behind_us = self.last_us.saturating_sub(system_us);
        }
        self.last_us = system_us.saturating_add(self.behind_us);
        self.last_us
    }
}
