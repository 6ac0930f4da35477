//! What this worker counts by itself: local limits and emergency allowances.

use crate::algorithm::Amount;
use crate::gate::hit::{Course, Hit};
use crate::gate::numbers::Numbers;
use crate::store::{Ask, Store};
use crate::verdict::Standing;

/// Cells of the store: with all of them in use the memory of the VM is about 12 MiB.
const CAPACITY: usize = 65_536;

/// Tells the emergency allowance of a key from its local count.
const EMERGENCY: u128 = 0x5eed_0000_0000_0000_0000_0000_0000_0001;

/// Counts of one worker.
#[derive(Debug)]
pub(super) struct Local {
    store: Store<u128>,
    standings: Vec<Standing>,
}

// === impl Local ===

impl Local {
    pub(super) fn new(seed: u64) -> Self {
        Local { store: Store::new(CAPACITY, seed), standings: Vec::new() }
    }

    /// Takes for every hit that is counted here, or for none; standings are noted in the hits. `look` takes
    /// nothing and only tells whether there would be a token.
    pub(super) fn take(
        &mut self,
        hits: &mut [Hit],
        numbers: &Numbers,
        slot: u64,
        look: bool,
        now_us: u64,
    ) -> bool {
        let ask = |key, hit: &Hit| {
            let algorithm = &numbers.get(hit.variant)?.share;
            Some(Ask { key, algorithm, amount: Amount::exactly(if look { 0 } else { hit.cost }) })
        };
        let mut counted = hits.iter_mut().filter(|hit| is_counted(hit));
        let Some(first) = counted.next() else { return true };
        // Nearly always there is one, and then no list is made.
        if counted.next().is_none() {
            let key = key(first);
            let Some(ask) = ask(&key, first) else { return true };
            let taken = self.store.take(now_us, slot, &[ask], &mut self.standings);
            first.standing = self.standings.first().copied();
            return taken;
        }
        let keys: Vec<u128> = hits.iter().map(key).collect();
        let asks: Vec<Ask<'_, u128>> = hits
            .iter()
            .zip(&keys)
            .filter(|(hit, _)| is_counted(hit))
            .filter_map(|(hit, key)| ask(key, hit))
            .collect();
        let taken = self.store.take(now_us, slot, &asks, &mut self.standings);
        for (hit, standing) in hits.iter_mut().filter(|hit| is_counted(hit)).zip(&self.standings) {
            hit.standing = Some(*standing);
        }
        taken
    }

    /// Charges what a response has cost.
    pub(super) fn charge(&mut self, hit: &Hit, numbers: &Numbers, amount: u64, now_us: u64) {
        if let Some(entry) = numbers.get(hit.variant) {
            self.store.charge(now_us, &key(hit), &entry.share, amount);
        }
    }

    /// Gives a slot back.
    pub(super) fn release(&mut self, hit: &Hit, numbers: &Numbers, slot: u64, now_us: u64) {
        if let Some(entry) = numbers.get(hit.variant) {
            self.store.release(now_us, &key(hit), &entry.share, slot);
        }
    }
}

fn is_counted(hit: &Hit) -> bool {
    matches!(hit.course, Course::Local | Course::Emergency)
}

fn key(hit: &Hit) -> u128 {
    if hit.course == Course::Emergency { hit.local_key ^ EMERGENCY } else { hit.local_key }
}
