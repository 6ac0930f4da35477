//! Tokens taken ahead of time, spent inside this worker.
//!
//! The store has charged a block before any of it is spent, so leases can never exceed the limit; what they can do
//! is strand tokens: at most one block for each worker and key, for the life of the block. To keep that bound, only
//! one block is asked for at a time, and a refill asks for no more than what the block lacks.
//!
//! A refill begins the life of the whole block anew. So a key in use pays for no more than it spends and waits for
//! the store only once, and what it holds, at any moment, is one block.

use crate::bounded::Bounded;
use crate::verdict::Standing;

/// Keys with a block in one worker; about 1 MiB when in use.
pub const CAPACITY: usize = 16_384;

/// A refill is asked for when less than this part of a block is left, of its tokens or of its life.
const LAST_PART: u64 = 4;

/// Blocks by key.
#[derive(Debug)]
pub struct Leases {
    keys: Bounded<Lease>,
}

/// How blocks are taken.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Tokens in a block.
    pub size: u64,
    /// How long a block lives, microseconds.
    pub for_us: u64,
    /// How long an answer may take, microseconds: until then no other block is asked for.
    pub answer_us: u64,
}

/// What a request found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spend {
    /// The tokens were at hand. `refill` is not zero when this is the moment to ask for so many more.
    Spent {
        /// How the key stands.
        standing: Standing,
        /// Tokens to ask for ahead of need.
        refill: u64,
    },
    /// Not enough tokens, and nobody has asked for a block yet: the caller should ask for one.
    Ask,
    /// Not enough tokens, and a block is on its way or was refused: the caller should ask for its own cost only.
    Asked,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lease {
    tokens: u64,
    /// When they are no good any more.
    expires_us: u64,
    /// No block is asked for before this time.
    asked_until_us: u64,
    /// What the store had left when it granted last.
    remaining: u64,
    reset_at_us: u64,
}

// === impl Leases ===

impl Default for Leases {
    fn default() -> Self {
        Leases { keys: Bounded::new(CAPACITY) }
    }
}

impl Leases {
    /// Takes `cost` tokens if they are at hand.
    pub fn spend(&mut self, key: u128, cost: u64, terms: Terms, now_us: u64) -> Spend {
        let asked_until_us = now_us.saturating_add(terms.answer_us);
        let Some(lease) = self.keys.get_mut(key, now_us) else {
            self.keys.insert(key, asked_until_us, Lease { asked_until_us, ..Lease::default() });
            return Spend::Ask;
        };
        let may_ask = lease.asked_until_us <= now_us;
        let spend = match lease.tokens(now_us).checked_sub(cost) {
            Some(left) => {
                lease.tokens = left;
                let refill = if may_ask && lease.is_in_last_part(terms, now_us) {
                    terms.size.saturating_sub(left)
                } else {
                    0
                };
                Spend::Spent { standing: lease.standing(now_us), refill }
            }
            None if may_ask => Spend::Ask,
            None => Spend::Asked,
        };
        if matches!(spend, Spend::Ask | Spend::Spent { refill: 1.., .. }) {
            lease.asked_until_us = asked_until_us;
            self.keys.prolong(key, asked_until_us);
        }
        spend
    }

    /// Adds `tokens` to the block, which lives for `for_us` from now. `standing` is the store's, from the same answer.
    pub fn grant(&mut self, key: u128, tokens: u64, for_us: u64, standing: &Standing, now_us: u64) {
        let before = self.keys.get_mut(key, now_us).map_or(0, |lease| lease.tokens(now_us));
        let expires_us = now_us.saturating_add(for_us);
        let lease = Lease {
            tokens: before.saturating_add(tokens),
            expires_us,
            asked_until_us: 0,
            remaining: standing.remaining,
            reset_at_us: now_us.saturating_add(standing.reset_us),
        };
        self.keys.insert(key, expires_us, lease);
    }

    /// Puts tokens back that were spent for a request that was refused after all.
    pub fn give_back(&mut self, key: u128, tokens: u64, now_us: u64) {
        // A block that has expired meanwhile stays expired.
        if let Some(lease) = self.keys.get_mut(key, now_us) {
            lease.tokens = lease.tokens(now_us).saturating_add(tokens);
        }
    }

    /// Notes that a block will not come, and that there is no use in asking for another within `for_us`.
    pub fn refuse(&mut self, key: u128, for_us: u64, now_us: u64) {
        let until_us = now_us.saturating_add(for_us);
        if let Some(lease) = self.keys.get_mut(key, now_us) {
            lease.asked_until_us = until_us;
            self.keys.prolong(key, until_us);
        }
    }
}

// === impl Lease ===

impl Lease {
    fn tokens(&self, now_us: u64) -> u64 {
        if self.expires_us <= now_us { 0 } else { self.tokens }
    }

    fn is_in_last_part(&self, terms: Terms, now_us: u64) -> bool {
        self.tokens < terms.size / LAST_PART
            || self.expires_us.saturating_sub(now_us) < terms.for_us / LAST_PART
    }

    fn standing(&self, now_us: u64) -> Standing {
        Standing {
            allowed: true,
            granted: 0,
            remaining: self.remaining.saturating_add(self.tokens),
            reset_us: self.reset_at_us.saturating_sub(now_us),
            retry_after_us: 0,
            delay_us: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: u128 = 42;
    const TERMS: Terms = Terms { size: 20, for_us: 1_000_000, answer_us: 50_000 };

    fn granted(remaining: u64) -> Standing {
        Standing { allowed: true, remaining, reset_us: 1_000_000, ..Standing::default() }
    }

    /// With a block of so many tokens, granted at 0.
    fn leased(tokens: u64) -> Leases {
        let mut leases = Leases::default();
        leases.grant(KEY, tokens, TERMS.for_us, &granted(80), 0);
        leases
    }

    fn spend(leases: &mut Leases, now_us: u64) -> Spend {
        leases.spend(KEY, 1, TERMS, now_us)
    }

    fn refill(leases: &mut Leases, now_us: u64) -> u64 {
        match spend(leases, now_us) {
            Spend::Spent { refill, .. } => refill,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_block_is_asked_for_at_a_time() {
        let mut leases = Leases::default();
        assert_eq!(spend(&mut leases, 0), Spend::Ask);
        assert_eq!(spend(&mut leases, 1), Spend::Asked);
        assert_eq!(spend(&mut leases, 50_000), Spend::Ask, "the answer never came");
    }

    #[test]
    fn spends_exactly_what_was_granted() {
        let mut leases = leased(3);
        let spent = (0..10).filter(|_| matches!(spend(&mut leases, 10), Spend::Spent { .. })).count();
        assert_eq!(spent, 3);
    }

    #[test]
    fn a_block_expires() {
        let mut leases = leased(20);
        assert!(matches!(spend(&mut leases, 999_999), Spend::Spent { .. }));
        assert_eq!(spend(&mut leases, 1_000_000), Spend::Asked, "a refill is on its way");
        assert_eq!(spend(&mut leases, 1_050_000), Spend::Ask);
    }

    #[test]
    fn refills_once_before_it_is_empty_and_never_above_a_block() {
        let mut leases = leased(20);
        let refills: Vec<u64> = (0..20).map(|_| refill(&mut leases, 10)).collect();
        // 16 spent leave 4, fewer than a quarter of 20: 16 more make a block again.
        assert_eq!(refills.iter().position(|refill| *refill > 0), Some(15));
        assert_eq!(refills.iter().sum::<u64>(), 16);
    }

    #[test]
    fn a_key_in_use_pays_for_what_it_spends_and_never_waits() {
        let (mut leases, mut taken, mut spent) = (leased(20), 20, 0);
        for now_us in (0..60_000_000).step_by(200_000) {
            let refill = refill(&mut leases, now_us);
            spent += 1;
            if refill > 0 {
                taken += refill;
                leases.grant(KEY, refill, TERMS.for_us, &granted(80), now_us + 1_000);
            }
            assert!((1..=20).contains(&(taken - spent)), "one block: {taken} taken, {spent} spent");
        }
        assert_eq!(spent, 300);
    }

    #[test]
    fn a_refill_that_fails_does_not_make_the_block_live_longer() {
        let mut leases = leased(20);
        assert_eq!(refill(&mut leases, 800_000), 1);
        leases.refuse(KEY, 0, 801_000);
        assert_eq!(refill(&mut leases, 802_000), 2, "asks again");
        leases.refuse(KEY, 700_000, 803_000);
        assert_eq!(refill(&mut leases, 999_999), 0, "not before the store has tokens");
        assert_eq!(spend(&mut leases, 1_000_000), Spend::Asked);
        assert_eq!(spend(&mut leases, 1_503_000), Spend::Ask);
    }

    #[test]
    fn remaining_counts_the_block_and_the_store() {
        let Spend::Spent { standing, .. } = spend(&mut leased(20), 400_000) else { panic!() };
        assert_eq!((standing.remaining, standing.reset_us), (99, 600_000));
    }

    #[test]
    fn what_a_refused_request_spent_comes_back() {
        let mut leases = leased(1);
        assert!(matches!(spend(&mut leases, 1), Spend::Spent { .. }));
        leases.give_back(KEY, 1, 2);
        assert!(matches!(spend(&mut leases, 3), Spend::Spent { .. }));
        leases.give_back(KEY, 1, 1_000_000);
        assert!(!matches!(spend(&mut leases, 1_000_001), Spend::Spent { .. }), "not after its life");
    }

    #[test]
    fn a_dead_block_is_not_revived_by_a_new_one() {
        let mut leases = leased(5);
        leases.grant(KEY, 7, TERMS.for_us, &granted(80), 1_000_000);
        assert!(!matches!(leases.spend(KEY, 8, TERMS, 1_000_001), Spend::Spent { .. }));
        assert!(matches!(leases.spend(KEY, 7, TERMS, 1_000_002), Spend::Spent { .. }));
    }
}
