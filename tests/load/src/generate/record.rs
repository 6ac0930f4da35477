//! What became of one attempt.

use sluicegate_policy::class::Class;

/// One attempt: a retry is an attempt of its own, booked to the time at which it was due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Record {
    /// Class of the request.
    pub(crate) class: Class,
    /// Who sent it.
    pub(crate) tenant: u16,
    /// 0 for the first attempt.
    pub(crate) attempt: u32,
    /// When it was due, microseconds from the start of the plan.
    pub(crate) due_us: u64,
    /// How much later the generator really began, microseconds: its own lag.
    pub(crate) lag_us: u64,
    /// When its outcome was known, microseconds from the start of the plan.
    pub(crate) done_us: u64,
    /// What came of it.
    pub(crate) outcome: Outcome,
}

/// How an attempt ended. Exactly one of these; an answer after the deadline is worth nothing, whatever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Answered in time by the upstream.
    Ok,
    /// Refused with 429.
    Quota,
    /// Refused with 503 by a gateway that protects its upstream.
    Saturation,
    /// Another 5xx, a reset, no connection.
    Failed,
    /// Not answered in time.
    DeadlineMissed,
}

// === impl Record ===

impl Record {
    /// From when it was due to when its outcome was known, microseconds.
    pub(crate) fn latency_us(&self) -> u64 {
        self.done_us.saturating_sub(self.due_us)
    }
}

// === impl Outcome ===

impl Outcome {
    /// Refused on purpose, before any work was done.
    pub(crate) fn is_refusal(self) -> bool {
        matches!(self, Outcome::Quota | Outcome::Saturation)
    }
}
