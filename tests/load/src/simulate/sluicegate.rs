//! Ours: the product's own code, one `Control` for each VM, a map for shared data.

use crate::scenario::Scenario;
use crate::system::{Answer, Asked, Belief, End, Place, System};
use sluicegate_policy::identity::IdentityId;
use sluicegate_policy::mode::Mode;
use sluicegate_policy::overload::arrival::{Arrival, Decision, Ending};
use sluicegate_policy::overload::control::{Control, Event};
use sluicegate_policy::overload::shared::{Shared, Version};
use sluicegate_policy::overload::snapshot::Snapshot;
use sluicegate_policy::policy::{Law, Overload, Upstream};
use std::collections::HashMap;

/// The filters of one Envoy.
#[derive(Debug)]
pub struct Sluicegate {
    overload: Overload,
    controls: Vec<Control>,
    /// How often each VM has died.
    lives: Vec<u64>,
    shared: Map,
    leader: Option<usize>,
    /// Changes of state that were told, with their times, microseconds.
    events: Vec<(u64, Event)>,
}

#[derive(Debug, Default)]
struct Map {
    values: HashMap<String, (Vec<u8>, Version)>,
}

impl Shared for Map {
    fn read(&self, key: &str) -> Option<(Vec<u8>, Version)> {
        self.values.get(key).cloned()
    }

    fn write(&mut self, key: &str, value: &[u8], version: Option<Version>) -> bool {
        let entry = self.values.entry(key.to_owned()).or_default();
        if version.is_some_and(|version| version != entry.1) {
            return false;
        }
        *entry = (value.to_vec(), entry.1 + 1);
        true
    }
}

impl Sluicegate {
    /// The filters of a fresh Envoy.
    pub fn new(scenario: &Scenario, law: Law) -> Sluicegate {
        let overload = Overload {
            upstreams: vec![Upstream { cluster: "web".into(), max_in_flight: None, max_connections: None }],
            admin_cluster: Some("admin".into()),
            tick_us: scenario.tick_us,
            law,
            target_delay_us: 10_000,
            default_deadline_us: None,
            tenant: scenario.elephant.map(|_| IdentityId(0)),
            floor_percent: 1,
            streams_max: 1_024,
            retry_after_max_s: 60,
            mode: Mode::Enforce,
        };
        let vms = scenario.workers + 1;
        Sluicegate {
            controls: (0..vms).map(|vm| Control::new(&overload, seed(vm, 0), 0)).collect(),
            overload,
            lives: vec![0; vms],
            shared: Map::default(),
            leader: None,
            events: Vec::new(),
        }
    }
}

impl System for Sluicegate {
    fn ask(&mut self, asked: &Asked, now_us: u64) -> Answer {
        let arrival = Arrival {
            upstream: 0,
            class: asked.class,
            tenant: asked.tenant,
            weight: 1,
            remaining_us: asked.remaining_us,
            // A client's own retry looks like any other request.
            attempt: 1,
            streaming: false,
            random: asked.random,
        };
        match self.controls[asked.worker].admit(&arrival, now_us) {
            Decision::Admit(ticket) | Decision::WouldShed(ticket, _) => {
                Answer::Admit(Some(Place { ticket, life: self.lives[asked.worker] }))
            }
            Decision::Shed(shed) => Answer::Shed { retry_after_s: shed.retry_after_s },
        }
    }

    fn ended(&mut self, worker: usize, place: Option<Place>, end: End, _lasted_us: u64, now_us: u64) {
        let Some(place) = place.filter(|place| place.life == self.lives[worker]) else { return };
        let ending = match end {
            End::Answered => Ending::Answered { headers_us: now_us },
            End::Abandoned => Ending::Abandoned,
        };
        self.controls[worker].done(place.ticket, ending, now_us);
    }

    fn tickers(&self) -> usize {
        self.controls.len()
    }

    fn tick(&mut self, vm: usize, _queue: usize, now_us: u64) -> bool {
        let tick = self.controls[vm].tick(&mut self.shared, now_us);
        if tick.events.contains(&Event::Leading) {
            self.leader = Some(vm);
        }
        self.events.extend(tick.events.into_iter().map(|event| (now_us, event)));
        tick.poll.is_some()
    }

    fn polled(&mut self, vm: usize, body: Option<&[u8]>, now_us: u64) {
        self.controls[vm].on_poll(body, now_us);
    }

    fn kill_leader(&mut self, now_us: u64) {
        let Some(vm) = self.leader else { return };
        self.lives[vm] += 1;
        self.controls[vm] = Control::new(&self.overload, seed(vm, self.lives[vm]), now_us);
    }

    fn in_flight(&self) -> u64 {
        self.controls.iter().map(Control::in_flight).sum()
    }

    fn told(&self) -> Vec<(u64, Event)> {
        self.events.clone()
    }

    fn belief(&self) -> Belief {
        let snapshots = self.shared.values.values();
        let snapshot = snapshots.filter_map(|(bytes, _)| Snapshot::decode(bytes)).next();
        let Some(guidance) = snapshot.and_then(|snapshot| snapshot.entries.into_iter().next()) else {
            return Belief::default();
        };
        Belief {
            limit: guidance.limit,
            base_ms: guidance.base_us / 1e3,
            capacity: guidance.capacity,
            engaged: guidance.engaged,
        }
    }
}

fn seed(vm: usize, life: u64) -> u64 {
    (vm as u64 + 1) * 1_000_003 + life
}
