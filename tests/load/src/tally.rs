//! Sums of records.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sluicegate_policy::class::Class;

use crate::generate::record::{Outcome, Record};
use crate::stats::percentile;

/// Counts of one class. `offered = admitted + quota_rejected + saturation_rejected`, and
/// `admitted = ok + failed + deadline_missed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tally {
    pub(crate) offered: u64,
    pub(crate) admitted: u64,
    pub(crate) quota_rejected: u64,
    pub(crate) saturation_rejected: u64,
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    pub(crate) deadline_missed: u64,
}

/// Counts by class name, most important first when iterated by [`Class::ALL`].
pub(crate) type Tallies = BTreeMap<String, Tally>;

/// Latency of the admitted requests that were answered in time, milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) p50_ms: f64,
    pub(crate) p90_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
}

// === impl Tally ===

impl Tally {
    pub(crate) fn add(&mut self, outcome: Outcome) {
        self.offered += 1;
        let (sum, part) = match outcome {
            Outcome::Quota => (None, &mut self.quota_rejected),
            Outcome::Saturation => (None, &mut self.saturation_rejected),
            Outcome::Ok => (Some(&mut self.admitted), &mut self.ok),
            Outcome::Failed => (Some(&mut self.admitted), &mut self.failed),
            Outcome::DeadlineMissed => (Some(&mut self.admitted), &mut self.deadline_missed),
        };
        *part += 1;
        if let Some(sum) = sum {
            *sum += 1;
        }
    }

    pub(crate) fn merge(&mut self, other: Tally) {
        self.offered += other.offered;
        self.admitted += other.admitted;
        self.quota_rejected += other.quota_rejected;
        self.saturation_rejected += other.saturation_rejected;
        self.ok += other.ok;
        self.failed += other.failed;
        self.deadline_missed += other.deadline_missed;
    }

    /// Share of the offered that was answered in time; 1 of nothing.
    pub(crate) fn success(&self) -> f64 {
        if self.offered == 0 { 1.0 } else { self.ok as f64 / self.offered as f64 }
    }

    /// Share of the offered that was refused; 0 of nothing.
    pub(crate) fn refused(&self) -> f64 {
        let refused = self.quota_rejected + self.saturation_rejected;
        if self.offered == 0 { 0.0 } else { refused as f64 / self.offered as f64 }
    }
}

/// Sums by class; every class that can be shed is there.
pub(crate) fn tallies<'a>(records: impl IntoIterator<Item = &'a Record>) -> Tallies {
    let mut tallies: Tallies =
        Class::SHEDDABLE.into_iter().map(|class| (class.name().to_owned(), Tally::default())).collect();
    for record in records {
        tallies.entry(record.class.name().to_owned()).or_default().add(record.outcome);
    }
    tallies
}

/// All classes together.
pub(crate) fn total(tallies: &Tallies) -> Tally {
    let mut total = Tally::default();
    tallies.values().for_each(|tally| total.merge(*tally));
    total
}

/// Latency of the admitted; those that missed their deadline count with the time at which that was known.
pub(crate) fn latency<'a>(records: impl IntoIterator<Item = &'a Record>) -> Option<Latency> {
    let admitted = records.into_iter().filter(|record| !record.outcome.is_refusal());
    let mut us: Vec<u64> = admitted.map(Record::latency_us).collect();
    us.sort_unstable();
    let ms = |share| Some(percentile(&us, share)? as f64 / 1_000.0);
    Some(Latency { p50_ms: ms(0.5)?, p90_ms: ms(0.9)?, p99_ms: ms(0.99)?, max_ms: ms(1.0)? })
}

/// The 99th percentile of the generator's own lag, milliseconds.
pub(crate) fn lag_p99_ms(records: &[Record]) -> f64 {
    let mut us: Vec<u64> = records.iter().map(|record| record.lag_us).collect();
    us.sort_unstable();
    percentile(&us, 0.99).unwrap_or(0) as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(class: Class, outcome: Outcome, us: u64) -> Record {
        Record { class, tenant: 0, attempt: 0, due_us: 1_000, lag_us: 7, done_us: 1_000 + us, outcome }
    }

    #[test]
    fn every_record_is_in_exactly_one_column() {
        let outcomes = [
            Outcome::Ok,
            Outcome::Quota,
            Outcome::Saturation,
            Outcome::Failed,
            Outcome::DeadlineMissed,
            Outcome::Ok,
        ];
        let records = outcomes.map(|outcome| record(Class::Normal, outcome, 5_000));
        let tallies = tallies(&records);
        assert_eq!(tallies.len(), 5);
        let t = total(&tallies);
        assert_eq!((t.offered, t.admitted, t.ok), (6, 4, 2));
        assert_eq!(t.offered, t.admitted + t.quota_rejected + t.saturation_rejected);
        assert_eq!(t.admitted, t.ok + t.failed + t.deadline_missed);
    }

    #[test]
    fn refusals_have_no_part_in_the_latency_of_the_admitted() {
        let records = [record(Class::Low, Outcome::Ok, 20_000), record(Class::Low, Outcome::Saturation, 100)];
        assert_eq!(latency(&records).unwrap().p50_ms, 20.0);
        assert_eq!(latency(&[]), None);
        assert_eq!(lag_p99_ms(&records), 0.007);
    }
}
