//! Medians over the runs that count.

use std::collections::BTreeMap;

use serde::Serialize;

use super::measure::Measured;
use crate::stats::median;
use crate::tally::{Tallies, Tally};

/// One segment of a scenario with one system, over all runs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) system: &'static str,
    pub(crate) scenario: &'static str,
    pub(crate) segment: String,
    pub(crate) load: f64,
    pub(crate) runs: usize,
    pub(crate) runs_void: usize,
    /// Why the last void run does not count.
    pub(crate) void: Option<String>,
    /// Sums over the runs that count.
    pub(crate) classes: Tallies,
    /// Critical requests answered in time over all of them, from the sums.
    pub(crate) critical_success: Option<f64>,
    // Medians over the runs that count; `None` when none does.
    pub(crate) goodput_over_capacity: Option<f64>,
    pub(crate) goodput_by_class: BTreeMap<String, f64>,
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
    pub(crate) onset_s: Option<f64>,
    pub(crate) recovery_s: Option<f64>,
    pub(crate) jain: Option<f64>,
    pub(crate) false_sheds: Option<f64>,
    pub(crate) wasted: Option<f64>,
    pub(crate) envoy_us_per_request: Option<f64>,
}

/// One summary for each system, scenario and segment, in the order of the first run of each.
pub(crate) fn summarise(measured: &[Measured]) -> Vec<Summary> {
    let mut groups: Vec<Vec<&Measured>> = Vec::new();
    for one in measured {
        let same = |group: &&mut Vec<&Measured>| group.first().is_some_and(|first| is_same(first, one));
        match groups.iter_mut().find(same) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups.iter().filter_map(|group| summary(group)).collect()
}

fn is_same(a: &Measured, b: &Measured) -> bool {
    a.system == b.system && a.scenario == b.scenario && a.segment == b.segment
}

fn summary(group: &[&Measured]) -> Option<Summary> {
    let first = group.first()?;
    let valid: Vec<&Measured> = group.iter().copied().filter(|one| one.validity.void.is_none()).collect();
    let of = |figure: &dyn Fn(&Measured) -> Option<f64>| {
        median(&valid.iter().filter_map(|one| figure(one)).collect::<Vec<_>>())
    };
    let mut classes = Tallies::new();
    for (name, tally) in valid.iter().flat_map(|one| &one.classes) {
        classes.entry(name.clone()).or_default().merge(*tally);
    }
    let by_class = first
        .goodput_by_class
        .keys()
        .filter_map(|name| Some((name.clone(), of(&|one| one.goodput_by_class.get(name).copied())?)));
    Some(Summary {
        system: first.system,
        scenario: first.scenario,
        segment: first.segment.clone(),
        load: first.load,
        runs: valid.len(),
        runs_void: group.len() - valid.len(),
        void: group.iter().rev().find_map(|one| one.validity.void.clone()),
        critical_success: classes.get("critical").filter(|t| t.offered > 0).map(Tally::success),
        goodput_over_capacity: of(&|one| Some(one.goodput_over_capacity)),
        goodput_by_class: by_class.collect(),
        p50_ms: of(&|one| Some(one.latency?.p50_ms)),
        p99_ms: of(&|one| Some(one.latency?.p99_ms)),
        onset_s: of(&|one| one.onset_s),
        recovery_s: of(&|one| one.recovery_s),
        jain: of(&|one| one.jain),
        false_sheds: of(&|one| one.false_sheds),
        wasted: of(&|one| Some(one.wasted)),
        envoy_us_per_request: of(&|one| Some(one.envoy_us_per_request)),
        classes,
    })
}
