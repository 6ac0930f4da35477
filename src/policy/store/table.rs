//! Entries by key, in a bounded slab.

use std::hash::{Hash, Hasher};

use hashbrown::HashTable;
use siphasher::sip::SipHasher13;

use crate::algorithm::State;

/// A key and what is remembered of it.
#[derive(Debug)]
pub(super) struct Entry<K> {
    pub(super) key: K,
    pub(super) state: State,
    /// When it will be as good as new, microseconds: from then on it may be forgotten.
    pub(super) rested_us: u64,
    /// Cells it takes up.
    pub(super) weight: usize,
}

/// Entries without gaps, and an index of them by hash.
#[derive(Debug)]
pub(super) struct Table<K> {
    entries: Vec<Entry<K>>,
    index: HashTable<u32>,
    seed: u64,
}

// === impl Table ===

impl<K: Hash + Eq> Table<K> {
    pub(super) fn new(seed: u64) -> Self {
        Table { entries: Vec::new(), index: HashTable::new(), seed }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn find(&self, key: &K) -> Option<usize> {
        let same = |&at: &u32| self.entries.get(at as usize).is_some_and(|entry| entry.key == *key);
        self.index.find(hash(self.seed, key), same).map(|&at| at as usize)
    }

    pub(super) fn get(&self, at: usize) -> Option<&Entry<K>> {
        self.entries.get(at)
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut Entry<K>> {
        self.entries.get_mut(at)
    }

    /// The key must not be there yet.
    pub(super) fn insert(&mut self, entry: Entry<K>) {
        let Ok(at) = u32::try_from(self.entries.len()) else { return };
        let (seed, entries) = (self.seed, &self.entries);
        let hash_of = |&at: &u32| entries.get(at as usize).map_or(0, |entry| hash(seed, &entry.key));
        self.index.insert_unique(hash(seed, &entry.key), at, hash_of);
        self.entries.push(entry);
    }

    /// Removes the entry at this place; the last one moves into it.
    pub(super) fn remove(&mut self, at: usize) -> Option<Entry<K>> {
        let last = self.entries.len().checked_sub(1)?;
        self.unlink(at);
        if at != last {
            let moved = hash(self.seed, &self.entries.get(last)?.key);
            if let Some(place) = self.index.find_mut(moved, |&other| other as usize == last) {
                *place = u32::try_from(at).ok()?;
            }
        }
        Some(self.entries.swap_remove(at))
    }

    fn unlink(&mut self, at: usize) {
        let Some(entry) = self.entries.get(at) else { return };
        let found = self.index.find_entry(hash(self.seed, &entry.key), |&other| other as usize == at);
        if let Ok(found) = found {
            found.remove();
        }
    }
}

/// Seeded, so that nobody can prepare keys that fall together.
fn hash<K: Hash>(seed: u64, key: &K) -> u64 {
    let mut spread = Spread { sip: SipHasher13::new_with_keys(seed, 0), whole: None };
    key.hash(&mut spread);
    spread.finish()
}

/// SipHash, except for keys of 128 bits: those are fingerprints, uniform and secret by themselves.
struct Spread {
    sip: SipHasher13,
    whole: Option<u64>,
}

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        self.sip.write(bytes);
    }

    fn write_u128(&mut self, fingerprint: u128) {
        self.whole = Some(fingerprint as u64 ^ (fingerprint >> 64) as u64);
    }

    fn finish(&self) -> u64 {
        self.whole.unwrap_or_else(|| self.sip.finish())
    }
}
