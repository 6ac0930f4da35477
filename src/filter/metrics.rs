//! The accounts as Envoy stats.
//!
//! Defined once for each VM; the same name is the same stat in all of them. Counters are added up here and flushed
//! on tick, only those that changed; gauges that each worker has a part of are changed by differences.

use sluicegate_policy::class::Class;
use sluicegate_policy::count::Counts;
use sluicegate_policy::gate::Gate;
use sluicegate_policy::policy::Policy;

use crate::host::{self, Metric};

/// Shortest time between two flushes, microseconds.
const FLUSH_US: u64 = 100_000;

/// Ids of all stats, and what they were told last.
#[derive(Debug)]
pub(crate) struct Metrics {
    counters: Vec<Counter>,
    outstanding: Vec<Share>,
    breaker_open: Option<Share>,
    latency_us: Option<Metric>,
    batch_size: Option<Metric>,
    saturation: Vec<Saturation>,
    flushed_us: u64,
}

/// A counter that only this VM's part is added to.
#[derive(Debug)]
struct Counter {
    metric: Option<Metric>,
    told: u64,
}

/// A gauge that every VM has a part of.
#[derive(Debug)]
struct Share {
    metric: Metric,
    told: i64,
}

/// The gauges of one protected upstream. What they show is the same in all VMs.
#[derive(Debug)]
struct Saturation {
    limit: Option<Metric>,
    pending: Option<Metric>,
    in_flight: Option<Metric>,
    engaged: Option<Metric>,
    poll_age_ms: Option<Metric>,
    told: [u64; 5],
}

// === impl Metrics ===

impl Metrics {
    /// Defines the stats of a policy.
    pub(crate) fn define(policy: &Policy) -> Self {
        let counters = Counts::counter_names(policy);
        let outstanding = Class::ALL.map(|class| format!("sluicegate.class.{}.outstanding", class.name()));
        if let Ok(hash) = host::gauge("sluicegate.policy_hash") {
            let _ = hash.record(policy.hash.into());
        }
        let upstreams = policy.overload.iter().flat_map(|overload| &overload.upstreams);
        Metrics {
            counters: counters
                .iter()
                .map(|name| Counter { metric: host::counter(name).ok(), told: 0 })
                .collect(),
            outstanding: outstanding.iter().filter_map(|name| Share::define(name)).collect(),
            breaker_open: Share::define("sluicegate.callout.breaker_open"),
            latency_us: host::histogram("sluicegate.callout.latency_us").ok(),
            batch_size: host::histogram("sluicegate.callout.batch_size").ok(),
            saturation: upstreams.map(|upstream| Saturation::define(&upstream.cluster)).collect(),
            flushed_us: 0,
        }
    }

    /// Tells Envoy what has changed, unless that was done a moment ago.
    pub(crate) fn flush(&mut self, gate: &mut Gate, now_us: u64) {
        if now_us.saturating_sub(self.flushed_us) < FLUSH_US {
            return;
        }
        self.flush_now(gate, now_us);
    }

    /// Tells Envoy what has changed.
    pub(crate) fn flush_now(&mut self, gate: &mut Gate, now_us: u64) {
        self.flushed_us = now_us;
        for (counter, total) in self.counters.iter_mut().zip(gate.counts().counters()) {
            counter.tell(total);
        }
        for (share, class) in self.outstanding.iter_mut().zip(Class::ALL) {
            share.tell(gate.counts().class(class).outstanding());
        }
        if let Some(share) = &mut self.breaker_open {
            share.tell(u64::from(gate.is_breaker_open()));
        }
        for sample in gate.take_samples() {
            record(self.latency_us, sample.latency_us);
            record(self.batch_size, sample.takes as u64);
        }
        if let Some(control) = gate.saturation() {
            for (gauges, of) in self.saturation.iter_mut().zip(control.gauges(now_us)) {
                gauges.tell([
                    of.limit,
                    of.pending,
                    of.in_flight,
                    u64::from(of.engaged),
                    of.poll_age_ms.unwrap_or(0),
                ]);
            }
        }
    }

    /// Takes back this VM's part of shared gauges: its plugin is going away.
    pub(crate) fn withdraw(&mut self) {
        for share in self.outstanding.iter_mut().chain(&mut self.breaker_open) {
            share.tell(0);
        }
    }
}

// === impl Counter ===

impl Counter {
    fn tell(&mut self, total: u64) {
        // A counter refuses to be increased by nothing.
        let Some(increase @ 1..) = total.checked_sub(self.told) else { return };
        if let Some(metric) = self.metric {
            let _ = metric.add(i64::try_from(increase).unwrap_or(i64::MAX));
        }
        self.told = total;
    }
}

// === impl Share ===

impl Share {
    fn define(name: &str) -> Option<Self> {
        host::gauge(name).ok().map(|metric| Share { metric, told: 0 })
    }

    fn tell(&mut self, part: u64) {
        let part = i64::try_from(part).unwrap_or(i64::MAX);
        if part != self.told {
            let _ = self.metric.add(part - self.told);
            self.told = part;
        }
    }
}

// === impl Saturation ===

impl Saturation {
    fn define(cluster: &str) -> Self {
        let gauge = |name: &str| host::gauge(&format!("sluicegate.overload.{cluster}.{name}")).ok();
        Saturation {
            limit: gauge("limit"),
            pending: gauge("pending"),
            in_flight: gauge("in_flight"),
            engaged: gauge("engaged"),
            poll_age_ms: gauge("poll_age_ms"),
            told: [0; 5],
        }
    }

    fn tell(&mut self, values: [u64; 5]) {
        let metrics = [self.limit, self.pending, self.in_flight, self.engaged, self.poll_age_ms];
        for ((metric, value), told) in metrics.into_iter().zip(values).zip(&mut self.told) {
            if *told != value {
                record(metric, value);
                *told = value;
            }
        }
    }
}

/// A stat that cannot be written is nobody's business but the operator's, who sees it missing.
fn record(metric: Option<Metric>, value: u64) {
    if let Some(metric) = metric {
        let _ = metric.record(value);
    }
}
