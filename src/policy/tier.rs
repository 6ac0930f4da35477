//! Per-identity changes of limits.
//!
//! A tier multiplies the numbers of every limit, within the ranges the limits themselves have, or replaces them. That
//! is worked out once, when the policy is loaded; a request only picks a [`Variant`].

use crate::identity::IdentityId;
use crate::limit::{
    Algorithm, Concurrency, FixedWindow, LeakyBucket, Rate, SlidingLog, SlidingWindow, TokenBucket,
};
use crate::order::sort;
use crate::policy::{Policy, TierChange, Tiers};
use crate::resolve::attribute::{Attributes, Reader};
use crate::resolve::{Place, Resolver, Value};

/// Tokens of a burst or a window, at most.
const TOKENS_MAX: u64 = 1_000_000_000;
/// Entries of a log, at most.
const LOG_MAX: u64 = 1_000;
/// Slots of a concurrency limit, at most.
const SLOTS_MAX: u64 = 100_000;
/// Longest period of a rate: 30 days in microseconds.
const PERIOD_MAX_US: u128 = 2_592_000_000_000;

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

/// What a tier makes of a limit, clamped to the documented ranges, never zero; `None` means no limit.
///
/// Burst, limit and rate are multiplied; lengths of time and the waiting room are not.
pub fn changed(algorithm: &Algorithm, change: TierChange) -> Option<Algorithm> {
    let TierChange::Multiply(thousandths) = change else { return None };
    let times = |tokens: u64, max: u64| multiplied(tokens, thousandths, max);
    Some(match algorithm {
        Algorithm::TokenBucket(b) => Algorithm::TokenBucket(TokenBucket {
            burst: times(b.burst, TOKENS_MAX),
            rate: rate(b.rate, thousandths),
        }),
        Algorithm::LeakyBucket(b) => Algorithm::LeakyBucket(LeakyBucket {
            burst: times(b.burst, TOKENS_MAX),
            rate: rate(b.rate, thousandths),
            ..b.clone()
        }),
        Algorithm::FixedWindow(w) => {
            Algorithm::FixedWindow(FixedWindow { limit: times(w.limit, TOKENS_MAX), ..w.clone() })
        }
        Algorithm::SlidingWindow(w) => {
            Algorithm::SlidingWindow(SlidingWindow { limit: times(w.limit, TOKENS_MAX), ..w.clone() })
        }
        Algorithm::SlidingLog(w) => {
            Algorithm::SlidingLog(SlidingLog { limit: times(w.limit, LOG_MAX), ..w.clone() })
        }
        Algorithm::Concurrency(c) => {
            Algorithm::Concurrency(Concurrency { max: times(c.max, SLOTS_MAX), ..c.clone() })
        }
    })
}

/// Rounded down, but at least 1.
fn multiplied(tokens: u64, thousandths: u32, max: u64) -> u64 {
    let product = u128::from(tokens).saturating_mul(u128::from(thousandths)) / 1_000;
    u64::try_from(product).unwrap_or(u64::MAX).clamp(1, max)
}

/// Exact where the product is a whole number of tokens in a period of at most 30 days; beyond, the period is rounded
/// up to a microsecond. Clamped to the slowest and the fastest rate.
fn rate(rate: Rate, thousandths: u32) -> Rate {
    let tokens = u128::from(rate.tokens).saturating_mul(u128::from(thousandths));
    let period_us = u128::from(rate.period_us).saturating_mul(1_000);
    if tokens >= period_us {
        return Rate { tokens: 1, period_us: 1 };
    }
    let common = gcd(tokens, period_us).max(1);
    let (tokens, period_us) = (tokens / common, period_us / common);
    if period_us <= PERIOD_MAX_US {
        return narrow(tokens, period_us);
    }
    // The most tokens whose period fits, and that period.
    let fitting = tokens.saturating_mul(PERIOD_MAX_US) / period_us;
    if fitting == 0 {
        return narrow(1, PERIOD_MAX_US);
    }
    let period_us = fitting.saturating_mul(period_us).div_ceil(tokens.max(1));
    let common = gcd(fitting, period_us).max(1);
    narrow(fitting / common, period_us / common)
}

fn narrow(tokens: u128, period_us: u128) -> Rate {
    Rate {
        tokens: u64::try_from(tokens).unwrap_or(1).max(1),
        period_us: u64::try_from(period_us).unwrap_or(u64::MAX).max(1),
    }
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
