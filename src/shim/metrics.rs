//! What the server counts, in Prometheus's text format at `/metrics`. Labels are bounded: never a client's text.

use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::histogram::Histogram;
use crate::store::failure::Failure;

/// Every metric of the server.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Requests by outcome.
    pub requests: Outcomes,
    /// Takes received in well-formed batches.
    pub takes: Counter,
    /// Takes by verdict.
    pub verdicts: Verdicts,
    /// Costs charged after the fact.
    pub charges: Counter,
    /// Slots given back.
    pub releases: Counter,
    /// Takes in one batch.
    pub batch_size: Histogram,
    /// Batches under way.
    pub in_flight: Gauge<i64, AtomicI64>,
    /// Connections of filters and operators.
    pub connections: Gauge<i64, AtomicI64>,
    /// Connections closed at once, because there were too many.
    pub connections_refused: Counter,
    /// What the store costs and whether it answers.
    pub store: StoreMetrics,
    /// Overrides in force.
    pub overrides: Gauge<i64, AtomicI64>,
}

/// `POST /v1/take` by outcome.
#[derive(Clone, Debug, Default)]
pub struct Outcomes {
    /// Answered with verdicts.
    pub answered: Counter,
    /// Malformed, 4xx.
    pub malformed: Counter,
    /// Without the token.
    pub unauthorized: Counter,
    /// Too many under way.
    pub overloaded: Counter,
    /// The store gave no decision at all.
    pub unavailable: Counter,
    /// The request took longer than it may.
    pub late: Counter,
}

/// Takes by verdict.
#[derive(Clone, Debug, Default)]
pub struct Verdicts {
    /// Every limit let it pass.
    pub allowed: Counter,
    /// A limit refused.
    pub limited: Counter,
    /// No decision.
    pub unknown: Counter,
}

/// What the store costs and whether it answers.
#[derive(Clone, Debug, Default)]
pub struct StoreMetrics {
    /// Seconds from call to answer.
    pub latency: Histogram,
    /// Calls without an answer, by kind.
    pub errors: Family<Kind, Counter>,
    /// Servers that answer: 1 for a single Redis, the masters of a Cluster.
    pub up: Gauge<i64, AtomicI64>,
    /// Servers whose calls fail at once.
    pub breaker_open: Gauge<i64, AtomicI64>,
    /// Connections made.
    pub connects: Counter,
    /// Times the script had to be loaded anew.
    pub script_loads: Counter,
    /// Calls that give back what one part of a take took when another was refused (Redis Cluster).
    pub refunds: Counter,
    /// Refunds that failed: tokens stay charged until they return by themselves.
    pub refunds_lost: Counter,
    /// Asks by keys for which the memory store had no room.
    pub overflows: Counter,
}

/// The kind of a failure, as a label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Kind {
    kind: &'static str,
}

impl Metrics {
    /// Registers everything under `sluicegate_shim_`.
    #[must_use]
    pub fn new() -> Metrics {
        let mut registry = Registry::with_prefix("sluicegate_shim");
        let metrics = Metrics {
            requests: Outcomes::default(),
            takes: Counter::default(),
            verdicts: Verdicts::default(),
            charges: Counter::default(),
            releases: Counter::default(),
            batch_size: Histogram::new(&[1., 2., 4., 8., 16., 32., 64., 128., 256., 512., 1024.]),
            in_flight: Gauge::default(),
            connections: Gauge::default(),
            connections_refused: Counter::default(),
            store: StoreMetrics::default(),
            overrides: Gauge::default(),
            registry: Registry::default(),
        };
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The version of the server", build);
        metrics.requests.register(&mut registry);
        metrics.verdicts.register(&mut registry);
        registry.register("takes", "Takes received in well-formed batches", metrics.takes.clone());
        registry.register("charges", "Costs charged after the fact", metrics.charges.clone());
        registry.register("releases", "Slots given back", metrics.releases.clone());
        registry.register("batch_size", "Takes in one batch", metrics.batch_size.clone());
        registry.register("in_flight", "Batches under way", metrics.in_flight.clone());
        registry.register("connections", "Open connections", metrics.connections.clone());
        registry.register(
            "connections_refused",
            "Connections closed because there were too many",
            metrics.connections_refused.clone(),
        );
        registry.register("overrides", "Overrides in force", metrics.overrides.clone());
        metrics.store.register(&mut registry);
        Metrics { registry, ..metrics }
    }

    /// The whole page.
    #[must_use]
    pub fn render(&self) -> String {
        let mut page = String::with_capacity(8_192);
        // Writing to a string cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut page, &self.registry);
        page
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics::new()
    }
}

impl Outcomes {
    fn register(&self, registry: &mut Registry) {
        let outcomes = [
            ("answered", &self.answered),
            ("malformed", &self.malformed),
            ("unauthorized", &self.unauthorized),
            ("overloaded", &self.overloaded),
            ("unavailable", &self.unavailable),
            ("late", &self.late),
        ];
        labelled(registry, "requests", "Take calls by outcome", "outcome", &outcomes);
    }
}

impl Verdicts {
    fn register(&self, registry: &mut Registry) {
        let verdicts = [("allowed", &self.allowed), ("limited", &self.limited), ("unknown", &self.unknown)];
        labelled(registry, "verdicts", "Takes by verdict", "verdict", &verdicts);
    }
}

impl StoreMetrics {
    /// Counts a call's latency.
    pub fn observe(&self, latency: Duration) {
        self.latency.observe(latency.as_secs_f64());
    }

    /// Counts a call without an answer.
    pub fn fail(&self, failure: Failure) {
        self.errors.get_or_create(&Kind { kind: failure.name() }).inc();
    }

    fn register(&self, registry: &mut Registry) {
        // Every kind is there from the start, so that a rate over it needs no special case.
        for failure in Failure::ALL {
            drop(self.errors.get_or_create(&Kind { kind: failure.name() }));
        }
        registry.register_with_unit(
            "store_latency",
            "Time from a call of the store to its answer",
            Unit::Seconds,
            self.latency.clone(),
        );
        registry.register("store_errors", "Calls of the store without an answer", self.errors.clone());
        registry.register("store_up", "Servers of the store that answer", self.up.clone());
        registry.register(
            "store_breaker_open",
            "Servers of the store whose calls fail at once",
            self.breaker_open.clone(),
        );
        registry.register("store_connects", "Connections made", self.connects.clone());
        registry.register(
            "store_script_loads",
            "Times the script was loaded anew",
            self.script_loads.clone(),
        );
        registry.register(
            "store_refunds",
            "Calls that give back parts of refused takes",
            self.refunds.clone(),
        );
        registry.register("store_refunds_lost", "Refunds that failed", self.refunds_lost.clone());
        registry.register(
            "store_overflows",
            "Asks that share a quota because the memory store is full",
            self.overflows.clone(),
        );
    }
}

/// Registers counters that differ by one label. Each stays a field of its own, so that counting needs no look-up.
fn labelled(
    registry: &mut Registry,
    name: &str,
    help: &str,
    label: &'static str,
    counters: &[(&'static str, &Counter<u64, AtomicU64>)],
) {
    registry.register(
        name,
        help,
        Labelled { label, counters: counters.iter().map(|(v, c)| (*v, (*c).clone())).collect() },
    );
}

#[derive(Debug)]
struct Labelled {
    label: &'static str,
    counters: Vec<(&'static str, Counter)>,
}

impl prometheus_client::encoding::EncodeMetric for Labelled {
    fn encode(&self, mut encoder: prometheus_client::encoding::MetricEncoder<'_>) -> std::fmt::Result {
        for (value, counter) in &self.counters {
            let labels = [(self.label, *value)];
            counter.encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> prometheus_client::metrics::MetricType {
        prometheus_client::metrics::MetricType::Counter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_everything_from_the_start() {
        let metrics = Metrics::new();
        metrics.verdicts.allowed.inc_by(3);
        metrics.store.fail(Failure::Timeout);
        metrics.batch_size.observe(3.0);
        let page = metrics.render();
        for line in [
            "sluicegate_shim_verdicts_total{verdict=\"allowed\"} 3",
            "sluicegate_shim_verdicts_total{verdict=\"limited\"} 0",
            "sluicegate_shim_requests_total{outcome=\"answered\"} 0",
            "sluicegate_shim_store_errors_total{kind=\"timeout\"} 1",
            "sluicegate_shim_store_errors_total{kind=\"oom\"} 0",
            "sluicegate_shim_batch_size_bucket{le=\"2.0\"} 0",
            "sluicegate_shim_batch_size_bucket{le=\"4.0\"} 1",
            "sluicegate_shim_batch_size_bucket{le=\"+Inf\"} 1",
            "sluicegate_shim_batch_size_sum 3.0",
            "sluicegate_shim_store_latency_seconds_count 0",
            "sluicegate_shim_store_up 0",
            "sluicegate_shim_build_info{version=",
        ] {
            assert!(page.contains(line), "{line} is missing from\n{page}");
        }
    }
}
