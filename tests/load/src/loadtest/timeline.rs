//! A run over time, in slices.

use serde::Serialize;
use sluicegate_policy::class::Class;

use super::measure::within;
use super::pace::CAPACITY;
use super::scenario::Scenario;
use super::system::System;
use crate::generate::record::{Outcome, Record};

/// Length of a slice, seconds.
const SLICE_S: f64 = 0.25;

/// One run of a scenario in which something happens.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Timeline {
    #[serde(serialize_with = "System::serialize_name")]
    pub(crate) system: System,
    pub(crate) scenario: &'static str,
    pub(crate) slices: Vec<Slice>,
}

/// A quarter of a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Slice {
    /// Its middle, seconds.
    pub(crate) at_s: f64,
    /// Attempts over full capacity.
    pub(crate) offered: f64,
    /// Answers in time over full capacity.
    pub(crate) goodput: f64,
    /// Share of the critical attempts answered in time; `None` when there were none.
    pub(crate) critical: Option<f64>,
}

// === impl Timeline ===

impl Timeline {
    pub(crate) fn of(system: System, scenario: &Scenario, records: &[Record]) -> Timeline {
        let n = (scenario.seconds() / SLICE_S).floor() as usize;
        let slices = (0..n).map(|i| {
            let from_s = i as f64 * SLICE_S;
            slice(from_s + SLICE_S / 2.0, within(records, from_s, from_s + SLICE_S))
        });
        Timeline { system, scenario: scenario.name, slices: slices.collect() }
    }
}

fn slice(at_s: f64, records: &[Record]) -> Slice {
    let share = |n: usize| n as f64 / SLICE_S / CAPACITY;
    let is_ok = |record: &&Record| record.outcome == Outcome::Ok;
    let critical: Vec<&Record> = records.iter().filter(|record| record.class == Class::Critical).collect();
    let critical_ok = critical.iter().copied().filter(is_ok).count();
    Slice {
        at_s,
        offered: share(records.len()),
        goodput: share(records.iter().filter(is_ok).count()),
        critical: (!critical.is_empty()).then(|| critical_ok as f64 / critical.len() as f64),
    }
}
