//! One ask, by a key that has a state: nearly every take of a worker.

use std::hash::Hash;

use crate::verdict::Standing;

use super::{Ask, Store, borrow, weight};

impl<K: Hash + Eq + Clone> Store<K> {
    /// What [`Store::take`] does, where nobody else has a say and no room has to be made: no seats, one look at the
    /// table, one write.
    pub(super) fn take_known(
        &mut self,
        now_us: u64,
        slot: u64,
        ask: &Ask<'_, K>,
        at: usize,
    ) -> Option<Standing> {
        let &Ask { algorithm, amount, .. } = ask;
        let mut state = borrow(&mut self.table.get_mut(at)?.state, algorithm);
        let must_keep = state.load(algorithm, now_us);
        let granted = state.grant(algorithm, now_us, 0, amount);
        if let Some(n) = granted {
            state.take(algorithm, now_us, slot, n);
        }
        let standing = state.standing(algorithm, now_us, 0, amount, granted);
        if must_keep || granted.is_some_and(|n| 0 < n) {
            let rested_us = now_us.saturating_add(standing.reset_us);
            self.put_back(at, state, rested_us, weight(algorithm));
        }
        Some(standing)
    }
}
