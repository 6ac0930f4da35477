//! A map with a fixed size: what does not fit is forgotten.
//!
//! Entries live in sets of eight, chosen by the low bits of the key, so every operation looks at eight places and
//! no more. A full set forgets the entry that would have expired first. Nothing is allocated before the first
//! insertion and nothing after it, so the memory of a worker stays flat whatever keys clients invent.

/// Places in one set.
const WAYS: usize = 8;

/// A map from 128-bit keys to values that expire.
#[derive(Debug)]
pub struct Bounded<V> {
    places: Vec<Option<Entry<V>>>,
    sets: usize,
}

#[derive(Debug)]
struct Entry<V> {
    key: u128,
    expires_us: u64,
    value: V,
}

// === impl Bounded ===

impl<V> Bounded<V> {
    /// A map of about `capacity` entries: at least that many, rounded up to a power of two.
    pub fn new(capacity: usize) -> Self {
        Bounded { places: Vec::new(), sets: capacity.div_ceil(WAYS).next_power_of_two() }
    }

    /// Remembers `value` until `expires_us`, in place of what the key had before.
    pub fn insert(&mut self, key: u128, expires_us: u64, value: V, now_us: u64) {
        if self.places.is_empty() {
            self.places.resize_with(self.sets * WAYS, || None);
        }
        let Some(set) = self.set_mut(key) else { return };
        let place = set
            .iter()
            .position(|place| place.as_ref().is_some_and(|entry| entry.key == key))
            .or_else(|| set.iter().position(|p| p.as_ref().is_none_or(|entry| entry.expires_us <= now_us)))
            .or_else(|| {
                (0..WAYS).min_by_key(|&way| set.get(way).and_then(Option::as_ref).map(|e| e.expires_us))
            });
        if let Some(slot) = place.and_then(|way| set.get_mut(way)) {
            *slot = Some(Entry { key, expires_us, value });
        }
    }

    /// Forgets the key.
    pub fn remove(&mut self, key: u128) {
        if let Some(set) = self.set_mut(key) {
            for place in set {
                if place.as_ref().is_some_and(|entry| entry.key == key) {
                    *place = None;
                }
            }
        }
    }

    /// The value of the key, if it is remembered and has not expired.
    pub fn get(&self, key: u128, now_us: u64) -> Option<&V> {
        let first = self.first(key);
        let set = self.places.get(first..first + WAYS)?;
        set.iter().flatten().find(|e| e.key == key && e.expires_us > now_us).map(|entry| &entry.value)
    }

    /// The same, to change it in place.
    pub fn get_mut(&mut self, key: u128, now_us: u64) -> Option<&mut V> {
        let set = self.set_mut(key)?;
        set.iter_mut().flatten().find(|e| e.key == key && e.expires_us > now_us).map(|e| &mut e.value)
    }

    /// Lets an entry live until `expires_us` at least.
    pub fn prolong(&mut self, key: u128, expires_us: u64) {
        if let Some(set) = self.set_mut(key) {
            for entry in set.iter_mut().flatten().filter(|entry| entry.key == key) {
                entry.expires_us = entry.expires_us.max(expires_us);
            }
        }
    }

    /// Entries that have been inserted and not overwritten, expired ones included.
    pub fn len(&self) -> usize {
        self.places.iter().flatten().count()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn set_mut(&mut self, key: u128) -> Option<&mut [Option<Entry<V>>]> {
        let first = self.first(key);
        self.places.get_mut(first..first + WAYS)
    }

    fn first(&self, key: u128) -> usize {
        (key as usize & (self.sets - 1)) * WAYS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_until_expiry() {
        let mut map = Bounded::new(64);
        map.insert(1, 100, "one", 0);
        assert_eq!(map.get(1, 99), Some(&"one"));
        assert_eq!(map.get(1, 100), None);
        assert_eq!(map.get(2, 0), None);
    }

    #[test]
    fn one_entry_for_each_key() {
        let mut map = Bounded::new(64);
        map.insert(1, 100, 1, 0);
        map.insert(1, 200, 2, 0);
        assert_eq!(map.len(), 1);
        assert_eq!(map.get(1, 150), Some(&2));
        map.remove(1);
        assert!(map.is_empty());
    }

    #[test]
    fn a_full_set_forgets_what_expires_first() {
        let mut map = Bounded::new(1);
        for key in 0..9u128 {
            map.insert(key, 1_000 - key as u64, key, 0);
        }
        assert_eq!(map.len(), 8);
        assert_eq!(map.get(7, 0), None, "the entry that expires first made room");
        assert_eq!(map.get(8, 0), Some(&8));
    }

    #[test]
    fn never_grows() {
        let mut map = Bounded::new(1_024);
        for key in 0..1_000_000u64 {
            map.insert(u128::from(key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7), key + 50, key, key);
        }
        assert!(map.len() <= 1_024);
        assert_eq!(map.places.capacity(), 1_024);
    }
}
