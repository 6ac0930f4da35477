//! What `make simulate` runs: the axes along which a law could fail, one varied at a time.

use crate::scenario::{Controller, Phase, Polls, Retry, Scatter, Scenario};
use sluicegate_policy::policy::Law;

/// One scenario under one controller.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Which axis it is on.
    pub group: &'static str,
    /// Where on it.
    pub name: String,
    /// Who decides.
    pub system: &'static str,
    /// What is simulated.
    pub scenario: Scenario,
    /// The phases that are worth a line.
    pub phases: std::ops::Range<usize>,
}

/// How Envoy reaches the upstream, and which law is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A right connection bound.
    Pool,
    /// HTTP/2 without bounds.
    Latency,
    /// Envoy's default bound of 1,024 connections, and the law is to find out that it says nothing.
    Unbounded,
}

/// Seconds below capacity, seconds to settle, seconds measured.
pub const PACE: [f64; 3] = [3.0, 2.0, 12.0];
/// Offered loads of the curve.
pub const LOADS: [f64; 8] = [0.5, 0.8, 0.95, 1.2, 2.0, 3.0, 5.0, 10.0];

/// The axes, in the order of the report.
const GROUPS: [&str; 9] =
    ["load", "change", "cold start", "clients", "service law", "size", "skew", "tick", "faults"];

impl Mode {
    /// Both modes and the trap between them.
    pub const ALL: [Mode; 3] = [Mode::Pool, Mode::Latency, Mode::Unbounded];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Pool => "pool",
            Mode::Latency => "latency",
            Mode::Unbounded => "unbounded",
        }
    }

    /// The rig with our own control.
    pub fn rig(self) -> Scenario {
        let law = if self == Mode::Latency { Law::Latency } else { Law::Auto };
        self.reach(Scenario::rig(Controller::Sluicegate(law)))
    }

    /// The connections of this mode before the upstream of a scenario.
    pub fn reach(self, scenario: Scenario) -> Scenario {
        let connections = match self {
            Mode::Pool => Some(scenario.servers + scenario.servers / 4),
            Mode::Latency => None,
            Mode::Unbounded => Some(1_024),
        };
        Scenario { connections, ..scenario }
    }
}

impl Scenario {
    /// From half of the capacity to this load, which is then held.
    #[must_use]
    pub fn held(self, load: f64) -> Scenario {
        let [warm, settle, hold] = PACE;
        self.through(&[Phase::new(warm, load.min(0.5)), Phase::new(settle, load), Phase::new(hold, load)])
    }

    /// The same, and then the upstream changes.
    #[must_use]
    pub fn changed(self, load: f64, slowdown: f64, servers: f64) -> Scenario {
        let [warm, settle, hold] = PACE;
        let change = Phase { slowdown, servers, ..Phase::new(hold, load) };
        self.through(&[Phase::new(warm, load.min(0.5)), Phase::new(settle, load), change])
    }

    /// These phases.
    #[must_use]
    pub fn through(self, phases: &[Phase]) -> Scenario {
        Scenario { phases: phases.to_vec(), ..self }
    }
}

/// Every cell.
pub fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for mode in Mode::ALL {
        for load in LOADS {
            cells.push(cell("load", format!("{load}x"), mode, mode.rig().held(load)));
        }
    }
    cells.extend(baselines());
    for mode in Mode::ALL {
        cells.extend(upstreams(mode));
        cells.extend(events(mode));
        cells.extend(clients(mode));
        cells.extend(faults(mode));
    }
    cells.sort_by_key(|cell| GROUPS.iter().position(|group| *group == cell.group));
    cells
}

fn cell(group: &'static str, name: String, mode: Mode, scenario: Scenario) -> Cell {
    let last = scenario.phases.len();
    Cell { group, name, system: mode.name(), scenario, phases: last - 1..last }
}

fn baselines() -> Vec<Cell> {
    let systems: [(&str, Controller, Option<usize>); 4] = [
        ("none", Controller::Nothing, None),
        ("breaker", Controller::Breaker(64), Some(20)),
        ("threshold", Controller::Threshold(8.0), Some(20)),
        ("adaptive_concurrency", Controller::Gradient, None),
    ];
    let mut cells = Vec::new();
    for (system, controller, connections) in systems {
        for load in LOADS {
            let scenario = Scenario { connections, ..Scenario::rig(controller) }.held(load);
            cells.push(Cell { system, ..cell("load", format!("{load}x"), Mode::Pool, scenario) });
        }
        let scenario = Scenario { connections, ..Scenario::rig(controller) }.changed(2.0, 2.0, 1.0);
        cells.push(Cell { system, ..cell("change", "half as fast at 2x".into(), Mode::Pool, scenario) });
    }
    cells
}

/// Sizes, laws and workers.
fn upstreams(mode: Mode) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (name, scatter) in
        [("fixed", Scatter::Fixed), ("log-normal", Scatter::LogNormal), ("bimodal", Scatter::Bimodal)]
    {
        for load in [1.2, 5.0] {
            let scenario = Scenario { scatter, ..mode.rig() }.held(load);
            cells.push(cell("service law", format!("{name} {load}x"), mode, scenario));
        }
    }
    for (servers, service_ms, workers) in [
        (4, 5.0, 2),
        (4, 50.0, 2),
        (16, 2.0, 2),
        (16, 20.0, 4),
        (64, 100.0, 4),
        (128, 20.0, 8),
        (256, 50.0, 4),
    ] {
        for load in [0.8, 1.2, 5.0] {
            let deadline_us = if 40.0 < service_ms { 1_000_000 } else { 250_000 };
            let service_us = service_ms * 1e3;
            let scenario = Scenario { servers, service_us, workers, deadline_us, ..mode.rig() };
            let name = format!("{servers} x {service_ms} ms, {workers} workers, {load}x");
            cells.push(cell("size", name, mode, mode.reach(scenario).held(load)));
        }
    }
    for share in [0.6, 0.95, 1.0] {
        for load in [0.8, 5.0] {
            let scenario = Scenario { pinned: Some(share), ..mode.rig() }.held(load);
            cells.push(cell("skew", format!("{share} on one worker, {load}x"), mode, scenario));
        }
    }
    for tick_ms in [20, 1_000] {
        let scenario = Scenario { tick_us: tick_ms * 1_000, ..mode.rig() }.held(2.0);
        cells.push(cell("tick", format!("{tick_ms} ms, 2x"), mode, scenario));
    }
    cells
}

/// Loads and capacities that change.
fn events(mode: Mode) -> Vec<Cell> {
    let [warm, _, hold] = PACE;
    let phases = |phases: &[(f64, f64)]| -> Vec<Phase> {
        phases.iter().map(|(seconds, load)| Phase::new(*seconds, *load)).collect()
    };
    let spike = phases(&[(warm, 0.6), (hold, 5.0), (hold, 0.6)]);
    let bursts: Vec<Phase> = (0..24).map(|i| Phase::new(0.5, if i % 2 == 0 { 1.28 } else { 0.32 })).collect();
    vec![
        Cell { phases: 1..3, ..cell("change", "spike to 5x".into(), mode, mode.rig().through(&spike)) },
        cell("change", "half as fast at 2x".into(), mode, mode.rig().changed(2.0, 2.0, 1.0)),
        cell("change", "half as fast at 0.8x".into(), mode, mode.rig().changed(0.8, 2.0, 1.0)),
        cell("change", "a third as fast at 2x".into(), mode, mode.rig().changed(2.0, 3.0, 1.0)),
        cell("change", "half the servers at 2x".into(), mode, mode.rig().changed(2.0, 1.0, 0.5)),
        cell("change", "twice as fast at 4x".into(), mode, mode.rig().changed(4.0, 0.5, 1.0)),
        cell("change", "bursts of 0.5 s to 1.28x".into(), mode, mode.rig().through(&bursts)),
        cell("cold start", "2x".into(), mode, mode.rig().through(&phases(&[(2.0, 2.0), (hold, 2.0)]))),
        cell("cold start", "5x".into(), mode, mode.rig().through(&phases(&[(2.0, 5.0), (hold, 5.0)]))),
    ]
}

/// Retries, patience, tenants and mixes.
fn clients(mode: Mode) -> Vec<Cell> {
    let [warm, _, hold] = PACE;
    let storm = [Phase::new(warm, 0.8), Phase::new(hold, 2.0), Phase::new(hold, 0.8)];
    let mut cells = Vec::new();
    for (name, retry) in [("at once", Retry::Soon(3)), ("when told", Retry::WhenTold(3))] {
        let scenario = Scenario { retry, ..mode.rig() }.through(&storm);
        let name = format!("retry {name}, 2x then 0.8x");
        cells.push(Cell { phases: 1..3, ..cell("clients", name, mode, scenario) });
    }
    let mut add = |name: &str, scenario: Scenario| {
        cells.push(cell("clients", format!("{name}, 2x"), mode, scenario.held(2.0)));
    };
    add("patient", Scenario { give_up: false, ..mode.rig() });
    add("one tenant with half", Scenario { elephant: Some(0.5), ..mode.rig() });
    add("deadline told", Scenario { deadline_told: true, ..mode.rig() });
    add("only critical", Scenario { mix: [1.0, 0.0, 0.0, 0.0, 0.0], ..mode.rig() });
    add("only low", Scenario { mix: [0.0, 0.0, 0.0, 1.0, 0.0], ..mode.rig() });
    cells
}

/// Polls and leaders that are lost.
fn faults(mode: Mode) -> Vec<Cell> {
    let polls = |polls: Polls| Scenario { polls, ..mode.rig() }.held(2.0);
    let leader = Scenario { leader_dies_us: Some(8_000_000), ..mode.rig() }.held(2.0);
    vec![
        cell("faults", "a tenth of the polls lost".into(), mode, polls(Polls::Lost(0.1))),
        cell("faults", "all polls lost".into(), mode, polls(Polls::Lost(1.0))),
        cell("faults", "stats frozen".into(), mode, polls(Polls::Frozen(6_000_000))),
        cell("faults", "the leader's VM dies".into(), mode, leader),
    ]
}
