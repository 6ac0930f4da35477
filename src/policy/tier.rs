//! Per-identity changes of limits.
//!
//! A tier multiplies the numbers of every limit, within the ranges the limits themselves have, or replaces them. That
//! is worked out once, when the policy is loaded; a request only picks a [`Variant`].

use crate::identity::IdentityId;
use crate::limit::Algorithm;
use crate::order::sort;
use crate::policy::{Policy, TierChange, Tiers};
use crate::resolve::attribute::{Attributes, Reader};
use crate::resolve::{Place, Resolver, Value};

/// Index into [`Policy::tiers`]' list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TierId(pub usize);

/// One limit as one tier sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variant(usize);

/// The numbers of every limit for every tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variants {
    /// Row by row, one row for each limit: without a tier first, then each tier in order.
    algorithms: Vec<Option<Algorithm>>,
    row_len: usize,
}

/// How a request's tier is found: a list of members first, then the sources of the tier's name.
#[derive(Clone, Debug)]
pub(crate) struct TierRules {
    /// Identities that have members, in configuration order.
    listed: Vec<IdentityId>,
    /// (source, value, tier), in order of the first two.
    members: Vec<(usize, Box<[u8]>, TierId)>,
    /// In order of names.
    names: Vec<(Box<[u8]>, TierId)>,
    from: Vec<Place>,
}

// === impl TierRules ===

impl TierRules {
    pub(crate) fn new(tiers: &Tiers, resolver: &Resolver, attributes: &mut Attributes) -> TierRules {
        let mut listed = Vec::new();
        let mut members = Vec::new();
        for (identity, value, tier) in &tiers.members {
            if !listed.contains(identity) {
                listed.push(*identity);
            }
            members.extend(resolver.sources_of(*identity).filter_map(|(source, place)| {
                Some((source, place.written(value)?.into_boxed_slice(), TierId(*tier)))
            }));
        }
        // Stable: of two entries for one value, the first in the configuration comes first and is kept.
        sort(&mut members, |a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        members.dedup_by(|b, a| (a.0, &a.1) == (b.0, &b.1));
        let mut names: Vec<(Box<[u8]>, TierId)> =
            tiers.tiers.iter().zip(0..).map(|(tier, id)| (tier.name.as_bytes().into(), TierId(id))).collect();
        sort(&mut names, |a, b| a.0.cmp(&b.0));
        let from = tiers.from.iter().map(|source| Place::new(source, attributes)).collect();
        TierRules { listed, members, names, from }
    }

    /// Identities whose value [`TierRules::member`] asks about.
    pub(crate) fn listed(&self) -> &[IdentityId] {
        &self.listed
    }

    /// The tier that the list gives to a value.
    pub(crate) fn member(&self, value: Value, bytes: &[u8]) -> Option<TierId> {
        if value.condensed {
            return None;
        }
        let found = self
            .members
            .binary_search_by(|(source, member, _)| (*source, &**member).cmp(&(value.source, bytes)));
        self.members.get(found.ok()?).map(|(_, _, tier)| *tier)
    }

    /// The tier that the request's own sources name; the first that has a value decides, and an unknown name is none.
    pub(crate) fn named(&self, reader: &mut Reader<'_>) -> Option<TierId> {
        let span = self.from.iter().find_map(|place| place.value(reader))?;
        let name = reader.memo.bytes(span);
        let found = self.names.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        self.names.get(found).map(|(_, tier)| *tier)
    }
}

// === impl Variants ===

impl Variants {
    /// Works out all of them: (limits) x (tiers + 1).
    pub fn new(policy: &Policy) -> Variants {
        let tiers = &policy.tiers.tiers;
        let algorithms = policy
            .limits
            .iter()
            .zip(0_usize..)
            .flat_map(|(limit, index)| {
                let own = Some(limit.algorithm.clone());
                std::iter::once(own).chain(tiers.iter().map(move |tier| {
                    let replaced = tier.limits.iter().find(|(replaced, _)| *replaced == index);
                    match replaced {
                        Some((_, algorithm)) => Some(algorithm.clone()),
                        None => changed(&limit.algorithm, tier.change),
                    }
                }))
            })
            .collect();
        Variants { algorithms, row_len: tiers.len().saturating_add(1) }
    }

    /// How this tier sees this limit; `None` if it is free of it.
    pub fn of(&self, limit: usize, tier: Option<TierId>) -> Option<Variant> {
        let column = tier.map_or(0, |TierId(tier)| tier.saturating_add(1));
        if column >= self.row_len {
            return None;
        }
        let variant = Variant(limit.saturating_mul(self.row_len).saturating_add(column));
        self.algorithm(variant).map(|_| variant)
    }

    /// The numbers of a variant; `None` only for one that [`Variants::of`] never gave.
    pub fn algorithm(&self, Variant(index): Variant) -> Option<&Algorithm> {
        self.algorithms.get(index)?.as_ref()
    }

    /// How many there are; [`Variant::index`] is below it.
    pub fn count(&self) -> usize {
        self.algorithms.len()
    }
}

// === impl Variant ===

impl Variant {
    /// For tables with one entry for each variant.
    pub fn index(self) -> usize {
        self.0
    }
}

/// What a tier makes of a limit; `None` means no limit.
pub fn changed(algorithm: &Algorithm, change: TierChange) -> Option<Algorithm> {
    match change {
        TierChange::Multiply(thousandths) => Some(algorithm.multiplied(thousandths)),
        TierChange::Unlimited => None,
    }
}
