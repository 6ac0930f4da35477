//! What happens in a run, and what of it is measured.

use super::pace::{Pace, SERVICE_MS};
use super::system::System;
use crate::generate::plan::{Patience, Retries, Tenants};
use crate::generate::transport::Transport;

/// A load with its circumstances.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// The name in reports.
    pub(crate) name: &'static str,
    /// Offered load, multiples of capacity, and length, seconds.
    pub(crate) phases: Vec<(f64, f64)>,
    /// What is measured, in order, not overlapping.
    pub(crate) segments: Vec<Segment>,
    /// When the mean service time changes, seconds, and to what, milliseconds.
    pub(crate) service_changes: Vec<(f64, f64)>,
    pub(crate) patience: Patience,
    pub(crate) retries: Retries,
    pub(crate) transport: Transport,
    pub(crate) tenants: Tenants,
    /// Worker threads of Envoy.
    pub(crate) workers: usize,
    /// Requests a second that each tenant may send, counted in Redis.
    pub(crate) quota_per_tenant: Option<u32>,
    /// Nobody answers for the admin endpoint.
    pub(crate) admin_blocked: bool,
    /// When the VM that leads goes away, without a word to the others, seconds.
    pub(crate) leader_lost_s: Option<f64>,
    /// Systems that it is run with.
    pub(crate) systems: &'static [System],
}

/// A stretch of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Segment {
    pub(crate) label: String,
    /// Offered load without retries, multiples of full capacity.
    pub(crate) load: f64,
    /// Start and end, seconds.
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
    /// Capacity in it, multiples of full capacity.
    pub(crate) capacity: f64,
    pub(crate) kind: Kind,
}

/// What a segment is looked at for besides its counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing.
    Steady,
    /// How long until goodput is there.
    Onset,
    /// How long until nobody is refused any more.
    Recovery,
}

const OURS: &[System] = &[System::SluicegatePool, System::SluicegateLatency];

const ADAPTING: &[System] =
    &[System::SluicegatePool, System::SluicegateLatency, System::AdaptiveConcurrency, System::Breaker];

const STORMED: &[System] = &[
    System::SluicegatePool,
    System::SluicegateLatency,
    System::None,
    System::AdaptiveConcurrency,
    System::Breaker,
];

const STORM: Retries = Retries { max: 3, backoff_ms: 50, honour_retry_after: false };

/// Every scenario at this pace.
pub(crate) fn all(pace: Pace, is_quick: bool) -> Vec<Scenario> {
    let steps: &[f64] = if is_quick { &[0.8, 1.2, 2.0, 5.0] } else { &[0.5, 0.8, 0.95, 1.2, 2.0, 3.0, 5.0] };
    let mut all: Vec<Scenario> = steps.iter().map(|load| Scenario::step(pace, *load)).collect();
    all.extend([
        Scenario::spike(pace),
        Scenario::halved(pace),
        Scenario::storm(pace, "retry_storm", STORM),
        Scenario::storm(pace, "retry_after", Retries { honour_retry_after: true, ..STORM }),
        Scenario::elephant(pace),
        Scenario { admin_blocked: true, systems: OURS, ..Scenario::steady(pace, "admin_blocked", 2.0) },
        Scenario::leaderless(pace),
        Scenario::quota(pace),
        Scenario {
            transport: Transport::Http2 { connections: 1 },
            systems: OURS,
            ..Scenario::steady(pace, "pinned_http2", 5.0)
        },
    ]);
    if is_quick {
        // The baselines stand in the curve; the rest of the time is ours.
        all.iter_mut().filter(|one| one.name != "steps").for_each(|one| one.systems = OURS);
        return all;
    }
    all.extend([
        Scenario { workers: 4, systems: OURS, ..Scenario::steady(pace, "four_workers", 5.0) },
        Scenario { patience: Patience::Wait, systems: ADAPTING, ..Scenario::steady(pace, "patient", 2.0) },
        Scenario {
            transport: Transport::Http2 { connections: 8 },
            systems: OURS,
            ..Scenario::steady(pace, "http2", 2.0)
        },
        Scenario::cold(pace),
    ]);
    all
}

// === impl Scenario ===

impl Scenario {
    pub(crate) fn has_tenants(&self) -> bool {
        self.tenants.count > 0
    }

    /// Length, seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.phases.iter().map(|(_, seconds)| seconds).sum()
    }

    /// One step of the curve: every system, from a warm start.
    fn step(pace: Pace, load: f64) -> Scenario {
        Scenario { systems: &System::ALL, ..Scenario::steady(pace, "steps", load) }
    }

    fn steady(pace: Pace, name: &'static str, load: f64) -> Scenario {
        let from_s = pace.warm_s + pace.settle_s;
        let to_s = from_s + pace.hold_s;
        Scenario {
            name,
            phases: vec![(0.5_f64.min(load), pace.warm_s), (load, pace.settle_s + pace.hold_s)],
            segments: vec![segment(format!("{load}x"), load, from_s, to_s, Kind::Steady)],
            service_changes: Vec::new(),
            patience: Patience::GiveUp,
            retries: Retries::NONE,
            transport: Transport::Http1 { connections: 64 },
            tenants: Tenants::NONE,
            workers: 2,
            quota_per_tenant: None,
            admin_blocked: false,
            leader_lost_s: None,
            systems: OURS,
        }
    }

    /// The VM that leads goes when a third of the measurement is over.
    fn leaderless(pace: Pace) -> Scenario {
        let lost_s = pace.warm_s + pace.settle_s + pace.hold_s / 3.0;
        Scenario { leader_lost_s: Some(lost_s), ..Scenario::steady(pace, "leader_lost", 5.0) }
    }

    /// From calm to five times capacity and back.
    fn spike(pace: Pace) -> Scenario {
        let (up_s, down_s) = (pace.warm_s, pace.warm_s + pace.hold_s);
        let end_s = down_s + pace.hold_s;
        Scenario {
            phases: vec![(0.6, up_s), (5.0, pace.hold_s), (0.6, pace.hold_s)],
            segments: vec![
                segment("spike".into(), 5.0, up_s, down_s, Kind::Onset),
                segment("after".into(), 0.6, down_s, end_s, Kind::Recovery),
            ],
            systems: ADAPTING,
            ..Scenario::steady(pace, "spike", 5.0)
        }
    }

    /// Twice the load, and in the middle of it every request takes twice as long.
    fn halved(pace: Pace) -> Scenario {
        let change_s = pace.warm_s + pace.settle_s;
        let end_s = change_s + pace.hold_s;
        let halved = segment("halved".into(), 2.0, change_s, end_s, Kind::Onset);
        Scenario {
            segments: vec![Segment { capacity: 0.5, ..halved }],
            service_changes: vec![(change_s, 2.0 * SERVICE_MS)],
            systems: ADAPTING,
            ..Scenario::steady(pace, "capacity_halved", 2.0)
        }
    }

    /// Twice the load from clients that try again, then less than capacity.
    fn storm(pace: Pace, name: &'static str, retries: Retries) -> Scenario {
        let (up_s, down_s) = (pace.warm_s, pace.warm_s + pace.hold_s);
        let end_s = down_s + pace.hold_s;
        Scenario {
            phases: vec![(0.8, up_s), (2.0, pace.hold_s), (0.8, pace.hold_s)],
            segments: vec![
                segment("storm".into(), 2.0, up_s, down_s, Kind::Onset),
                segment("after".into(), 0.8, down_s, end_s, Kind::Recovery),
            ],
            retries,
            systems: STORMED,
            ..Scenario::steady(pace, name, 2.0)
        }
    }

    /// Ten tenants, the first of which sends half the load.
    fn elephant(pace: Pace) -> Scenario {
        Scenario {
            // Of the rest each of the ten sends a tenth: 4/9 + 5/9 / 10 = 1/2.
            tenants: Tenants { count: 10, elephant: 4.0 / 9.0 },
            systems: ADAPTING,
            ..Scenario::steady(pace, "elephant", 2.0)
        }
    }

    /// Three times the load from ten tenants whose quotas add up to one and a half times capacity.
    fn quota(pace: Pace) -> Scenario {
        Scenario {
            tenants: Tenants { count: 10, elephant: 0.0 },
            quota_per_tenant: Some(120),
            ..Scenario::steady(pace, "quota_and_overload", 3.0)
        }
    }

    /// Straight into twice the load.
    fn cold(pace: Pace) -> Scenario {
        Scenario {
            phases: vec![(2.0, pace.hold_s)],
            segments: vec![segment("2x".into(), 2.0, pace.settle_s, pace.hold_s, Kind::Steady)],
            systems: ADAPTING,
            ..Scenario::steady(pace, "cold_start", 2.0)
        }
    }
}

fn segment(label: String, load: f64, from_s: f64, to_s: f64, kind: Kind) -> Segment {
    Segment { label, load, from_s, to_s, capacity: 1.0, kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_lie_within_their_scenario_in_order() {
        for scenario in all(Pace::FULL, false).into_iter().chain(all(Pace::QUICK, true)) {
            let mut at_s = 0.0;
            for segment in &scenario.segments {
                assert!(at_s <= segment.from_s && segment.from_s < segment.to_s, "{}", scenario.name);
                at_s = segment.to_s;
            }
            assert!(at_s <= scenario.seconds() + 1e-9, "{}", scenario.name);
        }
    }

    #[test]
    fn the_quick_run_is_under_five_minutes() {
        // Each run starts its own processes: about a second.
        let seconds: f64 = all(Pace::QUICK, true)
            .iter()
            .map(|scenario| scenario.systems.len() as f64 * (scenario.seconds() + 1.0))
            .sum();
        assert!(seconds < 285.0, "{seconds}");
    }
}
