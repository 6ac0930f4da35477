//! What clients are told.

use crate::count::{Decision, LimitEvent};
use crate::gate::hit::{Course, Hit};
use crate::gate::stream::{Phase, Stream};
use crate::gate::{Gate, Step};
use crate::response::{self, Field, Held};

/// Read access to the fields of a response.
pub trait ResponseFields {
    /// A field by lower-case name (`:status` included), as bytes.
    fn field(&self, name: &str) -> Option<Vec<u8>>;
}

impl Gate {
    /// The response to a request is here; returns the fields to set in it.
    pub fn response(&mut self, id: u32, response: &dyn ResponseFields, now_us: u64) -> Vec<Field> {
        let Some(mut stream) = self.streams.remove(&id) else { return Vec::new() };
        // An answer before the request went on is somebody else's.
        if stream.phase != Phase::Admitted {
            self.streams.insert(id, stream);
            return Vec::new();
        }
        let status =
            response.field(":status").and_then(|value| std::str::from_utf8(&value).ok()?.parse().ok());
        let status = status.unwrap_or(0);
        // Informational responses come before the one that counts.
        if stream.answered.is_none() && !(100..200).contains(&status) {
            stream.answered = Some((status, now_us));
            self.charge(&stream, response, status, now_us);
        }
        let mut fields = Vec::new();
        if self.policy.responses.on_allow && !stream.is_exempt() {
            let held = self.held(&stream.hits);
            fields = response::rate_limit_fields(&self.policy.responses.fields, &held, |name| {
                response.field(name)
            });
        }
        self.streams.insert(id, stream);
        fields
    }

    /// Refuses a request with 429.
    pub(super) fn limit(&mut self, mut stream: Stream, now_us: u64) -> Step {
        self.counts.decide(stream.class, Decision::QuotaReject);
        for hit in stream.hits.iter().filter(|hit| hit.is_refused()) {
            self.counts.limit(hit.limit, LimitEvent::Limited);
        }
        self.withdraw(&mut stream, now_us);
        let held = self.held(&stream.hits);
        Step::Refuse(response::quota_exceeded(&self.policy.responses, stream.dialect, &held, stream.random))
    }

    /// The limits that bind a request, with how they stand.
    fn held(&self, hits: &[Hit]) -> Vec<Held<'_>> {
        let binding = hits.iter().filter(|hit| hit.course != Course::Shadow);
        binding
            .filter_map(|hit| {
                Some(Held {
                    quota: &self.numbers.get(hit.variant)?.quota,
                    standing: hit.standing,
                    // An emergency allowance is a guess about the limit, and is not passed off as its state.
                    is_known: hit.course != Course::Emergency,
                })
            })
            .collect()
    }
}
