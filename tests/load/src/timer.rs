//! A timer finer than the millisecond of tokio's wheel.
//!
//! One thread sleeps until the earliest deadline on a condition variable, whose resolution is that of the kernel
//! (about 60 us). At 20 ms of service a millisecond of rounding would cost 5 % of capacity, and as much truth.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::oneshot;

/// Wakes tasks at instants. The thread lives as long as the process.
#[derive(Clone, Debug)]
pub(crate) struct Timer {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    sleepers: Mutex<BinaryHeap<Reverse<Sleeper>>>,
    earlier: Condvar,
}

#[derive(Debug)]
struct Sleeper {
    at: Instant,
    wake: oneshot::Sender<()>,
}

// === impl Timer ===

impl Timer {
    /// Starts the thread.
    pub(crate) fn start() -> std::io::Result<Timer> {
        let shared = Arc::<Shared>::default();
        let thread = std::thread::Builder::new().name("timer".into());
        let theirs = Arc::clone(&shared);
        thread.spawn(move || theirs.wake_all_in_time())?;
        Ok(Timer { shared })
    }

    /// Waits until `at`; returns at once when it is past.
    pub(crate) async fn sleep_until(&self, at: Instant) {
        if at <= Instant::now() {
            return;
        }
        let (wake, woken) = oneshot::channel();
        self.shared.add(Sleeper { at, wake });
        // The sender is dropped only with the process.
        let _ = woken.await;
    }
}

// === impl Shared ===

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BinaryHeap<Reverse<Sleeper>>> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, sleeper: Sleeper) {
        let mut sleepers = self.lock();
        let is_first = sleepers.peek().is_none_or(|Reverse(first)| sleeper < *first);
        sleepers.push(Reverse(sleeper));
        drop(sleepers);
        if is_first {
            self.earlier.notify_one();
        }
    }

    fn wake_all_in_time(&self) {
        let mut sleepers = self.lock();
        loop {
            let now = Instant::now();
            while sleepers.peek().is_some_and(|Reverse(first)| first.at <= now) {
                if let Some(Reverse(sleeper)) = sleepers.pop() {
                    // A sleeper that gave up is no fault.
                    let _ = sleeper.wake.send(());
                }
            }
            let next = sleepers.peek().map(|Reverse(first)| first.at);
            sleepers = match next {
                Some(at) => {
                    let pause = at.saturating_duration_since(now);
                    self.earlier.wait_timeout(sleepers, pause).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.earlier.wait(sleepers).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

// === impl Sleeper ===

impl PartialEq for Sleeper {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Sleeper {}

impl PartialOrd for Sleeper {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Sleeper {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.cmp(&other.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn sleepers_wake_in_the_order_of_their_deadlines_and_not_before() {
        let timer = Timer::start().unwrap();
        let start = Instant::now();
        let (sender, mut woken) = tokio::sync::mpsc::unbounded_channel();
        for ms in [30_u64, 10, 20] {
            let (timer, sender) = (timer.clone(), sender.clone());
            tokio::spawn(async move {
                timer.sleep_until(start + Duration::from_millis(ms)).await;
                sender.send((ms, start.elapsed())).unwrap();
            });
        }
        for expected in [10, 20, 30] {
            let (ms, after) = woken.recv().await.unwrap();
            assert_eq!(ms, expected);
            assert!(after >= Duration::from_millis(ms));
        }
    }
}
