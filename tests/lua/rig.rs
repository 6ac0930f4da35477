//! The script and the Rust store, asked the same.

use redis::Connection;
use sluicegate_policy::algorithm::Amount;
use sluicegate_policy::limit::Algorithm;
use sluicegate_policy::store::{Ask, Store};
use sluicegate_policy::verdict::Standing;
use sluicegate_policy::wire::{self, Batch, Charge, Release, Take, VERSION, WireAlgorithm, WireLimit};
use sluicegate_shim::script::{self, Layout, Plan};
use sluicegate_testing::redis::Redis;

/// One step, the same for both.
#[derive(Clone, Debug)]
pub(crate) enum Do {
    Take { slot: u64, asks: Vec<(usize, usize, Amount)> },
    Charge { limit: usize, key: usize, n: u64 },
    Release { limit: usize, key: usize, slot: u64 },
}

/// The script, and the numbers it is asked about.
pub(crate) struct Lua {
    pub(crate) connection: Connection,
    hash: String,
    limits: Vec<(String, Algorithm)>,
    layout: Layout,
    /// How much later what refused takes took elsewhere is given back.
    pub(crate) refunds_late_us: u64,
}

impl Lua {
    pub(crate) fn new(redis: &Redis, limits: Vec<(String, Algorithm)>, layout: Layout) -> Lua {
        let mut connection = redis.connection();
        redis::cmd("FLUSHALL").exec(&mut connection).unwrap();
        let hash = redis::cmd("SCRIPT").arg("LOAD").arg(script::TAKE).query(&mut connection).unwrap();
        Lua { connection, hash, limits, layout, refunds_late_us: 0 }
    }

    /// Everything there is, with what is left of its life, milliseconds; -1 for ever.
    pub(crate) fn lives(&mut self) -> Vec<(String, i64)> {
        let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut self.connection).unwrap();
        keys.into_iter()
            .map(|key| {
                let left_ms = redis::cmd("PTTL").arg(&key).query(&mut self.connection).unwrap();
                (key, left_ms)
            })
            .collect()
    }

    /// Keys without an expiry.
    pub(crate) fn immortal(&mut self) -> Vec<String> {
        self.lives().into_iter().filter(|(_, left_ms)| *left_ms == -1).map(|(key, _)| key).collect()
    }

    fn batch(&self, steps: &[Do]) -> Batch {
        let mut batch = Batch {
            version: VERSION,
            namespace: "default".into(),
            limits: self
                .limits
                .iter()
                .map(|(name, algorithm)| WireLimit(name.as_str().into(), WireAlgorithm::from(algorithm)))
                .collect(),
            takes: Vec::new(),
            charges: Vec::new(),
            releases: Vec::new(),
        };
        for step in steps {
            match step {
                Do::Take { slot, asks } => batch.takes.push(Take {
                    asks: asks.iter().map(|(l, k, a)| wire::Ask(*l, key(*k), a.cost, a.at_least)).collect(),
                    slot: Some(*slot),
                }),
                Do::Charge { limit, key: k, n } => batch.charges.push(Charge(*limit, key(*k), *n)),
                Do::Release { limit, key: k, slot } => batch.releases.push(Release(*limit, key(*k), *slot)),
            }
        }
        batch
    }

    /// Runs the steps as one batch; at this time, or by the clock of Redis.
    pub(crate) fn run(&mut self, now_us: Option<u64>, steps: &[Do]) -> Vec<Vec<Standing>> {
        let plan = Plan::new("sg", &self.batch(steps), self.layout).unwrap();
        let mut send = |call: &script::Call, now_us: Option<u64>| -> redis::Value {
            let mut command = call.command(&self.hash);
            now_us.iter().for_each(|now_us| {
                command.arg(now_us);
            });
            command.query(&mut self.connection).unwrap()
        };
        let replies: Vec<_> = plan.calls().iter().map(|call| Some(send(call, now_us))).collect();
        let conclusion = plan.conclude(&replies);
        assert_eq!(conclusion.bad_replies, []);
        let later_us = now_us.map(|now_us| now_us + self.refunds_late_us);
        conclusion.refunds.iter().for_each(|call| {
            send(call, later_us);
        });
        conclusion.verdicts.into_iter().map(Option::unwrap).collect()
    }
}

/// Rust's answers to the same.
pub(crate) struct Rust {
    store: Store<String>,
    limits: Vec<(String, Algorithm)>,
}

impl Rust {
    pub(crate) fn new(limits: Vec<(String, Algorithm)>) -> Rust {
        Rust { store: Store::new(1_000_000, 1), limits }
    }

    /// Gives back what was taken of a key.
    pub(crate) fn refund(&mut self, now_us: u64, limit: usize, key: usize, slot: u64, n: u64) {
        let name = self.name(limit, key);
        self.store.refund(now_us, &name, &self.limits[limit].1, slot, n);
    }

    /// The name of a key; places are kept apart, as in Redis.
    fn name(&self, limit: usize, k: usize) -> String {
        let (name, numbers) = &self.limits[limit];
        let kind = if matches!(numbers, Algorithm::Concurrency(_)) { ":c" } else { "" };
        format!("{name}/{}{kind}", key(k))
    }

    /// Runs the steps as a batch does: releases, charges, takes.
    pub(crate) fn run(&mut self, now_us: u64, steps: &[Do]) -> Vec<Vec<Standing>> {
        for step in steps {
            if let Do::Release { limit, key, slot } = step {
                let name = self.name(*limit, *key);
                self.store.release(now_us, &name, &self.limits[*limit].1, *slot);
            }
        }
        for step in steps {
            if let Do::Charge { limit, key, n } = step {
                let name = self.name(*limit, *key);
                self.store.charge(now_us, &name, &self.limits[*limit].1, *n);
            }
        }
        let mut all = Vec::new();
        for step in steps {
            let Do::Take { slot, asks } = step else { continue };
            let names: Vec<String> = asks.iter().map(|ask| self.name(ask.0, ask.1)).collect();
            let asks: Vec<_> = asks
                .iter()
                .zip(&names)
                .map(|(ask, key)| Ask { key, algorithm: &self.limits[ask.0].1, amount: ask.2 })
                .collect();
            let mut standings = Vec::new();
            self.store.take(now_us, *slot, &asks, &mut standings);
            all.push(standings);
        }
        all
    }
}

/// A key as the filter makes it, told apart by the part that chooses the slot.
pub(crate) fn key(n: usize) -> Box<str> {
    format!("key{n:03}NFZ4mrze8BI0VniQ").into()
}
