//! Concurrency: places that requests in progress hold, each with an expiry in case its proxy died.

use std::collections::BTreeMap;

use crate::limit::Concurrency;

/// What a refused client is told to wait, microseconds: a place comes back when some request ends, which nobody can
/// foresee, so this is a hint and the only one.
pub const PLACE_RETRY_US: u64 = 1_000_000;

/// Places taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Slot to expiry, microseconds.
    held: BTreeMap<u64, u64>,
    /// No place expires before this: most loads need not look through them.
    earliest_us: u64,
    /// No place expires after this.
    latest_us: u64,
}

// === impl Places ===

impl Places {
    /// Frees the places whose time is over. A place that would outlast one taken now (the clock stepped back, or
    /// `release_after` became shorter) is cut to that.
    pub(crate) fn load(&mut self, places: &Concurrency, now_us: u64) {
        let longest_us = now_us + places.release_after_us;
        if now_us < self.earliest_us && self.latest_us <= longest_us {
            return;
        }
        self.held.retain(|_, expires_us| {
            *expires_us = (*expires_us).min(longest_us);
            now_us < *expires_us
        });
        self.earliest_us = self.held.values().copied().min().unwrap_or(u64::MAX);
        self.latest_us = self.held.values().copied().max().unwrap_or(0);
    }

    pub(crate) fn taken(&self) -> u64 {
        self.held.len() as u64
    }

    pub(crate) fn clears_us(&self, places: &Concurrency) -> u64 {
        match self.held.is_empty() {
            true => 0,
            false => places.release_after_us,
        }
    }

    pub(crate) fn take(&mut self, places: &Concurrency, slot: u64, now_us: u64) {
        let expires_us = now_us + places.release_after_us;
        self.held.insert(slot, expires_us);
        self.earliest_us = self.earliest_us.min(expires_us);
        self.latest_us = self.latest_us.max(expires_us);
    }

    /// Whether it was held. Idempotent: a slot that is not held changes nothing.
    pub(crate) fn release(&mut self, slot: u64) -> bool {
        self.held.remove(&slot).is_some()
    }
}
