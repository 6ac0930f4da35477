//! Where tokens are counted.

use std::sync::Arc;

use sluicegate_policy::wire::{Answer, Batch};

use crate::metrics::StoreMetrics;
use crate::settings::StoreSettings;

use self::cluster::Cluster;
use self::failure::Failure;
use self::finder::Finder;
use self::link::{Link, Manner};
use self::memory::Memory;
use self::overrides::{Override, Snapshot, Subject};
use self::remote::{Remote, Way};
use self::sentinel::Sentinels;
use self::target::Target;

mod backoff;
mod cluster;
pub mod failure;
mod finder;
mod ledger;
mod link;
mod memory;
pub mod overrides;
mod remote;
pub mod secrets;
mod sentinel;
mod slot;
pub mod target;

/// A store of one kind or another.
#[derive(Debug)]
pub enum Store {
    /// In this process.
    Memory(Memory),
    /// In Redis: one server, the master that sentinels name, or a Cluster.
    Remote(Arc<Remote>),
}

impl Store {
    /// Starts using a store; needs a runtime. A Redis that is down now may come up later.
    #[must_use]
    pub fn open(settings: &StoreSettings, metrics: &StoreMetrics) -> Store {
        let manner = Manner::new(settings, remote::prepare(&settings.prefix));
        let server = |finder| Way::Server(Link::new(finder, manner.clone(), metrics.clone()));
        let way = match settings.target.clone() {
            Target::Memory => return Store::Memory(Memory::new(settings.memory_keys, metrics)),
            Target::Single(node) => server(Finder::Fixed(node)),
            Target::Sentinel { sentinels, master, node } => {
                server(Finder::Sentinel(Sentinels::new(sentinels, master, node)))
            }
            Target::Cluster { seeds } => Way::Cluster(Cluster::new(seeds, manner.clone(), metrics.clone())),
        };
        Store::Remote(Arc::new(Remote::new(settings.prefix.clone(), way, metrics.clone())))
    }

    /// Decides a batch: one verdict for each take, `None` where there is no decision.
    ///
    /// # Errors
    /// There is a decision for no take at all.
    pub async fn take(&self, batch: &Batch) -> Result<Answer, Failure> {
        match self {
            Store::Memory(memory) => Ok(memory.take(batch)),
            Store::Remote(remote) => remote.take(batch).await,
        }
    }

    /// Whether takes can be answered now.
    ///
    /// # Errors
    /// Why not.
    pub fn readiness(&self) -> Result<(), Failure> {
        match self {
            Store::Memory(_) => Ok(()),
            Store::Remote(remote) => remote.readiness(),
        }
    }

    /// Forgets the use of one key; whether there was any.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn reset(&self, subject: &Subject) -> Result<bool, Failure> {
        match self {
            Store::Memory(memory) => Ok(memory.reset(subject)),
            Store::Remote(remote) => remote.reset(subject).await,
        }
    }

    /// All overrides, if they differ from the version known.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn overrides_since(&self, known: u64) -> Result<Option<Snapshot>, Failure> {
        match self {
            Store::Memory(memory) => Ok(memory.overrides_since(known)),
            Store::Remote(remote) => remote.overrides_since(known).await,
        }
    }

    /// Sets an override; `false` when there are too many.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn set_override(&self, wanted: &Override) -> Result<bool, Failure> {
        match self {
            Store::Memory(memory) => Ok(memory.set_override(wanted)),
            Store::Remote(remote) => remote.set_override(wanted).await,
        }
    }

    /// Removes an override; whether there was one.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn unset_override(&self, subject: &Subject) -> Result<bool, Failure> {
        match self {
            Store::Memory(memory) => Ok(memory.unset_override(subject)),
            Store::Remote(remote) => remote.unset_override(subject).await,
        }
    }
}
