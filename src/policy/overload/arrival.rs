//! What saturation control is asked, and what it answers.

use crate::class::Class;
use crate::verdict::ShedReason;

/// A request at the gate.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Which upstream it is for: an index from [`Control::upstream`](super::control::Control::upstream).
    pub upstream: usize,
    /// Its class by rule or trusted header, before demotion of retries.
    pub class: Class,
    /// Fingerprint of the tenant, for fair sharing and user cohorts; 0 when unknown.
    pub tenant: u64,
    /// Weight of the tenant in fair sharing, 1 to 1,000.
    pub weight: u32,
    /// What is left of the time its caller will wait, microseconds; `None` when nobody said.
    pub remaining_us: Option<u64>,
    /// `x-envoy-attempt-count`; 1 when absent. Retries are demoted one class, critical ones never below high.
    pub attempt: u32,
    /// An upgrade, CONNECT, event stream or streaming gRPC: it may last for ever, so it is counted apart.
    pub streaming: bool,
    /// 64 uniform random bits, for jitter and enforcement by percentage.
    pub random: u64,
}

/// The answer to an [`Arrival`].
#[derive(Debug)]
pub enum Decision {
    /// Go on; give the ticket back when the request ends.
    Admit(Ticket),
    /// Refuse with 503.
    Shed(Shed),
    /// Shadow or outside the enforced percentage: go on, but count a `would_shed`.
    WouldShed(Ticket, Shed),
}

/// A refusal, with its answer in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shed {
    /// Why.
    pub reason: ShedReason,
    /// The class it was judged as, after demotion.
    pub class: Class,
    /// When to come back, seconds, at least 1, jittered.
    pub retry_after_s: u32,
}

/// A place in flight. It must come back through [`Control::done`](super::control::Control::done) exactly once,
/// whatever ended the request; it is neither `Clone` nor `Copy` for that reason.
#[derive(Debug)]
#[must_use = "a ticket that is not given back is a place lost for ever"]
pub struct Ticket {
    pub(super) upstream: usize,
    pub(super) class: Class,
    pub(super) started_us: u64,
    pub(super) kind: Kind,
}

impl Ticket {
    /// The class it was judged as, after demotion of retries.
    pub fn class(&self) -> Class {
        self.class
    }

    /// When it was handed out, microseconds.
    pub fn started_us(&self) -> u64 {
        self.started_us
    }
}

/// Which count a ticket is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// In flight, judged by the limit.
    Ordinary,
    /// In flight within the bound of exempt requests.
    Exempt,
    /// Long-lived, bounded by a count of its own.
    Streaming,
    /// Would have been shed: outside the virtual count that shadow judges by.
    Ghost,
}

/// How an admitted request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The upstream answered, whatever the answer, server errors excepted.
    Answered {
        /// When the response headers arrived, microseconds.
        headers_us: u64,
    },
    /// A server error, a reset or no connection: says nothing about the time service takes.
    Failed,
    /// The caller left or the route timed out before an answer: its time counts, it gives no answer.
    Abandoned,
    /// It never went upstream: quota refused it after saturation had let it through.
    Withdrawn,
}
