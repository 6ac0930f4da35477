//! What the project promises about its speed, and whether this run shows it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::ratio::{self, Added};
use super::redis::RedisRound;
use super::round::Round;
use super::scale::Scaled;
use super::system::System;
use crate::stats::median;

/// A promise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Bar {
    pub(crate) measure: &'static str,
    pub(crate) is: f64,
    /// Where it has to be.
    pub(crate) wanted: Wanted,
    pub(crate) met: bool,
}

/// A bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Wanted {
    AtLeast(f64),
    AtMost(f64),
}

use Wanted::{AtLeast, AtMost};

/// Bounds on ratios.
const RATIOS: [(&str, Wanted); 6] = [
    ("local_vs_noop_wasm", AtLeast(0.92)),
    ("leased_vs_noop_wasm", AtLeast(0.92)),
    ("shared_vs_noop_wasm", AtLeast(0.85)),
    ("shared_vs_local_ratelimit", AtLeast(0.70)),
    ("redis_batched_vs_pipelined", AtLeast(2.0)),
    ("denied_cpu_vs_direct_response", AtMost(1.3)),
];

/// Most that the memory of Envoy may grow while a worker sees all keys of the curve.
const KEYS_BYTES: f64 = 16.0 * 1_048_576.0;

/// Largest filter.
const WASM_BYTES: f64 = 500.0 * 1_024.0;

/// What bars are about.
pub(crate) struct Figures<'a> {
    pub(crate) ratios: &'a BTreeMap<&'static str, f64>,
    pub(crate) latency_us: &'a BTreeMap<&'static str, Added>,
    pub(crate) rounds: &'a [Vec<Round>],
    pub(crate) redis: &'a [RedisRound],
    pub(crate) by_keys: &'a [Scaled],
    pub(crate) wasm_bytes: u64,
}

/// All bars of what was measured.
pub(crate) fn bars(figures: &Figures<'_>) -> Vec<Bar> {
    let mut bars: Vec<Bar> = RATIOS
        .into_iter()
        .filter_map(|(name, wanted)| Some(Bar::new(name, *figures.ratios.get(name)?, wanted)))
        .collect();
    let added = figures.latency_us.get(System::Shared.name()).map(|added| added.p50);
    if let (Some(added), Some(allowed)) = (added, allowed_us(figures)) {
        bars.push(Bar::new("shared_added_p50_us", added, AtMost(allowed)));
    }
    let most_keys = figures.by_keys.iter().map(|one| one.n).max();
    let grown = figures.by_keys.iter().filter(|one| Some(one.n) == most_keys).map(Scaled::grown_bytes);
    if let Some(grown) = grown.reduce(f64::max) {
        bars.push(Bar::new("vm_growth_with_most_keys_bytes", grown, AtMost(KEYS_BYTES)));
    }
    bars.push(Bar::new("wasm_bytes", figures.wasm_bytes as f64, AtMost(WASM_BYTES)));
    bars
}

/// Latency that a shared decision may add: a bare callout, and two round trips of the script.
fn allowed_us(figures: &Figures<'_>) -> Option<f64> {
    let callouts = figures.rounds.iter().filter_map(|round| ratio::added_p50(round, System::Callout));
    let allowed = callouts.zip(figures.redis).map(|(callout, redis)| callout + 2.0 * redis.roundtrip_us);
    median(&allowed.collect::<Vec<_>>())
}

// === impl Bar ===

impl Bar {
    fn new(measure: &'static str, is: f64, wanted: Wanted) -> Bar {
        let met = match wanted {
            AtLeast(bound) => is >= bound,
            AtMost(bound) => is <= bound,
        };
        Bar { measure, is, wanted, met }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_met_on_its_side_only() {
        assert!(Bar::new("", 0.92, AtLeast(0.92)).met);
        assert!(!Bar::new("", 0.91, AtLeast(0.92)).met);
        assert!(Bar::new("", 1.0, AtMost(1.3)).met);
        assert!(!Bar::new("", 1.4, AtMost(1.3)).met);
        assert!(!Bar::new("", f64::NAN, AtMost(1.3)).met);
    }
}
