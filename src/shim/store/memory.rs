//! The store of one process: for one machine, demonstrations and tests.
//!
//! Keys are spread over shards, each behind a lock of its own. A take whose keys lie in several shards locks all of
//! them, always in the same order, so it is as atomic as any other.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sluicegate_policy::algorithm::Amount;
use sluicegate_policy::limit::Algorithm;
use sluicegate_policy::store::{Ask, Store};
use sluicegate_policy::verdict::Standing;
use sluicegate_policy::wire::{self, Answer, Batch, Take, WireLimit, WireStanding};

use crate::metrics::StoreMetrics;
use crate::store::overrides::{OVERRIDES_MAX, Override, Snapshot, Subject};
use crate::store::slot;

/// Shards, a power of two: enough that a few cores seldom meet.
const SHARDS: usize = 16;

/// The store.
#[derive(Debug)]
pub struct Memory {
    shards: Vec<Mutex<Store<Box<str>>>>,
    clock: Clock,
    ledger: Mutex<Ledger>,
    metrics: StoreMetrics,
}

/// Unix time that never steps: the clock of the system is read once.
#[derive(Debug)]
struct Clock {
    start: Instant,
    start_us: u64,
}

#[derive(Debug, Default)]
struct Ledger {
    version: u64,
    overrides: Vec<(Override, Instant)>,
}

impl Memory {
    /// A store of about this many keys.
    pub(crate) fn new(keys: usize, metrics: &StoreMetrics) -> Memory {
        metrics.up.set(1);
        let shard = |_| Mutex::new(Store::new(keys.div_ceil(SHARDS), fastrand::u64(..)));
        let shards = (0..SHARDS).map(shard).collect();
        Memory { shards, clock: Clock::new(), ledger: Mutex::default(), metrics: metrics.clone() }
    }

    pub(crate) fn take(&self, batch: &Batch) -> Answer {
        let now_us = self.clock.now_us();
        let numbers: Vec<Option<Algorithm>> =
            batch.limits.iter().map(|limit| Algorithm::try_from(&limit.1).ok()).collect();
        let about = |limit: usize, key: &str| -> Option<(Box<str>, &Algorithm)> {
            let WireLimit(name, _) = batch.limits.get(limit)?;
            Some((address(&batch.namespace, name, key), numbers.get(limit)?.as_ref()?))
        };
        // What was given back and charged before the takes arrived counts for them.
        for release in &batch.releases {
            if let (Some((key, numbers)), Some(mut shard)) =
                (about(release.0, &release.1), self.shard(&release.1))
            {
                shard.release(now_us, &key, numbers, release.2);
            }
        }
        for charge in &batch.charges {
            if let (Some((key, numbers)), Some(mut shard)) =
                (about(charge.0, &charge.1), self.shard(&charge.1))
            {
                shard.charge(now_us, &key, numbers, charge.2);
            }
        }
        let verdict = |take: &Take| -> Option<Vec<WireStanding>> {
            let asks: Option<Vec<_>> = take
                .asks
                .iter()
                .map(|ask| {
                    let (key, numbers) = about(ask.0, &ask.1)?;
                    Some((shard_of(&ask.1), key, numbers, Amount { cost: ask.2, at_least: ask.3 }))
                })
                .collect();
            let standings = self.decide(now_us, take.slot.unwrap_or(0), &asks?);
            Some(standings.into_iter().map(WireStanding::from).collect())
        };
        Answer { version: wire::VERSION, verdicts: batch.takes.iter().map(verdict).collect() }
    }

    pub(crate) fn reset(&self, subject: &Subject) -> bool {
        let key = address(&subject.namespace, &subject.limit, &subject.key);
        self.shard(&subject.key).is_some_and(|mut shard| shard.reset(&key))
    }

    pub(crate) fn overrides_since(&self, known: u64) -> Option<Snapshot> {
        let ledger = lock(&self.ledger);
        if ledger.version == known {
            return None;
        }
        let now = Instant::now();
        let left = |(found, until): &(Override, Instant)| {
            let left = until.checked_duration_since(now).filter(|left| !left.is_zero())?;
            Some(Override { left, ..found.clone() })
        };
        Some(Snapshot {
            version: ledger.version,
            overrides: ledger.overrides.iter().filter_map(left).collect(),
        })
    }

    pub(crate) fn set_override(&self, wanted: &Override) -> bool {
        let mut ledger = lock(&self.ledger);
        let now = Instant::now();
        ledger.overrides.retain(|(found, until)| found.subject != wanted.subject && now < *until);
        if ledger.overrides.len() >= OVERRIDES_MAX {
            return false;
        }
        ledger.overrides.push((wanted.clone(), now + wanted.left));
        ledger.version += 1;
        true
    }

    pub(crate) fn unset_override(&self, subject: &Subject) -> bool {
        let mut ledger = lock(&self.ledger);
        let before = ledger.overrides.len();
        ledger.overrides.retain(|(found, _)| found.subject != *subject);
        ledger.version += 1;
        ledger.overrides.len() < before
    }

    /// Decides one take. When a shard refuses its part, the parts already taken are given back before any lock is
    /// opened, so nobody sees them.
    fn decide(
        &self,
        now_us: u64,
        slot: u64,
        asks: &[(usize, Box<str>, &Algorithm, Amount)],
    ) -> Vec<Standing> {
        let mut order: Vec<usize> = asks.iter().map(|ask| ask.0).collect();
        order.sort_unstable();
        order.dedup();
        let mut guards: Vec<(usize, MutexGuard<'_, Store<Box<str>>>)> =
            order.iter().filter_map(|at| Some((*at, lock(self.shards.get(*at)?)))).collect();

        let mut standings = vec![Standing::default(); asks.len()];
        let mut part = Vec::with_capacity(asks.len());
        let mut allowed = true;
        for (at, store) in &mut guards {
            let mine = |ask: &&(usize, Box<str>, &Algorithm, Amount)| ask.0 == *at;
            let places = asks.iter().enumerate().filter(|(_, ask)| mine(ask)).map(|(place, _)| place);
            let asks: Vec<Ask<'_, Box<str>>> = asks
                .iter()
                .filter(mine)
                .map(|(_, key, algorithm, amount)| Ask { key, algorithm, amount: *amount })
                .collect();
            let overflowed = store.overflowed();
            allowed &= store.take(now_us, slot, &asks, &mut part);
            self.metrics.overflows.inc_by(store.overflowed() - overflowed);
            for (place, standing) in places.zip(&part) {
                if let Some(slot) = standings.get_mut(place) {
                    *slot = *standing;
                }
            }
        }
        if !allowed {
            give_back(now_us, slot, asks, &mut guards, &mut standings);
        }
        standings
    }

    fn shard(&self, key: &str) -> Option<MutexGuard<'_, Store<Box<str>>>> {
        self.shards.get(shard_of(key)).map(lock)
    }
}

fn give_back(
    now_us: u64,
    slot: u64,
    asks: &[(usize, Box<str>, &Algorithm, Amount)],
    guards: &mut [(usize, MutexGuard<'_, Store<Box<str>>>)],
    standings: &mut [Standing],
) {
    for ((at, key, algorithm, _), standing) in asks.iter().zip(standings) {
        let Some((_, store)) = guards.iter_mut().find(|(shard, _)| shard == at) else { continue };
        if standing.granted > 0 {
            store.refund(now_us, key, algorithm, slot, standing.granted);
            let now = store.peek(now_us, key, algorithm);
            (standing.granted, standing.delay_us) = (0, 0);
            (standing.remaining, standing.reset_us) = (now.remaining, now.reset_us);
        }
    }
}

impl Clock {
    fn new() -> Clock {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Clock { start: Instant::now(), start_us: u64::try_from(since.as_micros()).unwrap_or(0) }
    }

    fn now_us(&self) -> u64 {
        self.start_us + u64::try_from(self.start.elapsed().as_micros()).unwrap_or(0)
    }
}

/// Names a key among those of all namespaces and limits.
fn address(namespace: &str, limit: &str, key: &str) -> Box<str> {
    [namespace, "/", limit, "/", key].concat().into()
}

/// By the tag, so that limits which share an identity share a shard.
fn shard_of(key: &str) -> usize {
    let tag = key.as_bytes().get(..wire::TAG_LEN).unwrap_or(key.as_bytes());
    usize::from(slot::of_tag(tag)) % SHARDS
}

/// A thread that panicked leaves the state of one key in doubt, never the whole store.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    use sluicegate_policy::wire::WireAlgorithm;

    fn batch(takes: Vec<Take>) -> Batch {
        let window = |limit| WireAlgorithm::FixedWindow { limit, per_us: 2_592_000_000_000, aligned: false };
        Batch {
            version: 1,
            namespace: "default".into(),
            limits: vec![WireLimit("wide".into(), window(100)), WireLimit("narrow".into(), window(2))],
            takes,
            charges: Vec::new(),
            releases: Vec::new(),
        }
    }

    /// Two keys of different shards.
    fn keys() -> [String; 2] {
        let key = |n: usize| format!("key{n:03}-rest");
        let other = (1..).find(|n| shard_of(&key(*n)) != shard_of(&key(0))).unwrap();
        [key(0), key(other)]
    }

    #[test]
    fn a_take_over_two_shards_is_all_or_nothing() {
        let memory = Memory::new(1_000, &StoreMetrics::default());
        let [a, b] = keys();
        let take = || Take {
            asks: vec![wire::Ask(0, a.as_str().into(), 1, 1), wire::Ask(1, b.as_str().into(), 1, 1)],
            slot: None,
        };
        let answer = memory.take(&batch((0..5).map(|_| take()).collect()));
        let passed: Vec<bool> =
            answer.verdicts.iter().map(|v| v.as_ref().unwrap().iter().all(|s| s.0 == 1)).collect();
        assert_eq!(passed, [true, true, false, false, false]);
        let last = answer.verdicts[4].as_ref().unwrap();
        assert_eq!(
            (last[0].0, last[0].1, last[0].2),
            (1, 0, 98),
            "what was refused is not charged elsewhere"
        );
        assert_eq!((last[1].0, last[1].2), (0, 0));
    }

    #[test]
    fn overrides_come_and_go() {
        let memory = Memory::new(1_000, &StoreMetrics::default());
        let subject = Subject { namespace: "default".into(), limit: "a".into(), key: "key-one".into() };
        let numbers = WireAlgorithm::SlidingWindow { limit: 1, per_us: 1_000 };
        let wanted = Override { subject: subject.clone(), numbers, left: Duration::from_secs(60) };
        assert_eq!(memory.overrides_since(0), None);
        assert!(memory.set_override(&wanted) && memory.set_override(&wanted));
        let snapshot = memory.overrides_since(0).unwrap();
        assert_eq!((snapshot.version, snapshot.overrides.len()), (2, 1));
        assert!(memory.unset_override(&subject));
        assert!(!memory.unset_override(&subject));
        assert!(memory.overrides_since(2).unwrap().overrides.is_empty());
    }

    #[test]
    fn shards_are_used_evenly() {
        let used: HashSet<usize> = (0..1_000).map(|n| shard_of(&format!("{n:06}-rest"))).collect();
        assert_eq!(used.len(), SHARDS);
    }
}
