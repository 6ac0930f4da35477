//! A map with a fixed size: what does not fit is forgotten.
//!
//! Entries live in sets of eight, chosen by the low bits of the key, and each set has one word with a byte of every
//! key in it. So a search reads one word, and an entry only if its byte fits. A full set forgets the entry that would
//! have expired first. Nothing is allocated before the first insertion and nothing after it, so the memory of a
//! worker stays flat whatever keys clients invent.

/// Places in one set.
const WAYS: usize = 8;

/// The lowest and the highest bit of each byte.
const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// A map from 128-bit keys, which are uniform, to values that expire.
#[derive(Debug)]
pub struct Bounded<V> {
    entries: Vec<Entry<V>>,
    /// One word for each set, one byte for each place; 0 for an empty one.
    tags: Vec<u64>,
    sets: usize,
}

/// An empty place has expired before any time.
#[derive(Clone, Debug, Default)]
struct Entry<V> {
    key: u128,
    expires_us: u64,
    value: V,
}

// === impl Bounded ===

impl<V: Clone + Default> Bounded<V> {
    /// A map of about `capacity` entries: at least that many, rounded up to a power of two.
    pub fn new(capacity: usize) -> Self {
        let sets = capacity.div_ceil(WAYS).next_power_of_two();
        Bounded { entries: Vec::new(), tags: Vec::new(), sets }
    }

    /// Remembers `value` until `expires_us`, in place of what the key had before.
    pub fn insert(&mut self, key: u128, expires_us: u64, value: V) {
        if self.tags.is_empty() {
            self.entries = vec![Entry::default(); self.sets * WAYS];
            self.tags = vec![0; self.sets];
        }
        let first = self.set(key) * WAYS;
        let soonest = || (first..first + WAYS).min_by_key(|&at| self.entries.get(at).map(|e| e.expires_us));
        let Some(at) = self.find(key).or_else(soonest) else { return };
        if let (Some(entry), Some(tags)) = (self.entries.get_mut(at), self.tags.get_mut(at / WAYS)) {
            *entry = Entry { key, expires_us, value };
            let shift = at % WAYS * 8;
            *tags = *tags & !(0xff << shift) | u64::from(tag(key)) << shift;
        }
    }

    /// The value of the key, if it is remembered and has not expired.
    pub fn get(&self, key: u128, now_us: u64) -> Option<&V> {
        let entry = self.entries.get(self.find(key)?)?;
        (now_us < entry.expires_us).then_some(&entry.value)
    }

    /// The same, to change it in place.
    pub fn get_mut(&mut self, key: u128, now_us: u64) -> Option<&mut V> {
        let at = self.find(key)?;
        let entry = self.entries.get_mut(at)?;
        (now_us < entry.expires_us).then_some(&mut entry.value)
    }

    /// Lets an entry live until `expires_us` at least.
    pub fn prolong(&mut self, key: u128, expires_us: u64) {
        if let Some(entry) = self.find(key).and_then(|at| self.entries.get_mut(at)) {
            entry.expires_us = entry.expires_us.max(expires_us);
        }
    }

    /// Where the key is, whether or not it has expired.
    fn find(&self, key: u128) -> Option<usize> {
        let set = self.set(key);
        // Bytes that are equal become zero, and of those the highest bit is told; a wrong guess costs a look.
        let unlike = self.tags.get(set)? ^ (LOW_BITS * u64::from(tag(key)));
        let mut alike = unlike.wrapping_sub(LOW_BITS) & !unlike & HIGH_BITS;
        while alike != 0 {
            let at = set * WAYS + alike.trailing_zeros() as usize / 8;
            if self.entries.get(at)?.key == key {
                return Some(at);
            }
            alike &= alike - 1;
        }
        None
    }

    fn set(&self, key: u128) -> usize {
        key as usize & (self.sets - 1)
    }
}

/// A byte of the key that does not choose its set; never 0.
fn tag(key: u128) -> u8 {
    (key >> 121) as u8 | 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tests' keys are not uniform: these differ in their tags too.
    fn key(number: u64) -> u128 {
        u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64 | u128::from(number)
    }

    fn held(map: &Bounded<u64>, numbers: std::ops::Range<u64>, now_us: u64) -> usize {
        numbers.filter(|number| map.get(key(*number), now_us).is_some()).count()
    }

    #[test]
    fn remembers_until_expiry() {
        let mut map = Bounded::new(64);
        map.insert(1, 100, "one");
        assert_eq!(map.get(1, 99), Some(&"one"));
        assert_eq!(map.get(1, 100), None);
        assert_eq!(map.get(2, 0), None);
        map.prolong(1, 200);
        map.prolong(1, 150);
        assert_eq!(map.get_mut(1, 199), Some(&mut "one"));
    }

    #[test]
    fn one_entry_for_each_key() {
        let mut map = Bounded::new(8);
        for value in 0..100 {
            map.insert(key(1), 100 + value, value);
        }
        map.insert(key(2), 50, 2);
        assert_eq!((map.get(key(1), 0), map.get(key(2), 0)), (Some(&99), Some(&2)), "nothing was displaced");
        assert_eq!(map.tags, [map.tags[0] & 0xffff], "two places are taken");
    }

    #[test]
    fn keys_with_equal_tags_are_told_apart() {
        let mut map = Bounded::new(8);
        (0..8_u64).for_each(|number| map.insert(u128::from(number), 100, number));
        assert!((0..8_u64).all(|number| map.get(u128::from(number), 0) == Some(&number)));
        assert_eq!(map.get(8, 0), None);
    }

    #[test]
    fn a_full_set_forgets_what_expires_first() {
        let mut map = Bounded::new(1);
        (0..9).for_each(|number| map.insert(key(number), 1_000 - number, number));
        assert_eq!(held(&map, 0..9, 0), 8);
        assert_eq!(map.get(key(7), 0), None, "the entry that expires first made room");
        assert_eq!(map.get(key(8), 0), Some(&8));
    }

    #[test]
    fn what_has_expired_goes_before_what_has_not() {
        let mut map = Bounded::new(1);
        (0..8).for_each(|number| map.insert(key(number), if number == 5 { 10 } else { 100 }, number));
        map.insert(key(8), 20, 8);
        assert_eq!(held(&map, 0..9, 15), 8);
    }

    #[test]
    fn never_grows() {
        let mut map = Bounded::new(1_024);
        (0..1_000_000).for_each(|number| map.insert(key(number), number + 50, number));
        assert!(held(&map, 0..1_000_000, 0) <= 1_024);
        assert_eq!((map.entries.capacity(), map.tags.capacity()), (1_024, 128));
    }
}
