//! What is remembered of one request.

use crate::class::Class;
use crate::gate::hit::Hit;
use crate::overload::arrival::Ticket;
use crate::request::Request;
use crate::response::Dialect;

/// A request between its beginning and its end.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) class: Class,
    pub(super) phase: Phase,
    /// When its caller stops waiting, microseconds.
    pub(super) deadline_us: Option<u64>,
    pub(super) dialect: Dialect,
    /// Its place in flight.
    pub(super) ticket: Option<Ticket>,
    /// The limits it met.
    pub(super) hits: Vec<Hit>,
    /// One of them charges or gives back after the response.
    pub(super) has_aftermath: bool,
    pub(super) random: u64,
    /// The response, once its headers are there: status and time.
    pub(super) answered: Option<(u16, u64)>,
}

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its take is on its way.
    Waiting,
    /// It waits its turn in a leaky bucket.
    Delayed {
        /// Microseconds.
        until_us: u64,
    },
    /// It went on.
    Admitted,
}

// === impl Stream ===

impl Stream {
    /// A request that met nothing yet.
    pub(super) fn new(class: Class, random: u64) -> Self {
        Stream {
            class,
            phase: Phase::Waiting,
            deadline_us: None,
            dialect: Dialect::default(),
            ticket: None,
            hits: Vec::new(),
            has_aftermath: false,
            random,
            answered: None,
        }
    }

    /// Becomes a request that met nothing yet; the list keeps its memory.
    pub(super) fn restart(&mut self, class: Class, random: u64) {
        let mut hits = std::mem::take(&mut self.hits);
        hits.clear();
        *self = Stream { hits, ..Stream::new(class, random) };
    }

    /// The time, where it matters: when something is measured, charged or given back as the request is answered or
    /// ends. Each look at the clock is a host call.
    pub(super) fn time(&self, clock: impl FnOnce() -> u64) -> u64 {
        if self.is_timed() { clock() } else { 0 }
    }

    fn is_timed(&self) -> bool {
        let is_plain = self.ticket.is_none() && self.deadline_us.is_none() && self.phase == Phase::Admitted;
        !is_plain || self.has_aftermath
    }

    /// Notes what an answer to the request has to know: later its headers may be gone.
    pub(super) fn hear(&mut self, request: &dyn Request) {
        let content_type = request.header("content-type");
        // As Envoy tells gRPC: `application/grpc-web` is another thing.
        let grpc = content_type.as_deref().and_then(|value| value.strip_prefix(b"application/grpc"));
        self.dialect.grpc =
            grpc.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"+") || rest.starts_with(b";"));
    }

    /// Names the slots that the request takes, below 2^53.
    pub(super) fn slot(&self) -> u64 {
        self.random >> 11
    }
}
