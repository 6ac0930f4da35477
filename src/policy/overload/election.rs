//! Who polls: one VM of an Envoy, by a lease in shared data.
//!
//! The holder renews each tick. A lease that was not renewed for some ticks, or was written by an older generation
//! of the configuration, may be taken by compare and swap; whoever took it reads it back, since two first writers
//! both succeed. A loser that was faster with its reading sees a foreign owner at its next tick and steps down.

use super::codec::{Reader, Writer};

const MAGIC: u64 = 0x3130_4553_4c47_5353;

/// A lease on leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Who holds it.
    pub owner: u64,
    /// When the holder came to be, microseconds: younger configurations displace older ones.
    pub born_us: u64,
    /// What the holder was configured with.
    pub generation: u64,
    /// Last renewal, microseconds.
    pub renewed_us: u64,
}

/// What to do about the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is ours: renew it and lead.
    Renew,
    /// It is free or stale: write ours, lead if it is still there when read again.
    Take,
    /// Somebody else leads.
    Follow,
}

impl Lease {
    /// Fixed layout, little endian.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u64s(&[MAGIC, self.owner, self.born_us, self.generation, self.renewed_us]);
        writer.into_bytes()
    }

    /// The lease in these bytes; `None` when they are not one.
    pub fn decode(bytes: &[u8]) -> Option<Lease> {
        let [magic, owner, born_us, generation, renewed_us] = Reader::new(bytes).u64s()?;
        (magic == MAGIC).then_some(Lease { owner, born_us, generation, renewed_us })
    }

    /// What its would-be holder does, given what is written now. `ttl_us` is how long a lease lasts unrenewed.
    pub fn claim(&self, written: Option<Lease>, now_us: u64, ttl_us: u64) -> Claim {
        match written {
            None => Claim::Take,
            Some(lease) if lease.owner == self.owner => Claim::Renew,
            Some(lease) if ttl_us < now_us.abs_diff(lease.renewed_us) => Claim::Take,
            Some(lease) if lease.generation != self.generation && lease.born_us < self.born_us => Claim::Take,
            Some(_) => Claim::Follow,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Lease = Lease { owner: 1, born_us: 500, generation: 7, renewed_us: 1_000 };

    #[test]
    fn takes_what_is_free_stale_or_of_an_older_configuration() {
        let theirs = Lease { owner: 2, ..OURS };
        assert_eq!(OURS.claim(None, 1_000, 300), Claim::Take);
        assert_eq!(OURS.claim(Some(theirs), 1_301, 300), Claim::Take);
        assert_eq!(OURS.claim(Some(theirs), 699, 300), Claim::Take, "the clock stepped back");
        let older = Lease { born_us: 400, generation: 6, ..theirs };
        assert_eq!(OURS.claim(Some(older), 1_000, 300), Claim::Take);
    }

    #[test]
    fn follows_a_living_leader_and_renews_its_own() {
        let theirs = Lease { owner: 2, ..OURS };
        assert_eq!(OURS.claim(Some(theirs), 1_300, 300), Claim::Follow);
        let younger = Lease { born_us: 600, generation: 8, ..theirs };
        assert_eq!(OURS.claim(Some(younger), 1_000, 300), Claim::Follow);
        assert_eq!(OURS.claim(Some(OURS), 9_000, 300), Claim::Renew);
    }

    #[test]
    fn survives_its_own_encoding() {
        assert_eq!(Lease::decode(&OURS.encode()), Some(OURS));
        assert_eq!(Lease::decode(b"junk"), None);
    }
}
