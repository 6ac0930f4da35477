//! How long to wait before the next attempt to connect.

use std::time::Duration;

/// The first wait.
const FIRST: Duration = Duration::from_millis(25);

/// The longest wait: what an outage lasts beyond its end.
const LONGEST: Duration = Duration::from_millis(800);

/// Waits that double, each shortened by a random share of up to a half, so that many shims do not come at once.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Backoff {
        Backoff { next: FIRST }
    }

    /// The next wait; `random` is in 0..1.
    pub(crate) fn next(&mut self, random: f64) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(LONGEST);
        wait.mul_f64(1.0 - random.clamp(0.0, 1.0) / 2.0)
    }

    /// After a success that lasted.
    pub(crate) fn reset(&mut self) {
        self.next = FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_to_its_bound_and_starts_again() {
        let mut backoff = Backoff::new();
        let waits: Vec<u128> = (0..8).map(|_| backoff.next(0.0).as_millis()).collect();
        assert_eq!(waits, [25, 50, 100, 200, 400, 800, 800, 800]);
        assert_eq!(backoff.next(1.0).as_millis(), 400);
        backoff.reset();
        assert_eq!(backoff.next(0.0).as_millis(), 25);
    }
}
