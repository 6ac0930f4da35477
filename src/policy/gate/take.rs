//! The decision about quota: what is known here, what has to be asked.

use crate::batch::{Ask, Purpose, Take};
use crate::count::LimitEvent;
use crate::digest::WireKey;
use crate::gate::hit::{Course, Hit, local_key};
use crate::gate::saturation::number;
use crate::gate::stream::{Phase, Stream};
use crate::gate::{Gate, Step};
use crate::lease::{Spend, Terms};
use crate::limit::{Algorithm, Cost, Enforce, Limit};
use crate::matcher::{Key, Met, drawn};
use crate::mode::Mode;
use crate::request::Request;
use crate::verdict::{ShedReason, Standing};
use crate::wire::{self, WireLimit};

/// Requests that wait their turn in one worker.
const DELAYED_MAX: usize = 65_536;

/// Makes the draw for a mode independent of the draws for patterns.
const MODE_SALT: usize = 1 << 20;

impl Gate {
    /// Decides about the limits that the request meets, or asks.
    pub(super) fn decide(
        &mut self,
        request: &dyn Request,
        id: u32,
        mut stream: Box<Stream>,
        now_us: u64,
    ) -> Step {
        for nth in 0..self.scratch.met().len() {
            if let Some(met) = self.scratch.met().get(nth).copied() {
                self.meet(&met, request, &mut stream, now_us);
            }
        }
        if stream.hits.iter().any(Hit::is_refused) {
            return self.limit(stream, now_us);
        }
        let is_asked = |hit: &Hit| matches!(hit.course, Course::Asked { .. });
        // Local limits are looked at first, so that a request they refuse charges nobody else; they are charged
        // themselves when all agree.
        if stream.hits.iter().any(is_asked) {
            if !self.take_local(&mut stream, true, now_us) {
                return self.limit(stream, now_us);
            }
            self.spend(&mut stream, now_us);
            if stream.hits.iter().any(is_asked) {
                return self.ask(id, stream, now_us);
            }
        }
        if !self.take_local(&mut stream, false, now_us) {
            return self.limit(stream, now_us);
        }
        self.pass(id, stream, now_us)
    }

    /// Finds out what one limit has to do with the request.
    fn meet(&mut self, met: &Met, request: &dyn Request, stream: &mut Stream, now_us: u64) {
        let (Some(limit), Some(algorithm)) = (self.policy.limits.get(met.limit), self.matcher.algorithm(met))
        else {
            return;
        };
        if self.numbers.define(met.variant, limit, algorithm)
            && let Some(way) = &mut self.shim
        {
            way.batcher.define(met.variant.index(), &WireLimit(limit.name.clone(), algorithm.into()));
        }
        let (cost, price) = cost(limit, request);
        let mut hit = Hit {
            limit: met.limit,
            variant: met.variant,
            local_key: 0,
            wire_key: None,
            cost,
            price,
            has_slot: cost > 0 && is_concurrency(algorithm),
            course: Course::Local,
            standing: None,
        };
        let enforced = match limit.mode {
            Mode::Enforce => true,
            Mode::Shadow => false,
            Mode::Percent(share) => drawn(stream.random, MODE_SALT + met.limit, share),
        };
        let Key::Client(fingerprint) = met.key else {
            hit.standing = Some(Standing::default());
            if enforced {
                hit.course = Course::Refused;
                stream.hits.push(hit);
            } else {
                self.counts.limit(met.limit, LimitEvent::WouldLimit);
            }
            return;
        };
        hit.local_key = local_key(met.limit, fingerprint.0);
        let is_local = matches!(limit.enforce, Enforce::Local { .. }) || self.shim.is_none();
        if !is_local && let Some(standing) = self.denials.get(hit.local_key, cost, now_us) {
            self.counts.limit(met.limit, LimitEvent::KnownDenied);
            if enforced {
                hit.course = Course::Refused;
                hit.standing = Some(standing);
                stream.hits.push(hit);
            } else {
                self.counts.limit(met.limit, LimitEvent::WouldLimit);
            }
            return;
        }
        let is_leased = matches!(limit.enforce, Enforce::Leased { .. }) && enforced && cost > 0;
        if !is_local {
            hit.course = Course::Asked { block: 0 };
            // The digest costs as much as everything else together: a lease with tokens does without.
            if !is_leased {
                hit.wire_key = Some(self.matcher.wire_key(met.limit, &mut self.scratch));
            }
        }
        if !enforced {
            self.shadow(&mut hit, stream, now_us);
        }
        stream.has_aftermath |= hit.cost == 0 || hit.has_slot;
        stream.hits.push(hit);
    }

    /// A limit in shadow mode decides by itself and holds nobody up.
    fn shadow(&mut self, hit: &mut Hit, stream: &Stream, now_us: u64) {
        if hit.course == Course::Local {
            let mut alone = [*hit];
            let allowed = self.local.take(&mut alone, &self.numbers, stream.slot(), false, now_us);
            self.counts.limit(hit.limit, if allowed { LimitEvent::Allowed } else { LimitEvent::WouldLimit });
        } else if let (Some(way), Some(key)) = (&mut self.shim, hit.wire_key)
            && way.breaker.admit(now_us)
        {
            let ask = ask(hit, key, None);
            // A full queue loses a count in shadow mode, no more.
            let _ = way.batcher.push(Take::aside(Purpose::Shadow, ask, Some(stream.slot())));
        }
        hit.course = Course::Shadow;
    }

    /// Pays from leases where there are tokens, and finds the keys to ask with where there are none.
    fn spend(&mut self, stream: &mut Stream, now_us: u64) {
        let Some(way) = &mut self.shim else { return };
        for hit in &mut stream.hits {
            if hit.wire_key.is_some() || !matches!(hit.course, Course::Asked { .. }) {
                continue;
            }
            let enforce = self.policy.limits.get(hit.limit).map(|limit| &limit.enforce);
            let Some(&Enforce::Leased { size, for_us }) = enforce else { continue };
            let terms = Terms { size, for_us, answer_us: 2 * way.timeout_us };
            let spend = self.leases.spend(hit.local_key, hit.cost, terms, now_us);
            let key = match spend {
                Spend::Spent { refill: 0, .. } => None,
                _ => Some(self.matcher.wire_key(hit.limit, &mut self.scratch)),
            };
            match (spend, key) {
                (Spend::Spent { standing, refill }, key) => {
                    hit.course = Course::Paid;
                    hit.standing = Some(standing);
                    if let Some(key) = key.filter(|_| way.breaker.admit(now_us)) {
                        let ask = Ask { cost: refill, at_least: 1, own: Some(0), ..ask(hit, key, None) };
                        // Without a refill the lease runs dry, and the next request asks.
                        let _ = way.batcher.push(Take::aside(Purpose::Refill, ask, None));
                    }
                }
                (Spend::Ask, key) => {
                    hit.course = Course::Asked { block: size.max(hit.cost) };
                    hit.wire_key = key;
                }
                (Spend::Asked, key) => hit.wire_key = key,
            }
        }
    }

    /// Puts the request's take into the next batch; without a way to the shim, falls back at once.
    fn ask(&mut self, id: u32, mut stream: Box<Stream>, now_us: u64) -> Step {
        let Some(way) = &mut self.shim else { return self.fall_back(id, stream, now_us) };
        let mut asks = Vec::with_capacity(stream.hits.len());
        let mut slots = false;
        for hit in &stream.hits {
            if let (Course::Asked { block }, Some(key)) = (hit.course, hit.wire_key) {
                asks.push(ask(hit, key, Some(block)));
                slots |= self.matcher.variants().algorithm(hit.variant).is_some_and(is_concurrency);
            }
        }
        if asks.len() > wire::ASKS_MAX || !way.breaker.admit(now_us) {
            return self.fall_back(id, stream, now_us);
        }
        let own_us = now_us.saturating_add(way.timeout_us);
        let take = Take {
            purpose: Purpose::Request(id),
            asks,
            slot: slots.then(|| stream.slot()),
            deadline_us: stream.deadline_us.map_or(own_us, |deadline_us| deadline_us.min(own_us)),
        };
        if way.batcher.push(take).is_err() {
            return self.fall_back(id, stream, now_us);
        }
        stream.phase = Phase::Waiting;
        self.streams.insert(id, stream);
        Step::Wait
    }

    pub(super) fn take_local(&mut self, stream: &mut Stream, look: bool, now_us: u64) -> bool {
        let slot = stream.slot();
        self.local.take(&mut stream.hits, &self.numbers, slot, look, now_us)
    }

    /// All limits agree: the request goes on, at once or when its turn comes.
    pub(super) fn pass(&mut self, id: u32, mut stream: Box<Stream>, now_us: u64) -> Step {
        let mut delay_us = 0;
        for hit in &stream.hits {
            delay_us = hit.standing.map_or(0, |standing| standing.delay_us).max(delay_us);
            match hit.course {
                Course::Paid => {
                    self.counts.limit(hit.limit, LimitEvent::Allowed);
                    self.counts.limit(hit.limit, LimitEvent::Leased);
                }
                Course::Local | Course::Asked { .. } => self.counts.limit(hit.limit, LimitEvent::Allowed),
                Course::Open | Course::Emergency | Course::Refused | Course::Shadow => {}
            }
        }
        if delay_us == 0 {
            return self.admit(id, stream);
        }
        if self.delayed.len() >= DELAYED_MAX {
            self.release(&stream, now_us);
            return self.shed(stream, ShedReason::HardCap, 1, now_us);
        }
        let until_us = now_us.saturating_add(delay_us);
        if stream.deadline_us.is_some_and(|deadline_us| deadline_us < until_us) {
            self.release(&stream, now_us);
            return self.shed(stream, ShedReason::Deadline, 1, now_us);
        }
        stream.phase = Phase::Delayed { until_us };
        self.delayed.insert((until_us, id));
        self.streams.insert(id, stream);
        Step::Wait
    }
}

pub(super) fn is_concurrency(algorithm: &Algorithm) -> bool {
    matches!(algorithm, Algorithm::Concurrency(_))
}

/// What is taken before the request goes on, and what is charged after it if the status says so.
fn cost(limit: &Limit, request: &dyn Request) -> (u64, u64) {
    let price = match &limit.cost {
        Cost::Constant(cost) => *cost,
        Cost::RequestHeader { name, default, max } => number(request, name).unwrap_or(*default).min(*max),
        Cost::ResponseHeader { .. } => return (0, 0),
    };
    if limit.charge_when.is_some() { (0, price) } else { (price, price) }
}

/// `block` is the size of the block to ask for; `None` or 0 asks for the hit's own cost.
fn ask(hit: &Hit, key: WireKey, block: Option<u64>) -> Ask {
    let block = block.filter(|block| *block > 0);
    Ask {
        variant: hit.variant.index(),
        limit: hit.limit,
        key,
        local_key: hit.local_key,
        cost: block.unwrap_or(hit.cost),
        at_least: hit.cost,
        own: block.map(|_| hit.cost),
    }
}
