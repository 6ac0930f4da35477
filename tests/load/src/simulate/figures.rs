//! One phase of a scenario in a few figures, over several seeds.

use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::world;
use serde::Serialize;

/// What a table shows of a phase. Means over the seeds, unless it says otherwise.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// First attempts offered over the nominal capacity.
    pub load: f64,
    /// Answers in time over what the upstream could do.
    pub goodput: f64,
    /// Of the worst seed.
    pub goodput_least: f64,
    /// By class, critical first: answered in time over offered, of all seeds together.
    pub success: [f64; 5],
    /// By class: offered, of all seeds together.
    pub offered: [u64; 5],
    /// By class: let in over the capacity.
    pub share: [f64; 5],
    /// Time of those answered, milliseconds.
    pub p50_ms: f64,
    /// Time of those answered, milliseconds.
    pub p99_ms: f64,
    /// Refused over offered.
    pub refused: f64,
    /// The same of class normal and above.
    pub refused_upper: f64,
    /// Seconds until nine tenths of the capacity were served; `None` when some seed never came there.
    pub onset_s: Option<f64>,
    /// Seconds until no more than one in a thousand was refused.
    pub recovery_s: f64,
    /// Jain's index over tenants; 1 without tenants.
    pub jain: f64,
    /// Requests the upstream finished for nobody, over its capacity.
    pub wasted: f64,
    /// Requests in flight that were not given back; 0, or there is a leak.
    pub leaked: u64,
}

/// Runs a scenario with seeds from 1 on.
pub fn outcomes(scenario: &Scenario, seeds: u64) -> Vec<Outcome> {
    (1..=seeds).map(|seed| world::run(&Scenario { seed, ..scenario.clone() })).collect()
}

/// The figures of one phase.
pub fn figures(scenario: &Scenario, outcomes: &[Outcome], phase: usize) -> Figures {
    let mut figures = Figures { goodput_least: f64::INFINITY, onset_s: Some(0.0), ..Figures::default() };
    let mut ok = [0; 5];
    let part = 1.0 / outcomes.len() as f64;
    for outcome in outcomes {
        let of = &outcome.phases[phase];
        let capacity = outcome.capacity * of.capacity * of.seconds;
        let goodput = of.goodput(outcome.capacity, scenario.service_us);
        figures.load = of.load;
        figures.goodput += part * goodput;
        figures.goodput_least = figures.goodput_least.min(goodput);
        for (class, counts) in of.classes.iter().enumerate() {
            ok[class] += counts.ok;
            figures.offered[class] += counts.offered;
            figures.share[class] += part * counts.admitted as f64 / capacity;
        }
        figures.p50_ms += part * of.latency_ms(0.5);
        figures.p99_ms += part * of.latency_ms(0.99);
        figures.refused += part * of.shed(5);
        figures.refused_upper += part * of.shed(3);
        let onset_s = outcome.onset_s(phase);
        figures.onset_s = figures.onset_s.zip(onset_s).map(|(sum, onset_s)| sum + part * onset_s);
        figures.recovery_s += part * outcome.recovery_s(phase);
        figures.jain += part * of.fairness();
        figures.wasted += part * of.wasted as f64 / capacity;
        figures.leaked += outcome.leaked;
    }
    for (class, offered) in figures.offered.iter().enumerate() {
        figures.success[class] = if *offered == 0 { 1.0 } else { ok[class] as f64 / *offered as f64 };
    }
    figures
}
