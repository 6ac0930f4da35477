//! The event loop: arrivals, the way through Envoy and upstream, clients that give up or come back.

use crate::baseline::{Baseline, Breaker, Gradient, Nothing, Threshold};
use crate::outcome::{Moment, Outcome, PhaseOutcome};
use crate::pool::Pools;
use crate::scenario::{Controller, Phase, Polls, Retry, Scenario};
use crate::sluicegate::Sluicegate;
use crate::system::{Answer, Asked, End, Place, System};
use crate::upstream::Upstream;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Exp1};
use sluicegate_policy::class::Class;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One way between Envoy and upstream, microseconds.
const HOP_US: u64 = 150;
/// The admin endpoint answers after this, microseconds.
const POLL_US: u64 = 1_000;
/// Mice beside an elephant.
const MICE: u64 = 9;

/// Runs a scenario to its end.
pub fn run(scenario: &Scenario) -> Outcome {
    let system: Box<dyn System> = match scenario.controller {
        Controller::Sluicegate(law) => Box::new(Sluicegate::new(scenario, law)),
        Controller::Nothing => Box::new(Baseline::new(Nothing)),
        Controller::Breaker(bound) => {
            Box::new(Baseline::new(Breaker { bound, pooled: scenario.connections.is_some() }))
        }
        Controller::Threshold(above) => Box::new(Baseline::new(Threshold { above, closed: false })),
        Controller::Gradient => Box::new(Baseline::new(Gradient::default())),
    };
    World::new(scenario, system).run()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A client's first attempt.
    Arrive,
    /// An attempt after a shed.
    Return(usize),
    /// A request reaches the upstream.
    Reach(usize),
    /// A server has finished a request.
    Finish(usize),
    /// Its answer reaches Envoy.
    Answer(usize),
    /// Its client's patience ends.
    GiveUp(usize),
    Tick(usize),
    Polled(usize),
    Phase(usize),
    KillLeader,
}

#[derive(Debug)]
struct Request {
    class: usize,
    tenant: u64,
    worker: usize,
    phase: usize,
    sent_us: u64,
    tries_left: u32,
    place: Option<Place>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Sent,
    Pending,
    Upstream,
    Ended,
}

struct World<'a> {
    scenario: &'a Scenario,
    random: StdRng,
    system: Box<dyn System>,
    upstream: Upstream,
    pools: Pools,
    requests: Vec<Request>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    scheduled: u64,
    now_us: u64,
    phase: usize,
    frozen: Option<String>,
    completed: u64,
    in_flight: u32,
    outcome: Outcome,
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario, system: Box<dyn System>) -> World<'a> {
        let mut outcome = Outcome { capacity: scenario.capacity(), ..Outcome::default() };
        let mut start_s = 0.0;
        for phase in &scenario.phases {
            outcome.phases.push(PhaseOutcome {
                start_s,
                seconds: phase.seconds,
                load: phase.load,
                capacity: phase.servers / phase.slowdown,
                tenants: vec![(0.0, 0.0); if scenario.elephant.is_some() { 1 + MICE as usize } else { 0 }],
                ..PhaseOutcome::default()
            });
            start_s += phase.seconds;
        }
        outcome.timeline = vec![Moment::default(); (start_s * 10.0) as usize + 1];
        World {
            scenario,
            random: StdRng::seed_from_u64(scenario.seed),
            system,
            upstream: Upstream::new(scenario.servers, scenario.service_us, scenario.scatter),
            pools: Pools::new(scenario.workers, scenario.connections),
            requests: Vec::new(),
            events: BinaryHeap::new(),
            scheduled: 0,
            now_us: 0,
            phase: 0,
            frozen: None,
            completed: 0,
            in_flight: 0,
            outcome,
        }
    }

    fn run(mut self) -> Outcome {
        for phase in 0..self.scenario.phases.len() {
            let start_us = (self.outcome.phases[phase].start_s * 1e6) as u64;
            self.at(start_us, Event::Phase(phase));
        }
        for vm in 0..self.system.tickers() {
            // Filters are configured one after another and tick at once.
            self.at(vm as u64 * 1_000, Event::Tick(vm));
        }
        if let Some(at_us) = self.scenario.leader_dies_us {
            self.at(at_us, Event::KillLeader);
        }
        self.at(0, Event::Arrive);
        let end_us = self.end_us();
        while let Some(Reverse((at_us, _, event))) = self.events.pop() {
            self.now_us = at_us;
            // After the end only what is under way goes on.
            let beyond = end_us <= at_us;
            match event {
                Event::Arrive | Event::Return(_) | Event::Tick(_) | Event::Polled(_) | Event::KillLeader
                    if beyond => {}
                event => self.handle(event),
            }
        }
        self.outcome.leaked = self.system.in_flight();
        self.outcome.told = self.system.told();
        self.outcome
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Phase(phase) => {
                self.phase = phase;
                let Phase { slowdown, servers, .. } = self.scenario.phases[phase];
                self.upstream.slowdown = slowdown;
                self.upstream.resize(((self.scenario.servers as f64 * servers) as usize).max(1));
            }
            Event::Arrive => self.arrive(),
            Event::Return(request) => {
                let Request { class, tenant, worker, tries_left, .. } = self.requests[request];
                self.send(class, tenant, worker, tries_left);
            }
            Event::Reach(request) => self.reach(request),
            Event::Finish(request) => self.finish(request),
            Event::Answer(request) => self.answer(request),
            Event::GiveUp(request) => self.give_up(request),
            Event::Tick(vm) => self.tick(vm),
            Event::Polled(vm) => self.polled(vm),
            Event::KillLeader => self.system.kill_leader(self.now_us),
        }
    }

    fn arrive(&mut self) {
        let load = self.scenario.phases[self.phase].load;
        let gap: f64 = Exp1.sample(&mut self.random);
        let gap_us = gap * 1e6 / (load.max(1e-3) * self.outcome.capacity);
        self.at(self.now_us + gap_us as u64, Event::Arrive);
        let class = self.draw_class();
        let tenant = self.draw_tenant();
        let worker = self.draw_worker();
        let tries_left = match self.scenario.retry {
            Retry::Never => 0,
            Retry::Soon(tries) | Retry::WhenTold(tries) => tries,
        };
        self.send(class, tenant, worker, tries_left);
    }

    fn send(&mut self, class: usize, tenant: u64, worker: usize, tries_left: u32) {
        let id = self.requests.len();
        let deadline_us = self.scenario.deadline_us;
        let asked = Asked {
            worker,
            class: Class::SHEDDABLE[class],
            tenant,
            remaining_us: self.scenario.deadline_told.then_some(deadline_us),
            random: self.random.random(),
            pending: self.pools.pending(),
            would_wait: self.pools.would_wait(worker),
        };
        self.requests.push(Request {
            class,
            tenant,
            worker,
            phase: self.phase,
            sent_us: self.now_us,
            tries_left,
            place: None,
            state: State::Sent,
        });
        self.count(id).offered += 1;
        self.moment().offered += 1;
        if let Some(entry) = self.tenant(id) {
            entry.0 += 1.0;
        }
        match self.system.ask(&asked, self.now_us) {
            Answer::Admit(place) => {
                self.requests[id].place = place;
                self.count(id).admitted += 1;
                self.in_flight += 1;
                if self.scenario.give_up {
                    self.at(self.now_us + deadline_us, Event::GiveUp(id));
                }
                if self.pools.enter(worker, id) {
                    self.attach(id);
                } else {
                    self.requests[id].state = State::Pending;
                }
            }
            Answer::Shed { retry_after_s } => self.shed(id, retry_after_s),
        }
    }

    fn shed(&mut self, id: usize, retry_after_s: u32) {
        self.count(id).shed += 1;
        self.requests[id].state = State::Ended;
        let upper = self.requests[id].class <= 2;
        let moment = self.moment();
        moment.shed += 1;
        moment.shed_upper += u32::from(upper);
        if self.requests[id].tries_left == 0 {
            return;
        }
        self.requests[id].tries_left -= 1;
        let wait_us = match self.scenario.retry {
            Retry::Never => return,
            Retry::Soon(_) => self.random.random_range(25_000..75_000),
            Retry::WhenTold(_) => u64::from(retry_after_s) * 1_000_000,
        };
        self.at(self.now_us + wait_us, Event::Return(id));
    }

    fn attach(&mut self, id: usize) {
        self.requests[id].state = State::Upstream;
        self.at(self.now_us + HOP_US, Event::Reach(id));
    }

    fn reach(&mut self, id: usize) {
        if let Some(service_us) = self.upstream.arrive(id, &mut self.random) {
            self.begin(id, service_us);
        }
    }

    fn begin(&mut self, id: usize, service_us: u64) {
        let slowdown = self.upstream.slowdown;
        let phase = &mut self.outcome.phases[self.phase];
        phase.drawn_us += service_us as f64 / slowdown;
        phase.draws += 1;
        self.at(self.now_us + service_us, Event::Finish(id));
    }

    fn finish(&mut self, id: usize) {
        if let Some((next, service_us)) = self.upstream.finish(&mut self.random) {
            self.begin(next, service_us);
        }
        if self.requests[id].state == State::Ended {
            self.outcome.phases[self.phase].wasted += 1;
        }
        self.at(self.now_us + HOP_US, Event::Answer(id));
    }

    fn answer(&mut self, id: usize) {
        if self.requests[id].state == State::Ended {
            return;
        }
        let lasted_us = self.now_us - self.requests[id].sent_us;
        let in_time = lasted_us <= self.scenario.deadline_us;
        let class = self.count(id);
        class.latencies_ms.push(lasted_us as f64 / 1e3);
        if in_time {
            class.ok += 1;
            self.moment().ok += 1;
            if let Some(entry) = self.tenant(id) {
                entry.1 += 1.0;
            }
        } else {
            class.missed += 1;
        }
        self.completed += 1;
        self.end(id, End::Answered);
        self.detach(id);
    }

    fn give_up(&mut self, id: usize) {
        let state = self.requests[id].state;
        if state == State::Ended {
            return;
        }
        self.count(id).missed += 1;
        self.end(id, End::Abandoned);
        if state == State::Pending {
            self.pools.withdraw(self.requests[id].worker, id);
        } else {
            self.detach(id);
        }
    }

    fn end(&mut self, id: usize, end: End) {
        let request = &mut self.requests[id];
        request.state = State::Ended;
        self.in_flight -= 1;
        let lasted_us = self.now_us - request.sent_us;
        let (worker, place) = (request.worker, request.place.take());
        self.system.ended(worker, place, end, lasted_us, self.now_us);
    }

    /// A connection is free: the next request of the worker takes it.
    fn detach(&mut self, id: usize) {
        if let Some(next) = self.pools.leave(self.requests[id].worker) {
            self.attach(next);
        }
    }

    fn tick(&mut self, vm: usize) {
        // Envoy re-arms its timer after the handler has run, so ticks drift.
        let drift_us = self.random.random_range(0..8_000);
        self.at(self.now_us + self.scenario.tick_us + drift_us, Event::Tick(vm));
        let in_flight = self.in_flight;
        let belief = self.system.belief();
        let moment = self.moment();
        moment.in_flight = in_flight;
        moment.belief = belief;
        if self.system.tick(vm, self.pools.pending(), self.now_us) {
            self.at(self.now_us + POLL_US, Event::Polled(vm));
        }
    }

    fn polled(&mut self, vm: usize) {
        let body = match self.scenario.polls {
            Polls::Answered => Some(self.stats()),
            Polls::Lost(share) => (share <= self.random.random::<f64>()).then(|| self.stats()),
            Polls::Frozen(from_us) if from_us <= self.now_us => {
                Some(self.frozen.clone().unwrap_or_else(|| self.stats()))
            }
            Polls::Frozen(_) => {
                self.frozen = Some(self.stats());
                self.frozen.clone()
            }
        };
        self.system.polled(vm, body.as_deref().map(str::as_bytes), self.now_us);
    }

    /// What the admin endpoint of Envoy writes.
    fn stats(&self) -> String {
        let remaining = match self.pools.bound() {
            Some(bound) => bound.saturating_sub(self.pools.connections()) as u64,
            None => u64::from(u32::MAX),
        };
        let stats = [
            ("upstream_rq_active", self.pools.active as u64),
            ("upstream_rq_pending_active", self.pools.pending() as u64),
            ("upstream_cx_active", self.pools.connections() as u64),
            ("upstream_rq_completed", self.completed),
            ("circuit_breakers.default.remaining_cx", remaining),
        ];
        let entries: Vec<String> = stats
            .iter()
            .map(|(name, value)| format!(r#"{{"name":"cluster.web.{name}","value":{value}}}"#))
            .collect();
        format!(r#"{{"stats":[{}]}}"#, entries.join(","))
    }

    fn draw_class(&mut self) -> usize {
        let mut left: f64 = self.random.random();
        let mix = self.scenario.mix;
        mix.iter()
            .position(|share| {
                left -= share;
                left < 0.0
            })
            .unwrap_or(mix.len() - 1)
    }

    /// Tenant 1 is the elephant.
    fn draw_tenant(&mut self) -> u64 {
        match self.scenario.elephant {
            None => 0,
            Some(share) if self.random.random::<f64>() < share => 1,
            Some(_) => 2 + self.random.random_range(0..MICE),
        }
    }

    fn draw_worker(&mut self) -> usize {
        match self.scenario.pinned {
            Some(share) if self.random.random::<f64>() < share => 0,
            _ => self.random.random_range(0..self.scenario.workers),
        }
    }

    fn at(&mut self, at_us: u64, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((at_us, self.scheduled, event)));
    }

    fn end_us(&self) -> u64 {
        (self.scenario.phases.iter().map(|phase| phase.seconds).sum::<f64>() * 1e6) as u64
    }

    fn count(&mut self, id: usize) -> &mut crate::outcome::ClassOutcome {
        let Request { phase, class, .. } = self.requests[id];
        &mut self.outcome.phases[phase].classes[class]
    }

    fn tenant(&mut self, id: usize) -> Option<&mut (f64, f64)> {
        let Request { phase, class, tenant, .. } = self.requests[id];
        let index = usize::try_from(tenant).ok()?.checked_sub(1).filter(|_| class == 2)?;
        self.outcome.phases[phase].tenants.get_mut(index)
    }

    fn moment(&mut self) -> &mut Moment {
        let last = self.outcome.timeline.len() - 1;
        let index = (self.now_us / 100_000) as usize;
        &mut self.outcome.timeline[index.min(last)]
    }
}
