//! The numbers of each limit for each tier, worked out when first needed.

use crate::limit::{Algorithm, Enforce, Limit, WhenUnavailable};
use crate::response::Quota;
use crate::tier::Variant;

/// One entry for each variant.
#[derive(Debug)]
pub(super) struct Numbers {
    entries: Vec<Option<Entry>>,
}

/// What a variant means here.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) quota: Quota,
    /// What one worker counts by itself: its share of a local limit, or the emergency allowance.
    pub(super) share: Algorithm,
}

// === impl Numbers ===

impl Numbers {
    pub(super) fn new(variants: usize) -> Self {
        let mut entries = Vec::new();
        entries.resize_with(variants, || None);
        Numbers { entries }
    }

    /// Works an entry out, if that has not been done; true if this was the first time.
    pub(super) fn define(&mut self, variant: Variant, limit: &Limit, algorithm: &Algorithm) -> bool {
        let Some(entry) = self.entries.get_mut(variant.index()) else { return false };
        if entry.is_some() {
            return false;
        }
        let shares = match (&limit.enforce, limit.when_unavailable) {
            (Enforce::Local { shares }, _) => *shares,
            (_, WhenUnavailable::Local { shares }) => shares,
            _ => 1,
        };
        *entry = Some(Entry { quota: Quota::new(&limit.name, algorithm), share: algorithm.divided(shares) });
        true
    }

    pub(super) fn get(&self, variant: Variant) -> Option<&Entry> {
        self.entries.get(variant.index())?.as_ref()
    }
}
