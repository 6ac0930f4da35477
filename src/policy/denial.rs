//! Keys that are known to be used up: refused here, with no callout.
//!
//! A store that refused a key and said "in 40 s" need not be asked again by every retry. An entry answers for at
//! most [`RECHECK_US`], so that a limit raised or a key reset at run time helps within a second (the shim reads
//! overrides every 300 ms); after that one request asks again.

use crate::bounded::Bounded;
use crate::verdict::Standing;

/// Entries in one worker; about 1 MiB when in use.
pub const CAPACITY: usize = 16_384;

/// Longest time an entry answers without asking the store again, microseconds.
pub const RECHECK_US: u64 = 500_000;

/// Keys refused until a time.
#[derive(Debug)]
pub struct Denials {
    keys: Bounded<Denial>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Denial {
    /// What the refused request would have cost: a cheaper one may still pass.
    cost: u64,
    until_us: u64,
    reset_at_us: u64,
    remaining: u64,
}

// === impl Denials ===

impl Default for Denials {
    fn default() -> Self {
        Denials { keys: Bounded::new(CAPACITY) }
    }
}

impl Denials {
    /// Remembers that the store refused `cost` tokens for this key of a limit.
    pub fn insert(&mut self, key: u128, cost: u64, standing: &Standing, now_us: u64) {
        if standing.allowed || standing.retry_after_us == 0 {
            return;
        }
        let until_us = now_us.saturating_add(standing.retry_after_us);
        let denial = Denial {
            cost,
            until_us,
            reset_at_us: now_us.saturating_add(standing.reset_us),
            remaining: standing.remaining,
        };
        self.keys.insert(key, until_us.min(now_us.saturating_add(RECHECK_US)), denial);
    }

    /// How the key stands, if it is known that `cost` tokens would be refused.
    pub fn get(&self, key: u128, cost: u64, now_us: u64) -> Option<Standing> {
        let denial = self.keys.get(key, now_us).filter(|denial| cost >= denial.cost)?;
        Some(Standing {
            allowed: false,
            granted: 0,
            remaining: denial.remaining,
            reset_us: denial.reset_at_us.saturating_sub(now_us),
            retry_after_us: denial.until_us.saturating_sub(now_us),
            delay_us: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(retry_after_us: u64) -> Standing {
        Standing { retry_after_us, reset_us: 2 * retry_after_us, ..Standing::default() }
    }

    #[test]
    fn answers_until_the_key_could_pass() {
        let mut denials = Denials::default();
        denials.insert(7, 1, &refused(500_000), 0);
        let standing = denials.get(7, 1, 200_000).unwrap();
        assert_eq!((standing.retry_after_us, standing.reset_us), (300_000, 800_000));
        assert_eq!(denials.get(7, 1, 500_000), None);
        assert_eq!(denials.get(8, 1, 0), None);
    }

    #[test]
    fn asks_again_soon_but_tells_the_whole_wait() {
        let mut denials = Denials::default();
        denials.insert(7, 1, &refused(60_000_000), 0);
        assert_eq!(denials.get(7, 1, RECHECK_US - 1).unwrap().retry_after_us, 59_500_001);
        assert_eq!(denials.get(7, 1, RECHECK_US), None);
    }

    #[test]
    fn a_cheaper_request_is_not_refused_for_a_dear_one() {
        let mut denials = Denials::default();
        denials.insert(7, 10, &refused(500_000), 0);
        assert_eq!(denials.get(7, 9, 0), None);
        assert!(denials.get(7, 10, 0).is_some());
        assert!(denials.get(7, 11, 0).is_some());
    }

    #[test]
    fn an_allowed_standing_is_no_denial() {
        let mut denials = Denials::default();
        denials.insert(7, 1, &Standing { allowed: true, retry_after_us: 5, ..Standing::default() }, 0);
        assert_eq!(denials.get(7, 1, 0), None);
    }
}
