//! Changes of limits for some identities: `tiers` and `tier_from`.

use super::algorithm::{KINDS, algorithm, objection};
use super::fields::Fields;
use super::source::sources;
use super::spelling;
use super::value::Value;
use super::words::{group, is_name, quoted};
use crate::identity::IdentityId;
use crate::limit::{Algorithm, Limit};
use crate::node::Node;
use crate::order::sort;
use crate::policy::{Tier, TierChange, Tiers};

/// Most tiers in a policy.
const TIERS_MAX: usize = 100;

/// Most limits that a tier can speak of: as many as there can be.
const LIMITS_MAX: usize = 1_000;

/// Most members in all tiers together.
const MEMBERS_MAX: usize = 10_000;

/// A value of an identity whose tier is fixed.
type Member = (IdentityId, Box<str>, usize);

/// What a tier may speak of.
#[derive(Clone, Copy)]
pub(super) struct Scope<'s> {
    pub(super) identities: &'s [&'s str],
    /// The names of all limits, those of faulty ones too.
    pub(super) limit_names: &'s [&'s str],
    /// The limits, if none has a fault.
    pub(super) limits: Option<&'s [Limit]>,
}

pub(super) fn tiers(fields: &Fields<'_>, scope: Scope<'_>) -> Option<Tiers> {
    let mut members = Vec::new();
    let tiers = fields.or("tiers", Vec::new(), |value| {
        let entries = value.entries(TIERS_MAX)?;
        let read: Vec<Option<Tier>> = entries
            .iter()
            .enumerate()
            .map(|(index, (name, value))| tier(name, value, index, scope, &mut members))
            .collect();
        distinct(value, &members)?;
        read.into_iter().collect()
    });
    let from = fields.or("tier_from", Vec::new(), |value| {
        if fields.get("tiers").is_none() {
            value.fault("there are no `tiers` to choose from");
        }
        sources(value)
    });
    Some(Tiers { from: from?, tiers: tiers?, members })
}

fn tier(
    name: &str,
    value: &Value<'_>,
    index: usize,
    scope: Scope<'_>,
    members: &mut Vec<Member>,
) -> Option<Tier> {
    // A tier's name is compared with a claim, so it may be written as claims are.
    if name.is_empty() || 64 < name.len() || !is_name(&name.to_ascii_lowercase(), 64) {
        value.fault(
            "expected a name of at most 64 letters, digits, `-` and `_` that begins with a letter or digit",
        );
        return None;
    }
    if let Node::Text(_) = value.node {
        let change = value.choice(&[("unlimited", TierChange::Unlimited)])?;
        return Some(Tier { name: name.into(), change, limits: Vec::new(), weight: 1 });
    }
    let fields = value.fields(&["multiply", "unlimited", "limits", "weight", "members"])?;
    let change = match fields.at_most_one_of(&["multiply", "unlimited"])? {
        None => Some(TierChange::Multiply(1_000)),
        Some(("multiply", value)) => {
            let what = "a factor from 0.001 to 1,000 with at most three decimals";
            value.scaled(3, 1..=1_000_000, what).and_then(|n| u32::try_from(n).ok()).map(TierChange::Multiply)
        }
        Some((_, value)) => match value.node {
            Node::Bool(true) => Some(TierChange::Unlimited),
            _ => value.expected("true"),
        },
    };
    let limits = fields.or("limits", Vec::new(), |value| replaced(value, scope));
    let weight = fields.or("weight", 1, |value| u32::try_from(value.integer(1..=1_000)?).ok());
    let read = fields.or("members", Vec::new(), |value| member_lists(value, index, scope.identities));
    members.extend(read?);
    Some(Tier { name: name.into(), change: change?, limits: limits?, weight: weight? })
}

/// `{limit: {algorithm: {...}}}`: numbers of a limit for this tier.
fn replaced(value: &Value<'_>, scope: Scope<'_>) -> Option<Vec<(usize, Algorithm)>> {
    let read: Vec<Option<(usize, Algorithm)>> = value
        .entries(LIMITS_MAX)?
        .into_iter()
        .map(|(name, value)| {
            let index = scope.limit_names.iter().position(|known| *known == name);
            if index.is_none() {
                let hint = spelling::nearest(name, scope.limit_names)
                    .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                value.fault(format!("there is no limit {}{hint}", quoted(name)));
            }
            let algorithm = algorithm(&value.fields(KINDS)?);
            let (index, algorithm) = (index?, algorithm?);
            let limit = scope.limits.and_then(|limits| limits.get(index));
            if let Some(objection) = limit.and_then(|limit| objection(limit, &algorithm)) {
                value.fault(objection);
                return None;
            }
            Some((index, algorithm))
        })
        .collect();
    let mut replaced: Vec<(usize, Algorithm)> = read.into_iter().collect::<Option<_>>()?;
    sort(&mut replaced, |left, right| left.0.cmp(&right.0));
    Some(replaced)
}

/// `{identity: [value, ...]}`.
fn member_lists(value: &Value<'_>, tier: usize, identities: &[&str]) -> Option<Vec<Member>> {
    let lists: Vec<Option<Vec<Member>>> = value
        .entries(identities.len())?
        .into_iter()
        .map(|(identity, value)| {
            let Some(id) = identities.iter().position(|known| *known == identity) else {
                value.fault(format!("unknown identity {identity:?}; it is not among `identities`"));
                return None;
            };
            value.one_or_each(MEMBERS_MAX, |value| {
                // An API key stands here, so the fault does not show it.
                match value.node {
                    Node::Text(text) if (1..=1_024).contains(&text.len()) => {
                        Some((IdentityId(id), text.clone(), tier))
                    }
                    _ => {
                        value.fault("expected text of 1 to 1,024 bytes");
                        None
                    }
                }
            })
        })
        .collect();
    Some(lists.into_iter().collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
}

fn distinct(value: &Value<'_>, members: &[Member]) -> Option<()> {
    if MEMBERS_MAX < members.len() {
        let (most, count) = (group(MEMBERS_MAX as u64), group(members.len() as u64));
        value.fault(format!("expected at most {most} members in all tiers, found {count}"));
        return None;
    }
    let mut sorted: Vec<&Member> = members.iter().collect();
    sort(&mut sorted, |left, right| (left.0, &left.1).cmp(&(right.0, &right.1)));
    let neighbours = sorted.iter().zip(sorted.iter().skip(1));
    let repeated = neighbours.filter(|(left, right)| (left.0, &left.1) == (right.0, &right.1)).count();
    if 0 < repeated {
        value.fault(format!("{repeated} of the members stand here twice"));
        return None;
    }
    Some(())
}
