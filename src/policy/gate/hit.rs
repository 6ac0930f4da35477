//! A limit that a request met.

use crate::digest::WireKey;
use crate::tier::Variant;
use crate::verdict::Standing;

/// A limit that a request met, and what came of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    /// Index into the policy's limits.
    pub(super) limit: usize,
    /// Its numbers for the request's tier.
    pub(super) variant: Variant,
    /// Whom it counts, for the maps of this worker; it covers the limit.
    pub(super) local_key: u128,
    /// Whom it counts, for the shim; `None` when the shim is not asked.
    pub(super) wire_key: Option<WireKey>,
    /// What is taken before the request goes on; 0 only looks.
    pub(super) cost: u64,
    /// What is charged after the response, if its status says so; 0 when the response says how much.
    pub(super) price: u64,
    /// It takes a slot, which is given back at the end.
    pub(super) has_slot: bool,
    pub(super) course: Course,
    /// How the key stands, where that is known.
    pub(super) standing: Option<Standing>,
}

/// Who decides about a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// This worker counts by itself.
    Local,
    /// A lease has paid.
    Paid,
    /// The shim is asked for this request's cost, or for a block of so many tokens.
    Asked {
        /// Tokens in the block; 0 for none.
        block: u64,
    },
    /// The shim gave no decision; the limit lets pass.
    Open,
    /// The shim gave no decision; the emergency allowance decides.
    Emergency,
    /// Refused before anybody was asked.
    Refused,
    /// In shadow mode: whatever is decided, the request goes on.
    Shadow,
}

// === impl Hit ===

impl Hit {
    /// Whether it stands in the way of the request.
    pub(super) fn is_refused(&self) -> bool {
        self.course != Course::Shadow && self.standing.is_some_and(|standing| !standing.allowed)
    }
}

/// The key of a limit for the maps of this worker: fingerprints are equal for all limits of one client.
pub(super) fn local_key(limit: usize, fingerprint: u128) -> u128 {
    // The fingerprint is uniform, so an odd multiple of the limit's number keeps two limits apart.
    fingerprint ^ u128::from((limit as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
