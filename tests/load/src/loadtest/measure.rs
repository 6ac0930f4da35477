//! From what a run has left behind to figures.

use std::collections::BTreeMap;

use serde::Serialize;
use sluicegate_policy::class::Class;

use super::pace::{CAPACITY, SERVICE_MS};
use super::scenario::{Kind, Scenario};
use super::system::System;
use super::trial::{Span, Trial};
use crate::generate::record::{Outcome, Record};
use crate::stats::{fairness, first_second};
use crate::tally::{self, Latency, Tallies};
use crate::validity::Validity;

/// Share of capacity from which goodput is there.
const THERE: f64 = 0.9;

/// Share of requests refused, failed or late up to which things are normal.
const NORMAL: f64 = 0.01;

/// The figures of one segment of one run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measured {
    pub(crate) system: &'static str,
    pub(crate) scenario: &'static str,
    pub(crate) segment: String,
    pub(crate) repeat: u32,
    /// Offered load without retries, multiples of capacity.
    pub(crate) load: f64,
    pub(crate) validity: Validity,
    /// Attempts, retries included.
    pub(crate) classes: Tallies,
    /// Answers in time over capacity, corrected for the service times that were really drawn.
    pub(crate) goodput_over_capacity: f64,
    /// The same over nominal capacity: scattered by about 1.3 points in 10 s.
    pub(crate) goodput_over_nominal: f64,
    /// Answers in time by class over capacity.
    pub(crate) goodput_by_class: BTreeMap<String, f64>,
    pub(crate) critical_success: f64,
    pub(crate) latency: Option<Latency>,
    /// Time to the first second with 90 % of capacity, seconds.
    pub(crate) onset_s: Option<f64>,
    /// Time to the first second with at most 1 % refused, failed or late, seconds, from when the load offered
    /// (retries included) was below capacity.
    pub(crate) recovery_s: Option<f64>,
    /// Jain's index over tenants in the contended class.
    pub(crate) jain: Option<f64>,
    /// Refused share where load is below capacity.
    pub(crate) false_sheds: Option<f64>,
    /// Requests that the upstream served for nobody, share of all it served.
    pub(crate) wasted: f64,
    /// Processor time of Envoy for each attempt, microseconds.
    pub(crate) envoy_us_per_request: f64,
}

/// The figures of every segment of a run.
pub(crate) fn measure(system: System, scenario: &Scenario, repeat: u32, trial: &Trial) -> Vec<Measured> {
    trial.spans.iter().map(|span| one(system, scenario, repeat, trial, span)).collect()
}

fn one(system: System, scenario: &Scenario, repeat: u32, trial: &Trial, span: &Span) -> Measured {
    let segment = &span.segment;
    let records = within(&trial.records, segment.from_s, segment.to_s);
    let seconds = segment.to_s - segment.from_s;
    let capacity = CAPACITY * segment.capacity;
    let classes = tally::tallies(records);
    let total = tally::total(&classes);
    let drawn = drawn_over_nominal(span);
    let over_capacity = |ok: u64| ok as f64 / seconds / capacity * drawn;
    let lag_p99_ms = tally::lag_p99_ms(records);
    let least_idle = span.to.cores.least_idle_since(&span.from.cores);
    let arrived = span.to.upstream.arrived - span.from.upstream.arrived;
    let abandoned = span.to.upstream.abandoned - span.from.upstream.abandoned;
    let cpu_us = span.to.envoy.cpu_ns.saturating_sub(span.from.envoy.cpu_ns) as f64 / 1_000.0;
    Measured {
        system: system.name(),
        scenario: scenario.name,
        segment: segment.label.clone(),
        repeat,
        load: segment.load,
        validity: Validity::of(lag_p99_ms, least_idle),
        goodput_over_capacity: over_capacity(total.ok),
        goodput_over_nominal: total.ok as f64 / seconds / capacity,
        goodput_by_class: classes.iter().map(|(name, t)| (name.clone(), over_capacity(t.ok))).collect(),
        critical_success: classes.get(Class::Critical.name()).map_or(1.0, tally::Tally::success),
        latency: tally::latency(records),
        onset_s: (segment.kind == Kind::Onset).then(|| onset_s(records, span, capacity / drawn)).flatten(),
        recovery_s: (segment.kind == Kind::Recovery).then(|| recovery_s(records, span)).flatten(),
        jain: scenario.has_tenants().then(|| contended_jain(records, scenario.tenants.count)).flatten(),
        false_sheds: (segment.load < segment.capacity).then(|| total.refused()),
        wasted: (abandoned as f64 / arrived.max(1) as f64).min(1.0),
        envoy_us_per_request: cpu_us / total.offered.max(1) as f64,
        classes,
    }
}

/// The records that were due in `from_s..to_s`.
pub(crate) fn within(records: &[Record], from_s: f64, to_s: f64) -> &[Record] {
    let position = |s: f64| records.partition_point(|record| (record.due_us as f64) < s * 1e6);
    records.get(position(from_s)..position(to_s)).unwrap_or_default()
}

/// Mean service time drawn over the nominal mean. The rest of the randomness is the arrivals'.
fn drawn_over_nominal(span: &Span) -> f64 {
    let arrived = span.to.upstream.arrived - span.from.upstream.arrived;
    let drawn_us = span.to.upstream.drawn_us - span.from.upstream.drawn_us;
    let nominal_us = SERVICE_MS * 1_000.0 / span.segment.capacity;
    if arrived < 100 { 1.0 } else { drawn_us as f64 / arrived as f64 / nominal_us }
}

fn onset_s(records: &[Record], span: &Span, capacity: f64) -> Option<f64> {
    let is_there = |from_us, to_us| {
        let ok = slice(records, from_us, to_us).iter().filter(|record| record.outcome == Outcome::Ok).count();
        ok as f64 >= THERE * capacity
    };
    first_second(us(span.segment.from_s), us(span.segment.to_s), is_there)
}

fn recovery_s(records: &[Record], span: &Span) -> Option<f64> {
    let (from_us, to_us) = (us(span.segment.from_s), us(span.segment.to_s));
    let is_offered_less = |from_us, to_us| (slice(records, from_us, to_us).len() as f64) < CAPACITY;
    let below_s = first_second(from_us, to_us, is_offered_less)?;
    let is_normal = |from_us, to_us| {
        let records = slice(records, from_us, to_us);
        let bad = records.iter().filter(|record| record.outcome != Outcome::Ok).count();
        bad as f64 <= NORMAL * records.len() as f64
    };
    first_second(from_us + us(below_s), to_us, is_normal)
}

/// The index in the class of which the part refused is nearest to a half; `None` when no class is contended.
fn contended_jain(records: &[Record], tenants: u16) -> Option<f64> {
    let (_, class) = tally::tallies(records)
        .into_iter()
        .filter(|(_, tally)| (0.05..0.95).contains(&tally.refused()))
        .map(|(name, tally)| ((tally.refused() - 0.5).abs(), name))
        .min_by(|a, b| a.0.total_cmp(&b.0))?;
    let mut demands = vec![0.0; usize::from(tenants)];
    let mut got = demands.clone();
    for record in records.iter().filter(|record| record.class.name() == class) {
        let tenant = usize::from(record.tenant);
        demands.iter_mut().skip(tenant).take(1).for_each(|n| *n += 1.0);
        let ok = f64::from(u8::from(record.outcome == Outcome::Ok));
        got.iter_mut().skip(tenant).take(1).for_each(|n| *n += ok);
    }
    Some(fairness(&demands, &got))
}

fn slice(records: &[Record], from_us: u64, to_us: u64) -> &[Record] {
    let position = |limit| records.partition_point(|record| record.due_us < limit);
    records.get(position(from_us)..position(to_us)).unwrap_or_default()
}

fn us(s: f64) -> u64 {
    (s * 1e6).round() as u64
}
