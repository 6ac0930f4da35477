//! Gathers takes into batches: one callout decides for all that wait.
//!
//! A take that finds no callout outstanding leaves at once; while `in_flight_max` are out, those that arrive form
//! the next batch, which leaves when an answer comes. So at idle nobody waits for company, and at load one callout
//! decides for dozens of requests.
//!
//! Nothing here does I/O: [`Batcher::next`] writes a body and somebody else sends it. Each take has a deadline of
//! its own, which [`Batcher::expired`] enforces, since a callout's timeout alone does not always end it.

mod answer;
mod encode;

pub use answer::Malformed;

use std::collections::VecDeque;

use crate::batch::encode::Encoder;
use crate::digest::WireKey;
use crate::policy::Shim;
use crate::verdict::Standing;
use crate::wire;

/// Charges and releases that may wait for a batch; beyond, the oldest are dropped: a dropped charge favours the
/// client, a dropped release comes back by the slot's expiry.
pub const NOTES_MAX: usize = 4_096;

/// Takes on their way to the shim and back.
#[derive(Debug)]
pub struct Batcher {
    batch_max: usize,
    waiting_max: usize,
    in_flight_max: usize,
    timeout_us: u64,
    encoder: Encoder,
    /// Not sent yet, in order of arrival.
    waiting: VecDeque<Take>,
    notes: VecDeque<Note>,
    in_flight: Vec<Batch>,
    next_id: u64,
}

/// Names a batch that is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchId(u64);

/// One atomic ask.
#[derive(Clone, Debug)]
pub struct Take {
    /// Who wants to know.
    pub purpose: Purpose,
    /// At least one.
    pub asks: Vec<Ask>,
    /// Names the slot of concurrency limits.
    pub slot: Option<u64>,
    /// When the stream stops waiting, microseconds.
    pub deadline_us: u64,
}

/// Why a take is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The request of this stream waits for it.
    Request(u32),
    /// A lease is filled up before it is empty.
    Refill,
    /// A limit in shadow mode is counted.
    Shadow,
}

/// What a take asks of one limit.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Names the limit and its numbers: what was given to [`Batcher::define`].
    pub variant: usize,
    /// Index into the policy's limits.
    pub limit: usize,
    /// Whom it counts.
    pub key: WireKey,
    /// The same key, for the maps of this worker.
    pub local_key: u128,
    /// Tokens; 0 only looks.
    pub cost: u64,
    /// Tokens that suffice.
    pub at_least: u64,
    /// For a block: tokens of it that are for the request itself; the rest is for a lease.
    pub own: Option<u64>,
}

/// What the shim is told without an answer being awaited.
#[derive(Clone, Copy, Debug)]
pub enum Note {
    /// Tokens to charge without condition.
    Charge {
        /// As in [`Ask`].
        variant: usize,
        /// Whom.
        key: WireKey,
        /// Tokens.
        amount: u64,
    },
    /// A slot to give back.
    Release {
        /// As in [`Ask`].
        variant: usize,
        /// Whose.
        key: WireKey,
        /// Which.
        slot: u64,
    },
}

/// A batch that came back.
#[derive(Debug)]
pub struct Answered {
    /// In the order they were sent.
    pub takes: Vec<(Take, Option<Vec<Standing>>)>,
    /// Why there are no standings at all; `None` when the answer was well-formed.
    pub failure: Option<Malformed>,
    /// From sending to answer, microseconds.
    pub latency_us: u64,
}

#[derive(Debug)]
struct Batch {
    id: BatchId,
    takes: Vec<Take>,
    /// To be sent again when the batch fails: giving a slot back twice does no harm.
    releases: Vec<Note>,
    sent_us: u64,
}

/// There is no room for another waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

// === impl Take ===

impl Take {
    /// One that no request waits for.
    pub fn aside(purpose: Purpose, ask: Ask, slot: Option<u64>) -> Self {
        Take { purpose, asks: vec![ask], slot, deadline_us: u64::MAX }
    }
}

// === impl Batcher ===

impl Batcher {
    /// A batcher with the bounds of this configuration.
    pub fn new(namespace: &str, shim: &Shim) -> Self {
        Batcher {
            batch_max: shim.batch_max.min(wire::TAKES_MAX),
            waiting_max: shim.waiting_max,
            in_flight_max: shim.in_flight_max,
            timeout_us: shim.timeout_us,
            encoder: Encoder::new(namespace),
            waiting: VecDeque::new(),
            notes: VecDeque::new(),
            in_flight: Vec::new(),
            next_id: 0,
        }
    }

    /// Makes the numbers of a limit known under an index: asks name it from now on.
    pub fn define(&mut self, variant: usize, fragment: &wire::WireLimit) {
        self.encoder.define(variant, fragment);
    }

    /// Adds a take to the next batch.
    pub fn push(&mut self, take: Take) -> Result<(), Full> {
        if self.waiting.len() >= self.waiting_max {
            return Err(Full);
        }
        self.waiting.push_back(take);
        Ok(())
    }

    /// Adds a note to the next batch.
    pub fn note(&mut self, note: Note) {
        if self.notes.len() >= NOTES_MAX {
            self.notes.pop_front();
        }
        self.notes.push_back(note);
    }

    /// Whether takes wait to be sent.
    pub fn has_takes(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether [`Batcher::next`] would write a body now.
    pub fn is_ready(&self) -> bool {
        self.in_flight.len() < self.in_flight_max && !(self.waiting.is_empty() && self.notes.is_empty())
    }

    /// Writes the next batch's body, if one may leave. `waits` tells whether a stream still waits: takes of those
    /// that left are dropped before they charge anybody.
    pub fn next(&mut self, waits: impl Fn(u32) -> bool, body: &mut Vec<u8>, now_us: u64) -> Option<BatchId> {
        if !self.is_ready() {
            return None;
        }
        self.encoder.begin(body);
        let mut takes = Vec::with_capacity(self.waiting.len().min(self.batch_max));
        while takes.len() < self.batch_max {
            let Some(take) = self.waiting.pop_front() else { break };
            if matches!(take.purpose, Purpose::Request(stream) if !waits(stream)) {
                continue;
            }
            if !self.encoder.has_room(body, take.asks.len()) {
                self.waiting.push_front(take);
                break;
            }
            self.encoder.take(body, &take);
            takes.push(take);
        }
        let mut notes = 0;
        self.encoder.charges(body);
        notes += self.notes.iter().filter(|note| self.encoder.charge(body, note)).count();
        self.encoder.releases(body);
        notes += self.notes.iter().filter(|note| self.encoder.release(body, note)).count();
        let releases = self.notes.drain(..).filter(|note| matches!(note, Note::Release { .. })).collect();
        if takes.is_empty() && notes == 0 {
            return None;
        }
        self.encoder.end(body);
        let id = BatchId(self.next_id);
        self.next_id += 1;
        self.in_flight.push(Batch { id, takes, releases, sent_us: now_us });
        Some(id)
    }

    /// The answer of a batch: the body of a good response, or `None` for any failure of the callout.
    ///
    /// `None` when the batch is not on its way (any more).
    pub fn answer(&mut self, id: BatchId, body: Option<&[u8]>, now_us: u64) -> Option<Answered> {
        let place = self.in_flight.iter().position(|batch| batch.id == id)?;
        let batch = self.in_flight.swap_remove(place);
        let asks = || batch.takes.iter().map(|take| take.asks.as_slice());
        let verdicts = match body {
            Some(body) => answer::parse(body, asks()),
            None => Err(Malformed::NoAnswer),
        };
        let (verdicts, failure) = match verdicts {
            Ok(verdicts) => (verdicts, None),
            Err(failure) => {
                batch.releases.into_iter().for_each(|release| self.note(release));
                (Vec::new(), Some(failure))
            }
        };
        let verdicts = verdicts.into_iter().chain(std::iter::repeat(None));
        Some(Answered {
            takes: batch.takes.into_iter().zip(verdicts).collect(),
            failure,
            latency_us: now_us.saturating_sub(batch.sent_us),
        })
    }

    /// Streams that have waited long enough, in order of arrival.
    pub fn expired(&self, now_us: u64) -> impl Iterator<Item = u32> + '_ {
        let sent = self.in_flight.iter().flat_map(|batch| &batch.takes);
        sent.chain(&self.waiting).filter(move |take| take.deadline_us <= now_us).filter_map(|take| match take
            .purpose
        {
            Purpose::Request(stream) => Some(stream),
            Purpose::Refill | Purpose::Shadow => None,
        })
    }

    /// A batch whose answer is overdue by as much again as it had: its callout was lost.
    pub fn lost(&self, now_us: u64) -> Option<BatchId> {
        let overdue = |batch: &&Batch| batch.sent_us.saturating_add(2 * self.timeout_us) <= now_us;
        self.in_flight.iter().find(overdue).map(|batch| batch.id)
    }

    /// Whether nothing is waiting or on its way.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_empty() && self.notes.is_empty()
    }

    /// Takes in a batch that is on its way.
    pub fn takes_in(&self, id: BatchId) -> usize {
        self.in_flight.iter().find(|batch| batch.id == id).map_or(0, |batch| batch.takes.len())
    }
}

#[cfg(test)]
mod tests;
