//! Medians over rounds of what two systems did in the same round.

use std::collections::BTreeMap;

use serde::Serialize;

use super::round::{Point, Round};
use super::system::System;
use crate::stats::median;

/// Added latency at one connection, microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Added {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// Processor time for each request with 32 connections, microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Cost {
    pub(crate) envoy: f64,
    pub(crate) shim: f64,
    pub(crate) redis: f64,
}

/// Which of the connections.
const ONE: usize = 0;
const MANY: usize = 1;

/// Numerators and denominators of the throughput ratios with 32 connections.
const RATIOS: [(&str, System, System); 8] = [
    ("noop_wasm_vs_plain", System::Noop, System::Plain),
    ("local_vs_noop_wasm", System::Local, System::Noop),
    ("leased_vs_noop_wasm", System::Leased, System::Noop),
    ("shared_vs_noop_wasm", System::Shared, System::Noop),
    ("shared_vs_local_ratelimit", System::Shared, System::LocalRatelimit),
    ("denied_vs_noop_wasm", System::Denied, System::Noop),
    ("shared_5_limits_vs_noop_wasm", System::SharedFive, System::Noop),
    ("callout_each_vs_noop_wasm", System::Callout, System::Noop),
];

/// Throughput ratios, and the processor time of Envoy for a denied request over that for a direct response.
pub(crate) fn ratios(rounds: &[Vec<Round>]) -> BTreeMap<&'static str, f64> {
    let rate = |point: &Point| point.rps;
    let cpu = |point: &Point| point.envoy_us;
    let mut ratios: BTreeMap<&'static str, f64> = RATIOS
        .into_iter()
        .filter_map(|(name, over, under)| {
            Some((name, of_rounds(rounds, MANY, over, under, |a, b| rate(a) / rate(b))?))
        })
        .collect();
    let denials = [
        ("denied_cpu_vs_direct_response", System::Denied),
        ("noop_denied_cpu_vs_direct_response", System::NoopDenied),
    ];
    ratios.extend(denials.into_iter().filter_map(|(name, over)| {
        Some((name, of_rounds(rounds, MANY, over, System::Direct, |a, b| cpu(a) / cpu(b))?))
    }));
    ratios
}

/// Latency that each system adds to plain Envoy at one connection.
pub(crate) fn added(rounds: &[Vec<Round>]) -> BTreeMap<&'static str, Added> {
    let others = System::ALL.into_iter().filter(|system| !matches!(system, System::Plain | System::Direct));
    others
        .filter_map(|system| {
            let of = |figure: fn(&Point) -> f64| {
                of_rounds(rounds, ONE, system, System::Plain, |a, b| figure(a) - figure(b))
            };
            Some((system.name(), Added { p50: of(|point| point.p50_us)?, p99: of(|point| point.p99_us)? }))
        })
        .collect()
}

/// The median latency that a system adds to plain Envoy at one connection, in one round.
pub(crate) fn added_p50(round: &[Round], system: System) -> Option<f64> {
    Some(point(round, ONE, system)?.p50_us - point(round, ONE, System::Plain)?.p50_us)
}

/// What the filter adds to the start of Envoy, milliseconds.
pub(crate) fn vm_start_ms(rounds: &[Vec<Round>]) -> Option<f64> {
    let of = |round: &[Round], system: System| {
        round.iter().find(|one| one.system == system.name()).map(|one| one.start_ms)
    };
    let added = rounds.iter().filter_map(|round| Some(of(round, System::Local)? - of(round, System::Plain)?));
    median(&added.collect::<Vec<_>>())
}

/// Processor time by system.
pub(crate) fn costs(rounds: &[Vec<Round>]) -> BTreeMap<&'static str, Cost> {
    let of = |system: System, figure: fn(&Point) -> f64| typical(rounds, MANY, system, figure);
    System::ALL
        .into_iter()
        .filter_map(|system| {
            let envoy = of(system, |point| point.envoy_us)?;
            let shim = of(system, |point| point.shim_us)?;
            Some((system.name(), Cost { envoy, shim, redis: of(system, |point| point.redis_us)? }))
        })
        .collect()
}

/// The median over rounds of one figure of one system; `at` is an index of the connections.
pub(crate) fn typical(
    rounds: &[Vec<Round>],
    at: usize,
    system: System,
    figure: impl Fn(&Point) -> f64,
) -> Option<f64> {
    let values: Vec<f64> =
        rounds.iter().filter_map(|round| Some(figure(point(round, at, system)?))).collect();
    median(&values)
}

fn of_rounds(
    rounds: &[Vec<Round>],
    at: usize,
    over: System,
    under: System,
    ratio: impl Fn(&Point, &Point) -> f64,
) -> Option<f64> {
    let in_round = |round: &Vec<Round>| Some(ratio(point(round, at, over)?, point(round, at, under)?));
    median(&rounds.iter().filter_map(in_round).collect::<Vec<_>>())
}

fn point(round: &[Round], at: usize, system: System) -> Option<&Point> {
    round.iter().find(|one| one.system == system.name())?.points.get(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(system: System, rps: f64, p50_us: f64) -> Round {
        let point = Point {
            connections: 32,
            rps,
            p50_us,
            p99_us: 2.0 * p50_us,
            envoy_us: 40.0,
            shim_us: 0.0,
            redis_us: 0.0,
            envoy_rss: 0,
            foreign: 0.0,
            other: 0,
            oddity: None,
        };
        Round { system: system.name(), points: vec![point; 3], start_ms: 1.0 }
    }

    #[test]
    fn ratios_are_medians_of_ratios_within_rounds() {
        // A machine that is twice as fast in the second round changes nothing.
        let rounds = [100.0, 200.0, 150.0]
            .map(|speed| vec![round(System::Plain, speed, 10.0), round(System::Noop, 0.8 * speed, 14.0)]);
        let ratios = ratios(&rounds);
        assert!((ratios["noop_wasm_vs_plain"] - 0.8).abs() < 1e-9);
        assert!(!ratios.contains_key("local_vs_noop_wasm"), "what was not measured is not there");
        assert_eq!(added(&rounds)["noop_wasm"], Added { p50: 4.0, p99: 8.0 });
    }
}
