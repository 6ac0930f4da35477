//! Stops asking a shim that does not answer, and tries again with one request.

/// A circuit breaker over callouts.
#[derive(Debug)]
pub struct Breaker {
    failures_max: u32,
    open_us: u64,
    state: State,
}

/// What the breaker is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Callouts go out; so many failed in a row.
    Closed {
        /// Failures since the last success.
        failures: u32,
    },
    /// No callout before this time.
    Open {
        /// Microseconds.
        until_us: u64,
    },
    /// One request has been let through to try. Should its answer be lost, another may try after this time.
    HalfOpen {
        /// Microseconds.
        until_us: u64,
    },
}

/// A change that is worth a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Callouts have stopped.
    Opened,
    /// Callouts go out again.
    Closed,
}

// === impl Breaker ===

impl Breaker {
    /// A closed breaker that opens for `open_us` after `failures_max` failures in a row.
    pub fn new(failures_max: u32, open_us: u64) -> Self {
        Breaker { failures_max, open_us, state: State::Closed { failures: 0 } }
    }

    /// Whether a request may ask the shim. After the open time the first caller becomes the probe.
    pub fn admit(&mut self, now_us: u64) -> bool {
        match self.state {
            State::Closed { .. } => true,
            // ## (Open | HalfOpen) => HalfOpen
            State::Open { until_us } | State::HalfOpen { until_us } if now_us >= until_us => {
                self.state = State::HalfOpen { until_us: now_us.saturating_add(self.open_us) };
                true
            }
            State::Open { .. } | State::HalfOpen { .. } => false,
        }
    }

    /// A callout was answered well.
    pub fn succeed(&mut self) -> Option<Change> {
        let was_closed = matches!(self.state, State::Closed { .. });
        self.state = State::Closed { failures: 0 };
        (!was_closed).then_some(Change::Closed)
    }

    /// A callout failed.
    pub fn fail(&mut self, now_us: u64) -> Option<Change> {
        match self.state {
            State::Closed { failures } if failures + 1 < self.failures_max => {
                self.state = State::Closed { failures: failures + 1 };
                None
            }
            State::Closed { .. } => {
                self.state = State::Open { until_us: now_us.saturating_add(self.open_us) };
                Some(Change::Opened)
            }
            // Still down: it has been reported already.
            State::HalfOpen { .. } => {
                self.state = State::Open { until_us: now_us.saturating_add(self.open_us) };
                None
            }
            // The answer of a batch that left before the breaker opened.
            State::Open { .. } => None,
        }
    }

    /// What the breaker is doing.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether callouts are stopped, for the gauge.
    pub fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_after_failures_in_a_row() {
        let mut breaker = Breaker::new(3, 1_000);
        assert_eq!(breaker.fail(0), None);
        assert_eq!(breaker.fail(0), None);
        assert_eq!(breaker.succeed(), None);
        assert_eq!(breaker.fail(0), None);
        assert_eq!(breaker.fail(0), None);
        assert!(breaker.admit(0));
        assert_eq!(breaker.fail(10), Some(Change::Opened));
        assert!(!breaker.admit(1_009));
    }

    #[test]
    fn one_request_tries_again() {
        let mut breaker = Breaker::new(1, 1_000);
        assert_eq!(breaker.fail(0), Some(Change::Opened));
        assert!(breaker.admit(1_000), "the probe");
        assert!(!breaker.admit(1_000), "everybody else");
        assert_eq!(breaker.fail(1_050), None, "still down is no news");
        assert!(!breaker.admit(2_049));
        assert!(breaker.admit(2_050));
        assert_eq!(breaker.succeed(), Some(Change::Closed));
        assert!(breaker.admit(2_051));
    }

    #[test]
    fn a_lost_probe_does_not_keep_it_open_for_ever() {
        let mut breaker = Breaker::new(1, 1_000);
        breaker.fail(0);
        assert!(breaker.admit(1_000));
        assert!(!breaker.admit(1_999));
        assert!(breaker.admit(2_000));
    }

    #[test]
    fn late_failures_do_not_prolong_it() {
        let mut breaker = Breaker::new(1, 1_000);
        breaker.fail(0);
        assert_eq!(breaker.fail(900), None);
        assert_eq!(breaker.state(), State::Open { until_us: 1_000 });
    }
}
