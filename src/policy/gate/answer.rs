//! What the shim's verdicts mean.

use crate::batch::{Answered, BatchId, Malformed, Purpose, Take};
use crate::breaker::Change;
use crate::count::LimitEvent;
use crate::denial::RECHECK_US;
use crate::gate::hit::Course;
use crate::gate::stream::Phase;
use crate::gate::take::is_concurrency;
use crate::gate::{Gate, Notice, Sample};
use crate::limit::Enforce;
use crate::verdict::Standing;

/// Samples kept for one tick.
const SAMPLES_MAX: usize = 256;

/// Whether decisions can be had, so that a change is told once.
#[derive(Debug, Default)]
pub(super) struct Deciding {
    lost: bool,
}

impl Gate {
    /// A callout came back with the body of a good response, or with `None` for anything else.
    pub fn answer(&mut self, batch: BatchId, body: Option<&[u8]>, now_us: u64) {
        let Some(way) = &mut self.shim else { return };
        let Some(Answered { takes, failure, latency_us }) = way.batcher.answer(batch, body, now_us) else {
            return;
        };
        let change = match failure {
            None => way.breaker.succeed(),
            Some(_) => {
                self.counts.callout_failed();
                way.breaker.fail(now_us)
            }
        };
        let undecided = takes.iter().any(|(_, verdict)| verdict.is_none());
        let reason = match failure {
            Some(failure) => Some(failure.reason()),
            None if undecided => Some("no decision from the store"),
            None => None,
        };
        self.notices.extend(way.deciding.change(reason, takes.is_empty()));
        self.notices.extend(change.map(|change| match change {
            Change::Opened => Notice::BreakerOpened,
            Change::Closed => Notice::BreakerClosed,
        }));
        if failure != Some(Malformed::NoAnswer) && self.samples.len() < SAMPLES_MAX {
            self.samples.push(Sample { latency_us, takes: takes.len() });
        }
        for (take, verdict) in takes {
            self.learn(&take, verdict.as_deref(), now_us);
            match take.purpose {
                Purpose::Request(id) => self.resolve(id, &take, verdict.as_deref(), now_us),
                Purpose::Shadow => self.count_shadow(&take, verdict.as_deref()),
                Purpose::Refill => {}
            }
        }
    }

    /// Stops waiting for a decision about a request.
    pub(super) fn give_up(&mut self, id: u32, now_us: u64) {
        if let Some(stream) = self.streams.remove(id) {
            if stream.phase == Phase::Waiting {
                let step = self.fall_back(id, stream, now_us);
                self.steps.push_back((id, step));
            } else {
                self.streams.insert(id, stream);
            }
        }
    }

    /// Remembers what a verdict says beyond the request that asked: blocks and denials.
    fn learn(&mut self, take: &Take, verdict: Option<&[Standing]>, now_us: u64) {
        let still_waits = match take.purpose {
            Purpose::Request(id) => self.streams.get(id).is_some_and(|stream| stream.phase == Phase::Waiting),
            Purpose::Refill | Purpose::Shadow => false,
        };
        let allowed = verdict.is_some_and(|standings| standings.iter().all(|standing| standing.allowed));
        for (nth, ask) in take.asks.iter().enumerate() {
            let standing = verdict.and_then(|standings| standings.get(nth));
            if let Some(own) = ask.own {
                let for_us = match self.policy.limits.get(ask.limit).map(|limit| &limit.enforce) {
                    Some(Enforce::Leased { for_us, .. }) => *for_us,
                    _ => 0,
                };
                match standing.filter(|_| allowed) {
                    // Who asked has its own share, unless it has gone on without.
                    Some(standing) => {
                        let own = if still_waits { own } else { 0 };
                        let surplus = standing.granted.saturating_sub(own);
                        self.leases.grant(ask.local_key, surplus, for_us, standing, now_us);
                    }
                    None => {
                        let retry_after_us = standing.map_or(0, |standing| standing.retry_after_us);
                        self.leases.refuse(ask.local_key, retry_after_us.min(RECHECK_US), now_us);
                    }
                }
            }
            let slots =
                self.policy.limits.get(ask.limit).is_some_and(|limit| is_concurrency(&limit.algorithm));
            // A slot may be given back at any moment, so a denial says nothing about the next one. Nor does one of a
            // refill: there are tokens left in the lease.
            let tells = !slots && take.purpose != Purpose::Refill;
            if let Some(standing) = standing.filter(|standing| !standing.allowed && tells) {
                self.denials.insert(ask.local_key, ask.at_least, standing, now_us);
            }
        }
    }

    /// The request that asked, if it is still there.
    fn resolve(&mut self, id: u32, take: &Take, verdict: Option<&[Standing]>, now_us: u64) {
        let Some(mut stream) = self.streams.remove(id) else {
            // Its client left. A slot it may have got is given back.
            if verdict.is_none_or(|standings| standings.iter().all(|standing| standing.allowed)) {
                self.release_take(take);
            }
            return;
        };
        if stream.phase != Phase::Waiting {
            self.streams.insert(id, stream);
            return;
        }
        let Some(standings) = verdict else {
            let step = self.fall_back(id, stream, now_us);
            self.steps.push_back((id, step));
            return;
        };
        let asked = stream.hits.iter_mut().filter(|hit| matches!(hit.course, Course::Asked { .. }));
        for (hit, standing) in asked.zip(standings) {
            hit.standing = Some(*standing);
        }
        let refused = standings.iter().any(|standing| !standing.allowed);
        let step = if refused {
            self.limit(stream, now_us)
        } else if self.take_local(&mut stream, false, now_us) {
            self.pass(id, stream, now_us)
        } else {
            self.release_take(take);
            self.limit(stream, now_us)
        };
        self.steps.push_back((id, step));
    }

    fn count_shadow(&mut self, take: &Take, verdict: Option<&[Standing]>) {
        for (ask, standing) in take.asks.iter().zip(verdict.unwrap_or_default()) {
            let event = if standing.allowed { LimitEvent::Allowed } else { LimitEvent::WouldLimit };
            self.counts.limit(ask.limit, event);
        }
    }
}

// === impl Deciding ===

impl Deciding {
    fn change(&mut self, reason: Option<&'static str>, empty: bool) -> Option<Notice> {
        match reason {
            Some(reason) if !self.lost => {
                self.lost = true;
                Some(Notice::DecisionsLost(reason))
            }
            // A batch without takes tells nothing about decisions.
            None if self.lost && !empty => {
                self.lost = false;
                Some(Notice::DecisionsFound)
            }
            _ => None,
        }
    }
}
