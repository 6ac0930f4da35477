//! What clients are told.

use std::borrow::Cow;

use crate::count::{Decision, LimitEvent};
use crate::gate::hit::{Course, Hit};
use crate::gate::numbers::Numbers;
use crate::gate::saturation::parse;
use crate::gate::stream::{Phase, Stream};
use crate::gate::{Gate, Step};
use crate::response::{self, Held};

/// The fields of a response.
pub trait ResponseFields {
    /// A field by lower-case name (`:status` included), as bytes.
    fn field(&self, name: &str) -> Option<Cow<'_, [u8]>>;

    /// Gives a field this one value.
    fn set(&self, name: &str, value: &[u8]);
}

impl Gate {
    /// The response to a request is here; sets the fields that tell how its client stands. `clock` tells the time,
    /// microseconds, and is asked only if that matters.
    pub fn response(&mut self, id: u32, response: &dyn ResponseFields, clock: impl FnOnce() -> u64) {
        // An answer before the request went on is somebody else's.
        let admitted = self.streams.get_mut(id).filter(|stream| stream.phase == Phase::Admitted);
        let Some(stream) = admitted else { return };
        if self.policy.responses.on_allow && !stream.is_exempt() {
            response::rate_limit_fields(
                &self.policy.responses.fields,
                held(&self.numbers, &stream.hits),
                |name| response.field(name),
                |name, value| response.set(name, value.as_bytes()),
            );
        }
        let status = response.field(":status").and_then(|value| parse(&value)?.try_into().ok()).unwrap_or(0);
        // Informational responses come before the one that counts.
        if stream.answered.is_some() || (100..200).contains(&status) {
            return;
        }
        let now_us = stream.time(clock);
        stream.answered = Some((status, now_us));
        if stream.has_aftermath {
            let hits = std::mem::take(&mut stream.hits);
            self.charge(&hits, response, status, now_us);
            if let Some(stream) = self.streams.get_mut(id) {
                stream.hits = hits;
            }
        }
    }

    /// Refuses a request with 429.
    pub(super) fn limit(&mut self, mut stream: Box<Stream>, now_us: u64) -> Step {
        self.counts.decide(stream.class, Decision::QuotaReject);
        for hit in stream.hits.iter().filter(|hit| hit.is_refused()) {
            self.counts.limit(hit.limit, LimitEvent::Limited);
        }
        self.withdraw(&mut stream, now_us);
        let held = held(&self.numbers, &stream.hits);
        let refusal = response::quota_exceeded(&self.policy.responses, stream.dialect, held, stream.random);
        self.streams.reuse(stream);
        Step::Refuse(refusal)
    }
}

/// The limits that bind a request, with how they stand.
fn held<'a>(numbers: &'a Numbers, hits: &'a [Hit]) -> impl Iterator<Item = Held<'a>> + Clone {
    let binding = hits.iter().filter(|hit| hit.course != Course::Shadow);
    binding.filter_map(|hit| {
        Some(Held {
            quota: &numbers.get(hit.variant)?.quota,
            standing: hit.standing,
            // An emergency allowance is a guess about the limit, and is not passed off as its state.
            is_known: hit.course != Course::Emergency,
        })
    })
}
