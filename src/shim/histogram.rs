//! A histogram without a lock: each bucket is an atomic counter of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};

/// Counts observations by upper bound. A reading taken meanwhile may miss the very latest observation.
#[derive(Clone, Debug)]
pub struct Histogram(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    bounds: Box<[f64]>,
    /// One more than `bounds`: the last is for what exceeds them all. Not cumulative.
    counts: Box<[AtomicU64]>,
    /// Sum of all observations, millionths: whole numbers can be added without a loop.
    sum_e6: AtomicU64,
}

impl Histogram {
    /// Buckets with these upper bounds, ascending.
    #[must_use]
    pub fn new(bounds: &[f64]) -> Histogram {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram(Arc::new(Inner { bounds: bounds.into(), counts, sum_e6: AtomicU64::new(0) }))
    }

    /// Counts one observation, at least 0.
    pub fn observe(&self, value: f64) {
        let bucket = self.0.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.0.counts.get(bucket) {
            count.fetch_add(1, Relaxed);
        }
        self.0.sum_e6.fetch_add((value * 1e6) as u64, Relaxed);
    }
}

impl Default for Histogram {
    /// Seconds, from what a local Redis takes to what a timeout allows.
    fn default() -> Self {
        Histogram::new(&[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0])
    }
}

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        let bounds = self.0.bounds.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> =
            bounds.zip(self.0.counts.iter().map(|count| count.load(Relaxed))).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = self.0.sum_e6.load(Relaxed) as f64 / 1e6;
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

impl TypedMetric for Histogram {
    const TYPE: MetricType = MetricType::Histogram;
}
