//! Changed numbers for single keys, at run time.
//!
//! Operators set them through the admin listener. They live in the store, every server polls them, and they are applied
//! to the asks of each batch before the store sees it: so they reach every Envoy within one poll, whatever policy it
//! runs. An override replaces the numbers of a limit, never its algorithm: when the policy changes the algorithm, the
//! override no longer applies.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use sluicegate_policy::wire::{Batch, WireAlgorithm, WireLimit};
use tracing::{info, warn};

use crate::metrics::Metrics;
use crate::store::Store;
use crate::store::failure::Failure;
use crate::store::overrides::{Override, Snapshot, Subject};

/// The overrides in force in this process.
#[derive(Debug)]
pub struct Overrides {
    /// By key: hardly ever more than one limit each.
    book: ArcSwap<HashMap<Box<str>, Vec<Entry>>>,
    metrics: Arc<Metrics>,
}

#[derive(Clone, Debug)]
struct Entry {
    namespace: Box<str>,
    limit: Box<str>,
    numbers: WireAlgorithm,
    until: Instant,
}

impl Overrides {
    /// None yet.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> Overrides {
        Overrides { book: ArcSwap::default(), metrics }
    }

    /// Replaces the numbers of every ask and charge that an override is about.
    pub fn apply(&self, batch: &mut Batch) {
        let book = self.book.load();
        if book.is_empty() {
            return;
        }
        let now = Instant::now();
        let Batch { namespace, limits, takes, charges, .. } = batch;
        let asks = takes.iter_mut().flat_map(|take| &mut take.asks).map(|ask| (&mut ask.0, &*ask.1));
        let charges = charges.iter_mut().map(|charge| (&mut charge.0, &*charge.1));
        for (limit, key) in asks.chain(charges) {
            let Some(entries) = book.get(key) else { continue };
            let Some(WireLimit(name, numbers)) = limits.get(*limit) else { continue };
            let entry = entries.iter().find(|entry| {
                entry.namespace == *namespace
                    && entry.limit == *name
                    && entry.until > now
                    && alike(&entry.numbers, numbers)
            });
            if let Some(entry) = entry {
                let changed = WireLimit(name.clone(), entry.numbers.clone());
                *limit = limits.iter().position(|limit| *limit == changed).unwrap_or_else(|| {
                    limits.push(changed);
                    limits.len() - 1
                });
            }
        }
    }

    /// Puts a snapshot in force.
    pub fn adopt(&self, snapshot: Snapshot) {
        let now = Instant::now();
        let mut book: HashMap<Box<str>, Vec<Entry>> = HashMap::new();
        self.metrics.overrides.set(i64::try_from(snapshot.overrides.len()).unwrap_or(i64::MAX));
        for Override { subject: Subject { namespace, limit, key }, numbers, left } in snapshot.overrides {
            let entry = Entry { namespace, limit, numbers, until: now + left };
            book.entry(key).or_default().push(entry);
        }
        self.book.store(Arc::new(book));
    }

    /// Polls the store for as long as the server runs. What is in force stays so while the store is away, each for its
    /// own life.
    pub async fn follow(self: Arc<Self>, store: Arc<Store>, every: Duration) {
        let mut known = 0;
        let mut failing = false;
        loop {
            match store.overrides_since(known).await {
                Ok(Some(snapshot)) => {
                    info!(
                        version = snapshot.version,
                        overrides = snapshot.overrides.len(),
                        "overrides have changed"
                    );
                    known = snapshot.version;
                    self.adopt(snapshot);
                    failing = false;
                }
                Ok(None) => failing = false,
                // The link to the store has said so itself.
                Err(Failure::Down) => {}
                Err(failure) => {
                    if !failing {
                        warn!(why = failure.name(), "overrides cannot be read; those in force stay");
                        failing = true;
                    }
                }
            }
            // Servers that started together do not stay together.
            tokio::time::sleep(every.mul_f64(0.9 + fastrand::f64() / 5.0)).await;
        }
    }
}

/// Numbers of the same algorithm.
fn alike(a: &WireAlgorithm, b: &WireAlgorithm) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_policy::wire::{Ask, Charge, Take};

    fn window(limit: u64) -> WireAlgorithm {
        WireAlgorithm::SlidingWindow { limit, per_us: 1_000_000 }
    }

    fn overridden(subject: (&str, &str, &str), numbers: WireAlgorithm, left: Duration) -> Override {
        let (namespace, limit, key) = (subject.0.into(), subject.1.into(), subject.2.into());
        Override { subject: Subject { namespace, limit, key }, numbers, left }
    }

    fn batch() -> Batch {
        Batch {
            version: 1,
            namespace: "default".into(),
            limits: vec![WireLimit("a".into(), window(5)), WireLimit("b".into(), window(6))],
            takes: vec![Take {
                asks: vec![
                    Ask(0, "key-one".into(), 1, 1),
                    Ask(1, "key-one".into(), 1, 1),
                    Ask(0, "key-two".into(), 1, 1),
                ],
                slot: None,
            }],
            charges: vec![Charge(0, "key-one".into(), 1)],
            releases: Vec::new(),
        }
    }

    #[test]
    fn an_override_changes_its_own_limit_and_key_only() {
        let overrides = Overrides::new(Arc::default());
        let hour = Duration::from_secs(3_600);
        overrides.adopt(Snapshot {
            version: 1,
            overrides: vec![
                overridden(("default", "a", "key-one"), window(50), hour),
                overridden(("other", "b", "key-one"), window(1), hour),
                overridden(("default", "b", "key-one"), window(1), Duration::ZERO),
                overridden(
                    ("default", "a", "key-two"),
                    WireAlgorithm::SlidingLog { limit: 1, per_us: 1_000 },
                    hour,
                ),
            ],
        });
        let mut batch = batch();
        overrides.apply(&mut batch);
        assert_eq!(batch.limits.len(), 3);
        assert_eq!(batch.limits[2], WireLimit("a".into(), window(50)));
        let limits: Vec<usize> = batch.takes[0].asks.iter().map(|ask| ask.0).collect();
        assert_eq!(limits, [2, 1, 0], "another namespace, one that ran out, another algorithm: none applies");
        assert_eq!(batch.charges[0].0, 2);
    }

    #[test]
    fn without_overrides_nothing_changes() {
        let overrides = Overrides::new(Arc::default());
        let mut changed = batch();
        overrides.apply(&mut changed);
        assert_eq!(changed, batch());
    }
}
