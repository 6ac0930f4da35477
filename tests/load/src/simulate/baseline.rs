//! What ours is compared with.

use crate::system::{Answer, Asked, End, Place, System};

/// A rule that looks at no stats of its own.
pub trait Rule {
    /// Whether a request goes on.
    fn admits(&mut self, asked: &Asked, in_flight: u64, now_us: u64) -> bool;

    /// A request was answered after so long.
    fn answered(&mut self, _lasted_us: u64, _now_us: u64) {}

    /// A look at the queue, each period.
    fn look(&mut self, _queue: usize) {}
}

/// A rule, and the count of what it let in.
#[derive(Debug)]
pub struct Baseline<R> {
    rule: R,
    in_flight: u64,
}

/// Lets everything in.
#[derive(Debug)]
pub struct Nothing;

/// Envoy's circuit breaker: a bound on waiting requests, or on all where none can wait.
#[derive(Debug)]
pub struct Breaker {
    /// The bound.
    pub bound: usize,
    /// There is a bounded pool in which requests wait.
    pub pooled: bool,
}

/// On and off by the polled queue: closed above the bound, open again below half of it.
#[derive(Debug)]
pub struct Threshold {
    /// The bound.
    pub above: f64,
    /// Closed now.
    pub closed: bool,
}

/// Envoy's `adaptive_concurrency` as its documentation describes it: limit times gradient plus headroom.
#[derive(Debug)]
pub struct Gradient {
    limit: f64,
    limit_before: f64,
    samples: Vec<u64>,
    min_us: f64,
    window_end_us: u64,
    probing: bool,
    next_probe_us: u64,
}

const WINDOW_US: u64 = 100_000;
const PROBE_EVERY_US: u64 = 60_000_000;
const PROBE_SAMPLES: usize = 50;
const PROBE_LIMIT: f64 = 3.0;

impl<R> Baseline<R> {
    /// Nothing in flight.
    pub fn new(rule: R) -> Baseline<R> {
        Baseline { rule, in_flight: 0 }
    }
}

impl<R: Rule> System for Baseline<R> {
    fn ask(&mut self, asked: &Asked, now_us: u64) -> Answer {
        if !self.rule.admits(asked, self.in_flight, now_us) {
            return Answer::Shed { retry_after_s: 1 };
        }
        self.in_flight += 1;
        Answer::Admit(None)
    }

    fn ended(&mut self, _: usize, _: Option<Place>, end: End, lasted_us: u64, now_us: u64) {
        self.in_flight -= 1;
        if end == End::Answered {
            self.rule.answered(lasted_us, now_us);
        }
    }

    fn tickers(&self) -> usize {
        1
    }

    fn tick(&mut self, _: usize, queue: usize, _: u64) -> bool {
        self.rule.look(queue);
        false
    }

    fn polled(&mut self, _: usize, _: Option<&[u8]>, _: u64) {}

    fn kill_leader(&mut self, _: u64) {}

    fn in_flight(&self) -> u64 {
        self.in_flight
    }
}

impl Rule for Nothing {
    fn admits(&mut self, _: &Asked, _: u64, _: u64) -> bool {
        true
    }
}

impl Rule for Breaker {
    fn admits(&mut self, asked: &Asked, in_flight: u64, _: u64) -> bool {
        if self.pooled {
            !asked.would_wait || asked.pending < self.bound
        } else {
            in_flight < self.bound as u64
        }
    }
}

impl Rule for Threshold {
    fn admits(&mut self, _: &Asked, _: u64, _: u64) -> bool {
        !self.closed
    }

    fn look(&mut self, queue: usize) {
        let bound = if self.closed { self.above / 2.0 } else { self.above };
        self.closed = bound < queue as f64;
    }
}

impl Default for Gradient {
    fn default() -> Gradient {
        Gradient {
            limit: PROBE_LIMIT,
            limit_before: 100.0,
            samples: Vec::new(),
            min_us: 0.0,
            window_end_us: WINDOW_US,
            probing: true,
            next_probe_us: PROBE_EVERY_US,
        }
    }
}

impl Rule for Gradient {
    fn admits(&mut self, _: &Asked, in_flight: u64, now_us: u64) -> bool {
        if !self.probing && self.window_end_us <= now_us {
            self.close_window(now_us);
        }
        (in_flight as f64) < self.limit
    }

    fn answered(&mut self, lasted_us: u64, now_us: u64) {
        self.samples.push(lasted_us);
        if self.probing && PROBE_SAMPLES <= self.samples.len() {
            self.min_us = self.percentile90();
            self.probing = false;
            self.limit = self.limit_before;
            self.window_end_us = now_us + WINDOW_US;
        }
    }
}

impl Gradient {
    fn close_window(&mut self, now_us: u64) {
        self.window_end_us = now_us + WINDOW_US;
        if !self.samples.is_empty() {
            let sampled = self.percentile90().max(1.0);
            let gradient = (self.min_us * 1.25 / sampled).clamp(0.5, 2.0);
            let scaled = self.limit * gradient;
            self.limit = (scaled + scaled.sqrt()).clamp(PROBE_LIMIT, 1_000.0);
        }
        if self.next_probe_us <= now_us {
            self.next_probe_us = now_us + PROBE_EVERY_US;
            self.limit_before = self.limit;
            self.limit = PROBE_LIMIT;
            self.probing = true;
        }
    }

    fn percentile90(&mut self) -> f64 {
        let mut samples = std::mem::take(&mut self.samples);
        samples.sort_unstable();
        samples.get(samples.len() * 9 / 10).map_or(0.0, |value| *value as f64)
    }
}
