//! Sets of small numbers.

/// A set of numbers below a bound, one bit each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bits {
    words: Vec<u64>,
}

// === impl Bits ===

impl Bits {
    /// The empty set of numbers below `bound`.
    pub(super) fn new(bound: usize) -> Bits {
        Bits { words: vec![0; bound.div_ceil(64)] }
    }

    /// A set from its members; those at or above `bound` are ignored.
    pub(super) fn from_members(bound: usize, members: impl IntoIterator<Item = usize>) -> Bits {
        let mut bits = Bits::new(bound);
        members.into_iter().for_each(|member| bits.insert(member));
        bits
    }

    pub(super) fn insert(&mut self, member: usize) {
        if let Some(word) = self.words.get_mut(member / 64) {
            *word |= 1 << (member % 64);
        }
    }

    pub(super) fn contains(&self, member: usize) -> bool {
        self.words.get(member / 64).is_some_and(|word| word & (1 << (member % 64)) != 0)
    }

    /// Makes this the empty set of numbers below `bound`, without a new allocation when it was as large before.
    pub(super) fn reset(&mut self, bound: usize) {
        self.words.clear();
        self.words.resize(bound.div_ceil(64), 0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    pub(super) fn intersects(&self, other: &Bits) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// Makes this set what two others share, without a new allocation when it was as large before.
    pub(super) fn set_intersection(&mut self, a: &Bits, b: &Bits) {
        self.words.clear();
        self.words.extend(a.words.iter().zip(&b.words).map(|(a, b)| a & b));
    }

    /// Makes this set a copy of another, without a new allocation when it was as large before.
    pub(super) fn copy_from(&mut self, other: &Bits) {
        self.words.clone_from(&other.words);
    }

    pub(super) fn unite(&mut self, other: &Bits) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a |= b);
    }

    pub(super) fn intersect(&mut self, other: &Bits) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a &= b);
    }

    /// The members in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().zip((0..).step_by(64)).flat_map(|(&word, base)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let lowest = rest.trailing_zeros();
                // Clears the lowest bit; nothing is left of 0.
                rest &= rest.checked_sub(1)?;
                Some(base + lowest as usize)
            })
        })
    }
}
