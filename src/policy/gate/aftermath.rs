//! What is known only after the fact: costs, and the end.

use crate::batch::{Note, Take};
use crate::count::Ending;
use crate::gate::Gate;
use crate::gate::hit::{Course, Hit};
use crate::gate::reply::ResponseFields;
use crate::gate::saturation::parse;
use crate::gate::stream::{Phase, Stream};
use crate::gate::take::is_concurrency;
use crate::limit::Cost;
use crate::overload::arrival;

impl Gate {
    /// A request has ended, whatever ended it. Harmless when it is not known (any more). `clock` tells the time,
    /// microseconds, and is asked only if that matters.
    pub fn end(&mut self, id: u32, clock: impl FnOnce() -> u64) {
        let Some(mut stream) = self.streams.remove(id) else { return };
        let now_us = stream.time(clock);
        match stream.phase {
            // Its take may be on the way: slots are given back when the answer comes.
            Phase::Waiting => {
                self.counts.abandon(stream.class);
                self.withdraw(&mut stream, now_us);
            }
            Phase::Delayed { until_us } => {
                self.delayed.remove(&(until_us, id));
                self.counts.abandon(stream.class);
                self.withdraw(&mut stream, now_us);
                self.release(&stream, now_us);
            }
            Phase::Admitted => {
                self.counts.end(stream.class, ending(&stream));
                if let (Some(control), Some(ticket)) = (&mut self.saturation, stream.ticket.take()) {
                    let ending = match stream.answered {
                        None => arrival::Ending::Abandoned,
                        Some((500.., _)) => arrival::Ending::Failed,
                        Some((_, headers_us)) => arrival::Ending::Answered { headers_us },
                    };
                    control.done(ticket, ending, now_us);
                }
                self.release(&stream, now_us);
            }
        }
        self.streams.reuse(stream);
    }

    /// Charges what the response says it has cost.
    pub(super) fn charge(&mut self, hits: &[Hit], response: &dyn ResponseFields, status: u16, now_us: u64) {
        for hit in hits {
            let Some(limit) = self.policy.limits.get(hit.limit) else { continue };
            if hit.cost > 0 || hit.course == Course::Refused {
                continue;
            }
            if limit.charge_when.as_ref().is_some_and(|when| !when.statuses.contains(&status)) {
                continue;
            }
            let amount = match &limit.cost {
                Cost::ResponseHeader { name, max } => {
                    let value = response.field(name).and_then(|value| parse(value.trim_ascii()));
                    value.unwrap_or(0).min(*max)
                }
                Cost::Constant(_) | Cost::RequestHeader { .. } => hit.price,
            };
            if amount == 0 {
                continue;
            }
            match (hit.wire_key, &mut self.shim) {
                (Some(key), Some(way)) => {
                    way.batcher.note(Note::Charge { variant: hit.variant.index(), key, amount });
                }
                _ => self.local.charge(hit, &self.numbers, amount, now_us),
            }
        }
    }

    /// Gives back the slots of a request that has them.
    pub(super) fn release(&mut self, stream: &Stream, now_us: u64) {
        for hit in &stream.hits {
            if hit.has_slot {
                match (hit.wire_key, hit.course, &mut self.shim) {
                    // Also where no answer came: the slot may have been given out all the same.
                    (Some(key), _, Some(way)) => way.batcher.note(Note::Release {
                        variant: hit.variant.index(),
                        key,
                        slot: stream.slot(),
                    }),
                    _ => self.local.release(hit, &self.numbers, stream.slot(), now_us),
                }
                if hit.course == Course::Emergency {
                    self.local.release(hit, &self.numbers, stream.slot(), now_us);
                }
            }
        }
    }

    /// Gives back the slots that a take may have got for somebody who is not there any more.
    pub(super) fn release_take(&mut self, take: &Take) {
        let (Some(slot), Some(way)) = (take.slot, &mut self.shim) else { return };
        for ask in &take.asks {
            if self.policy.limits.get(ask.limit).is_some_and(|limit| is_concurrency(&limit.algorithm)) {
                way.batcher.note(Note::Release { variant: ask.variant, key: ask.key, slot });
            }
        }
    }
}

/// Too late wins over failed, failed over in time.
fn ending(stream: &Stream) -> Ending {
    match stream.answered {
        Some((_, headers_us)) if stream.deadline_us.is_some_and(|deadline_us| deadline_us < headers_us) => {
            Ending::DeadlineMissed
        }
        Some((status, _)) if status < 500 => Ending::Ok,
        _ => Ending::Failed,
    }
}
