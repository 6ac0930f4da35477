//! When to ask Envoy's admin endpoint, which works on the main thread and must not be kept from its own work.

/// Failed polls in a row after which stats count as lost.
const LOST: u32 = 3;
/// A poll slower than this makes the poller take longer pauses, microseconds.
const SLOW_US: u64 = 10_000;
const PAUSE_MAX_US: u64 = 2_000_000;

/// A GET to Envoy's admin endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poll {
    /// Envoy cluster to send it to.
    pub cluster: Box<str>,
    /// `:path`, with an anchored and encoded filter.
    pub path: Box<str>,
    /// Timeout of the callout, microseconds.
    pub timeout_us: u64,
}

/// Whether stats can be had has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Lost,
    Found,
}

/// Never two polls at once; each tick while all is well, less often when the answers are slow or fail.
#[derive(Debug, Default)]
pub(super) struct Poller {
    sent_us: Option<u64>,
    last_sent_us: u64,
    pause_us: u64,
    failures: u32,
    lost: bool,
    change: Option<Change>,
}

impl Poller {
    /// Whether to poll now. A poll that was never answered is given up after twice its timeout.
    pub(super) fn due(&mut self, now_us: u64, timeout_us: u64) -> bool {
        let waiting = self.sent_us.is_some_and(|sent_us| now_us.abs_diff(sent_us) < 2 * timeout_us);
        if waiting || now_us.abs_diff(self.last_sent_us) < self.pause_us {
            return false;
        }
        self.sent_us = Some(now_us);
        self.last_sent_us = now_us;
        true
    }

    /// An answer that could be read, or none.
    pub(super) fn answered(&mut self, found: bool, tick_us: u64, now_us: u64) {
        let took_us = self.sent_us.take().map_or(0, |sent_us| now_us.saturating_sub(sent_us));
        if found {
            self.failures = 0;
            self.pause_us = if SLOW_US < took_us { (10 * took_us).min(PAUSE_MAX_US) } else { 0 };
            if std::mem::take(&mut self.lost) {
                self.change = Some(Change::Found);
            }
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if LOST <= self.failures {
            self.pause_us = (self.pause_us.max(tick_us) * 2).min(PAUSE_MAX_US);
            if !std::mem::replace(&mut self.lost, true) {
                self.change = Some(Change::Lost);
            }
        }
    }

    /// What has changed since this was last asked.
    pub(super) fn change(&mut self) -> Option<Change> {
        self.change.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK_US: u64 = 100_000;

    #[test]
    fn a_slow_endpoint_is_asked_less_often() {
        let mut poller = Poller::default();
        assert!(poller.due(1_000_000, TICK_US));
        assert!(!poller.due(1_100_000, TICK_US), "one at a time");
        poller.answered(true, TICK_US, 1_050_000);
        assert!(!poller.due(1_400_000, TICK_US), "50 ms of work each 500 ms");
        assert!(poller.due(1_500_000, TICK_US));
    }

    #[test]
    fn failures_are_told_once_and_slow_the_poller_down() {
        let mut poller = Poller::default();
        let mut now_us = 0;
        let mut polls = 0;
        let mut changes = Vec::new();
        while now_us < 20_000_000 {
            if poller.due(now_us, TICK_US) {
                polls += 1;
                poller.answered(false, TICK_US, now_us + 1_000);
            }
            changes.extend(poller.change());
            now_us += TICK_US;
        }
        assert_eq!(changes, [Change::Lost]);
        assert!((10..20).contains(&polls), "{polls}");
        poller.answered(true, TICK_US, now_us);
        assert_eq!(poller.change(), Some(Change::Found));
        assert!(poller.due(now_us, TICK_US));
    }
}
