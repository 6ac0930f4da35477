//! Tokens taken ahead of time, spent inside this worker.
//!
//! The store has charged a block before any of it is spent, so leases can never exceed the limit; what they can do
//! is strand tokens: at most one block for each worker and key, for the life of the block. To keep that bound, only
//! one block is asked for at a time and an early refill asks for no more than what the block lacks.

use crate::bounded::Bounded;
use crate::verdict::Standing;

/// Keys with a block in one worker; about 1.5 MiB when in use.
pub const CAPACITY: usize = 16_384;

/// Blocks by key.
#[derive(Debug)]
pub struct Leases {
    keys: Bounded<Lease>,
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
    /// Not enough tokens, and a block is on its way: the caller should ask for its own cost only.
    Asked,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lease {
    /// Spent in this order; the second holds what a refill brought.
    blocks: [Block; 2],
    /// A block has been asked for; its answer is due by this time.
    asked_until_us: u64,
    /// What the store had left when it granted last.
    remaining: u64,
    reset_at_us: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    tokens: u64,
    expires_us: u64,
}

// === impl Leases ===

impl Default for Leases {
    fn default() -> Self {
        Leases { keys: Bounded::new(CAPACITY) }
    }
}

impl Leases {
    /// Takes `cost` tokens if they are at hand. `size` is the block's; an answer to a refill or an `Ask` is
    /// expected within `answer_us`, and until then no other block is asked for.
    pub fn spend(&mut self, key: u128, cost: u64, size: u64, answer_us: u64, now_us: u64) -> Spend {
        let asked_until_us = now_us.saturating_add(answer_us);
        let Some(lease) = self.keys.get_mut(key, now_us) else {
            self.keys.insert(key, asked_until_us, Lease { asked_until_us, ..Lease::default() }, now_us);
            return Spend::Ask;
        };
        lease.expire(now_us);
        let asked = lease.asked_until_us > now_us;
        if lease.tokens() < cost {
            if asked {
                return Spend::Asked;
            }
            lease.asked_until_us = asked_until_us;
            self.keys.prolong(key, asked_until_us);
            return Spend::Ask;
        }
        lease.take(cost);
        let standing = lease.standing(now_us);
        let left = lease.tokens();
        if asked || left >= size / 4 {
            return Spend::Spent { standing, refill: 0 };
        }
        lease.asked_until_us = asked_until_us;
        self.keys.prolong(key, asked_until_us);
        Spend::Spent { standing, refill: size - left }
    }

    /// Whether [`Leases::spend`] would find the tokens and ask for nothing.
    pub fn suffices(&self, key: u128, cost: u64, size: u64, now_us: u64) -> bool {
        self.keys.get(key, now_us).is_some_and(|lease| {
            let live = lease.blocks.iter().filter(|block| block.expires_us > now_us);
            let tokens: u64 = live.map(|block| block.tokens).sum();
            tokens >= cost && (tokens - cost >= size / 4 || lease.asked_until_us > now_us)
        })
    }

    /// Adds a block of `tokens` that lives for `for_us`. `standing` is the store's, from the same answer.
    pub fn grant(&mut self, key: u128, tokens: u64, for_us: u64, standing: &Standing, now_us: u64) {
        let mut lease = self.keys.get(key, now_us).copied().unwrap_or_default();
        lease.expire(now_us);
        lease.asked_until_us = 0;
        lease.remaining = standing.remaining;
        lease.reset_at_us = now_us.saturating_add(standing.reset_us);
        lease.add(Block { tokens, expires_us: now_us.saturating_add(for_us) });
        self.keys.insert(key, lease.expires_us(), lease, now_us);
    }

    /// Puts tokens back that were spent for a request that was refused after all.
    pub fn give_back(&mut self, key: u128, tokens: u64, now_us: u64) {
        if let Some(lease) = self.keys.get_mut(key, now_us) {
            // A block that has expired meanwhile stays expired.
            if let Some(block) = lease.blocks.iter_mut().find(|block| block.expires_us > now_us) {
                block.tokens = block.tokens.saturating_add(tokens);
            }
        }
    }

    /// Notes that a block will not come: the next request asks again.
    pub fn refuse(&mut self, key: u128, now_us: u64) {
        if let Some(lease) = self.keys.get_mut(key, now_us) {
            lease.asked_until_us = 0;
        }
    }
}

// === impl Lease ===

impl Lease {
    fn expire(&mut self, now_us: u64) {
        for block in &mut self.blocks {
            if block.expires_us <= now_us {
                *block = Block::default();
            }
        }
    }

    fn take(&mut self, mut cost: u64) {
        for block in &mut self.blocks {
            let taken = block.tokens.min(cost);
            block.tokens -= taken;
            cost -= taken;
        }
    }

    /// Puts a block after the older one; should both places hold tokens, the life of the older counts for all.
    fn add(&mut self, block: Block) {
        let [first, second] = &mut self.blocks;
        if first.tokens == 0 {
            *first = std::mem::take(second);
        }
        if first.tokens == 0 {
            *first = block;
        } else if second.tokens == 0 {
            *second = block;
        } else {
            second.tokens = second.tokens.saturating_add(block.tokens);
        }
    }

    fn tokens(&self) -> u64 {
        self.blocks.iter().fold(0, |sum, block| sum.saturating_add(block.tokens))
    }

    fn expires_us(&self) -> u64 {
        self.blocks.iter().map(|block| block.expires_us).max().unwrap_or(0)
    }

    fn standing(&self, now_us: u64) -> Standing {
        Standing {
            allowed: true,
            granted: 0,
            remaining: self.remaining.saturating_add(self.tokens()),
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

    fn granted(remaining: u64) -> Standing {
        Standing { allowed: true, remaining, reset_us: 1_000_000, ..Standing::default() }
    }

    /// Spends one of a block of 20, with 50 ms for an answer.
    fn spend(leases: &mut Leases, now_us: u64) -> Spend {
        leases.spend(KEY, 1, 20, 50_000, now_us)
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
        let mut leases = Leases::default();
        leases.grant(KEY, 3, 1_000_000, &granted(0), 0);
        let spent = (0..10).filter(|_| matches!(spend(&mut leases, 10), Spend::Spent { .. })).count();
        assert_eq!(spent, 3);
    }

    #[test]
    fn a_block_expires() {
        let mut leases = Leases::default();
        leases.grant(KEY, 20, 1_000, &granted(0), 0);
        assert!(matches!(spend(&mut leases, 999), Spend::Spent { .. }));
        assert_eq!(spend(&mut leases, 1_000), Spend::Ask);
    }

    #[test]
    fn refills_once_before_it_is_empty_and_never_above_a_block() {
        let mut leases = Leases::default();
        leases.grant(KEY, 20, 1_000_000, &granted(80), 0);
        let refills: Vec<u64> = (0..20)
            .map(|_| match spend(&mut leases, 10) {
                Spend::Spent { refill, .. } => refill,
                other => panic!("{other:?}"),
            })
            .collect();
        // 16 spent leave 4, fewer than a quarter of 20: 16 more make a block again.
        assert_eq!(refills.iter().position(|refill| *refill > 0), Some(15));
        assert_eq!(refills.iter().sum::<u64>(), 16);
    }

    #[test]
    fn remaining_counts_the_block_and_the_store() {
        let mut leases = Leases::default();
        leases.grant(KEY, 20, 1_000_000, &granted(80), 0);
        let Spend::Spent { standing, .. } = spend(&mut leases, 400_000) else { panic!() };
        assert_eq!((standing.remaining, standing.reset_us), (99, 600_000));
    }

    #[test]
    fn what_a_refused_request_spent_comes_back() {
        let mut leases = Leases::default();
        leases.grant(KEY, 1, 1_000_000, &granted(0), 0);
        assert!(matches!(spend(&mut leases, 1), Spend::Spent { .. }));
        leases.give_back(KEY, 1, 2);
        assert!(matches!(spend(&mut leases, 3), Spend::Spent { .. }));
        leases.give_back(KEY, 1, 1_000_000);
        assert_eq!(spend(&mut leases, 1_000_001), Spend::Ask, "not after its life");
    }

    #[test]
    fn a_second_block_keeps_its_own_life() {
        let mut leases = Leases::default();
        leases.grant(KEY, 5, 1_000, &granted(0), 0);
        leases.grant(KEY, 7, 1_000, &granted(0), 500);
        assert!(matches!(leases.spend(KEY, 12, 20, 50, 999), Spend::Spent { .. }));
        leases.grant(KEY, 5, 1_000, &granted(0), 2_000);
        leases.grant(KEY, 7, 1_000, &granted(0), 2_500);
        assert_eq!(leases.spend(KEY, 8, 20, 50, 3_000), Spend::Ask, "the first five are gone");
        assert!(matches!(leases.spend(KEY, 7, 20, 50, 3_001), Spend::Spent { .. }));
    }
}
