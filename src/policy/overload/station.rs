//! One worker's side of one upstream: the decision about each request, by numbers of this VM alone.

use super::arrival::{Arrival, Ending, Kind, Shed, Ticket};
use super::average::Average;
use super::backlog::retry_after_s;
use super::cohort;
use super::deadline::predicted_us;
use super::record::{CLASSES, Entry, TENANTS};
use super::reserve::Floor;
use super::share::Share;
use super::snapshot::Guidance;
use super::tenant::Tenants;
use super::thin::Selector;
use crate::class::Class;
use crate::verdict::ShedReason;

/// A leap of the clock counts as no more than this, microseconds.
const LEAP_US: u64 = 1_000_000;
/// Requests in flight that one worker may have before the first guidance, a tick after its start; twice as many for
/// critical ones.
const UNKNOWN_CAP: u64 = 32;

/// The bounds that configuration sets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) max_in_flight: Option<u64>,
    pub(super) streams_max: u64,
    pub(super) retry_after_max_s: u32,
    pub(super) floor: f64,
    pub(super) tenants: bool,
}

/// Counts and state of one worker about one upstream.
#[derive(Debug)]
pub(super) struct Station {
    bounds: Bounds,
    entry: Entry,
    exempt: u64,
    streams: u64,
    ghosts: u64,
    integrated_us: u64,
    share: Share,
    guidance: Option<Guidance>,
    stale: bool,
    demand: Average,
    offered_before: u64,
    selectors: [Selector; CLASSES],
    floors: [Floor; CLASSES],
    tenants: Tenants,
}

impl Station {
    pub(super) fn new(cluster: u64, bounds: Bounds, now_us: u64) -> Station {
        Station {
            bounds,
            entry: Entry { cluster, ..Entry::default() },
            exempt: 0,
            streams: 0,
            ghosts: 0,
            integrated_us: now_us,
            share: Share::default(),
            guidance: None,
            stale: false,
            demand: Average::default(),
            offered_before: 0,
            selectors: Default::default(),
            floors: Default::default(),
            tenants: Tenants::default(),
        }
    }

    pub(super) fn guidance(&self) -> Option<&Guidance> {
        self.guidance.as_ref()
    }

    /// Requests in flight, those let in by shadow only included.
    pub(super) fn in_flight(&self) -> u64 {
        self.entry.in_flight + self.exempt + self.streams + self.ghosts
    }

    /// Requests in flight in the whole Envoy, as this worker estimates it.
    pub(super) fn estimate(&self) -> f64 {
        self.share.estimate(self.entry.in_flight)
    }

    /// Judges a request. `Ok` says in which count it is to be; the caller takes the ticket with [`Station::enter`].
    pub(super) fn judge(&mut self, arrival: &Arrival, now_us: u64) -> Result<(Class, Kind), Shed> {
        let class = judged_class(arrival);
        if arrival.streaming {
            let full = self.bounds.streams_max <= self.streams;
            return if full && class != Class::Exempt {
                Err(self.shed(ShedReason::HardCap, class, arrival.random))
            } else {
                Ok((class, Kind::Streaming))
            };
        }
        let class = match class {
            Class::Exempt if (self.exempt as f64) < self.exempt_max() => {
                return Ok((Class::Exempt, Kind::Exempt));
            }
            // Beyond its bound an exempt path is as good as any other.
            Class::Exempt => Class::Normal,
            other => other,
        };
        let Some(index) = class.index().checked_sub(1) else { return Ok((class, Kind::Ordinary)) };
        if let Some(offered) = self.entry.offered.get_mut(index) {
            *offered += 1;
        }
        let verdict = self.judge_ordinary(arrival, index, now_us);
        match verdict {
            None => {
                if let Some(floor) = self.floors.get_mut(index) {
                    floor.spend();
                }
                Ok((class, Kind::Ordinary))
            }
            Some(reason) => {
                if let Some(shed) = self.entry.shed.get_mut(index)
                    && reason != ShedReason::Deadline
                {
                    *shed += 1;
                }
                Err(self.shed(reason, class, arrival.random))
            }
        }
    }

    fn judge_ordinary(&mut self, arrival: &Arrival, index: usize, now_us: u64) -> Option<ShedReason> {
        if arrival.remaining_us == Some(0) {
            return Some(ShedReason::Deadline);
        }
        // Its own count alone: what is known of the others is a tick old, and a bound that is guessed is none.
        if self.bounds.max_in_flight.is_some_and(|bound| bound <= self.entry.in_flight) {
            return Some(ShedReason::HardCap);
        }
        let estimate = self.estimate();
        let Some(guidance) = self.guidance.take() else {
            let cap = if index == 0 { 2 * UNKNOWN_CAP } else { UNKNOWN_CAP };
            return (cap <= self.entry.in_flight).then_some(ShedReason::HardCap);
        };
        let verdict = self.judge_by(&guidance, arrival, index, estimate, now_us);
        self.guidance = Some(guidance);
        verdict
    }

    fn judge_by(
        &mut self,
        guidance: &Guidance,
        arrival: &Arrival,
        index: usize,
        estimate: f64,
        now_us: u64,
    ) -> Option<ShedReason> {
        if let Some(remaining_us) = arrival.remaining_us
            && guidance.engaged
            && (remaining_us as f64)
                < predicted_us(estimate, guidance.limit, guidance.capacity, guidance.base_us)
        {
            return Some(ShedReason::Deadline);
        }
        let tenant = if arrival.tenant == 0 { u64::from(self.bounds.tenants) } else { arrival.tenant };
        let share = share_of(guidance, tenant, index, arrival.weight);
        let counted =
            if tenant == 0 { None } else { self.tenants.offer(tenant, index, arrival.weight, share) };
        if !guidance.engaged {
            let hard = guidance.hard.get(index).copied().unwrap_or(f64::MAX);
            return (hard <= estimate).then_some(ShedReason::HardCap);
        }
        let own = self.selectors.get_mut(index).is_none_or(|selector| selector.select(share));
        let selected = self.stale || counted.unwrap_or(own);
        let open = open_for(guidance, arrival.tenant, index, now_us);
        let threshold = if selected { open } else { open.min(guidance.closed) };
        if estimate < threshold {
            if !selected {
                self.tenants.charge(tenant, index);
            }
            return None;
        }
        let spared = self.floors.get(index).is_some_and(Floor::affords)
            && guidance.open.first().is_some_and(|open| estimate < *open);
        (!spared).then_some(ShedReason::Saturation)
    }

    /// Takes a place.
    pub(super) fn enter(&mut self, upstream: usize, class: Class, kind: Kind, now_us: u64) -> Ticket {
        self.integrate(now_us);
        match kind {
            Kind::Ordinary => self.entry.in_flight += 1,
            Kind::Exempt => self.exempt += 1,
            Kind::Streaming => self.streams += 1,
            Kind::Ghost => self.ghosts += 1,
        }
        Ticket { upstream, class, started_us: now_us, kind }
    }

    /// Gives a place back.
    pub(super) fn leave(&mut self, ticket: &Ticket, ending: Ending, now_us: u64) {
        self.integrate(now_us);
        match ticket.kind {
            Kind::Exempt => self.exempt = self.exempt.saturating_sub(1),
            Kind::Streaming => self.streams = self.streams.saturating_sub(1),
            Kind::Ghost => self.ghosts = self.ghosts.saturating_sub(1),
            Kind::Ordinary => {
                self.entry.in_flight = self.entry.in_flight.saturating_sub(1);
                self.account(ticket, ending, now_us);
            }
        }
    }

    fn account(&mut self, ticket: &Ticket, ending: Ending, now_us: u64) {
        let lasted_us = now_us.saturating_sub(ticket.started_us);
        match ending {
            Ending::Answered { headers_us } => {
                self.entry.ended += 1;
                self.entry.answered += 1;
                let trailed_us = now_us.saturating_sub(headers_us).min(lasted_us);
                self.entry.trailed_us += trailed_us;
            }
            Ending::Failed => {
                self.entry.ended += 1;
                self.entry.excused_us += lasted_us;
            }
            // Its time on test stays: it waited that long and got no answer.
            Ending::Abandoned => {}
            Ending::Withdrawn => self.entry.excused_us += lasted_us,
        }
    }

    fn integrate(&mut self, now_us: u64) {
        let elapsed_us = now_us.saturating_sub(self.integrated_us).min(LEAP_US);
        self.integrated_us = now_us;
        self.entry.area_us += self.entry.in_flight * elapsed_us;
    }

    /// Ends a tick: what to publish.
    pub(super) fn publish(&mut self, elapsed_s: f64, now_us: u64) -> Entry {
        self.integrate(now_us);
        let offered: u64 = self.entry.offered.iter().sum();
        let rate = offered.saturating_sub(self.offered_before) as f64 / elapsed_s.max(1e-3);
        self.offered_before = offered;
        self.demand.add(rate, 0.3);
        self.entry.demand = if self.demand.value() < 0.01 { 0.0 } else { self.demand.value() };
        self.entry.tenants = self.tenants.tick(elapsed_s, TENANTS);
        self.entry.clone()
    }

    /// What the others published about this upstream: requests in flight, demand, and how many take traffic.
    pub(super) fn hear(&mut self, in_flight: f64, demand: f64, workers: usize) {
        let own = self.entry.demand;
        self.share = Share::new(in_flight, own, demand, workers + 1);
    }

    /// What the leader says; without news for long, thresholds stay but nothing is thinned any more.
    pub(super) fn follow(&mut self, guidance: Option<&Guidance>, elapsed_s: f64) {
        self.stale = guidance.is_none();
        if let Some(guidance) = guidance {
            self.guidance = Some(guidance.clone());
        }
        let Some(guidance) = &self.guidance else { return };
        let rate = self.bounds.floor * guidance.capacity * self.share.part;
        // Critical and high need no floor: they are what the others give way to.
        for floor in self.floors.iter_mut().skip(2) {
            floor.earn(rate, elapsed_s);
        }
    }

    fn exempt_max(&self) -> f64 {
        self.guidance.as_ref().map_or(4.0, |guidance| (0.05 * guidance.limit).max(4.0))
    }

    fn shed(&self, reason: ShedReason, class: Class, random: u64) -> Shed {
        let waits = self.guidance.as_ref().map(|guidance| guidance.backlog_s);
        let wait = class.index().checked_sub(1).and_then(|index| waits?.get(index).copied());
        let backlog_s = if reason == ShedReason::Deadline { 0.0 } else { wait.unwrap_or(0.0) };
        let retry_after_s = retry_after_s(backlog_s, self.bounds.retry_after_max_s, cohort::mix(random));
        Shed { reason, class, retry_after_s }
    }
}

/// Retries are demoted one class: the first attempt of somebody else is worth more. Critical ones stay above normal.
fn judged_class(arrival: &Arrival) -> Class {
    if 1 < arrival.attempt { arrival.class.demoted() } else { arrival.class }
}

/// The share of a tenant's requests to select.
fn share_of(guidance: &Guidance, tenant: u64, index: usize, weight: u32) -> f64 {
    let select = guidance.select.get(index).copied().unwrap_or(1.0);
    let fair_rate = guidance.fair_rate.get(index).copied().unwrap_or(0.0);
    let named = guidance.tenants.iter().find(|named| named.tenant == tenant && named.class == index);
    match named {
        Some(named) if 0.0 < fair_rate && 0.0 < named.rate => {
            (fair_rate * f64::from(weight.max(1)) / named.rate).min(1.0)
        }
        _ => select,
    }
}

/// The threshold of a class, moved by the user's cohort by at most a quarter of the way to the next class.
fn open_for(guidance: &Guidance, tenant: u64, index: usize, now_us: u64) -> f64 {
    let Some(own) = guidance.open.get(index).copied() else { return f64::MAX };
    let next = guidance.open.get(index + 1).copied().unwrap_or(own);
    own + cohort::standing(tenant, now_us) * (own - next) * 0.5
}
