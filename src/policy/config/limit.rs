//! One limit: whom it counts, what it matches, and what happens when no decision can be had.

use super::algorithm::{self, algorithm};
use super::fields::Fields;
use super::pattern::pattern;
use super::source::header_name;
use super::spelling;
use super::value::Value;
use super::words::{found, group};
use crate::algorithm::TOKENS_MAX;
use crate::identity::IdentityId;
use crate::limit::{Algorithm, ChargeWhen, Cost, Enforce, Limit, WhenMissing, WhenUnavailable};
use crate::mode::Mode;
use crate::node::Node;
use crate::pattern::Pattern;

/// Most identities in one key.
const KEY_MAX: usize = 8;

const KNOWN: &[&str] = &[
    "name",
    "match",
    "group",
    "key",
    "when_missing",
    "token_bucket",
    "leaky_bucket",
    "fixed_window",
    "sliding_window",
    "concurrency",
    "cost",
    "charge_when",
    "charge_preflight",
    "enforce",
    "when_unavailable",
    "mode",
];

/// Reads one limit; `identities` are the names a key may use, `mode` is the policy's.
pub(super) fn limit(value: &Value<'_>, identities: &[&str], default_mode: Mode) -> Option<Limit> {
    // The name comes first, so that every other fault can say it.
    let named = match value.node {
        Node::Map(fields) => fields.iter().find(|(name, _)| &**name == "name"),
        _ => None,
    };
    if let Some((_, name @ Node::Text(_))) = named {
        value.about(format!("limit {}", found(name)));
    }
    let fields = value.fields(KNOWN)?;
    let name = fields.required("name", Value::name);
    let pattern = fields.or("match", Pattern::default(), pattern);
    let group = fields.optional("group", Value::name);
    let key = key(&fields, identities);
    let when_missing = fields.or("when_missing", WhenMissing::Deny, when_missing);
    let algorithm = algorithm(&fields);
    let size = algorithm.as_ref().map_or(TOKENS_MAX, Algorithm::size);
    let cost = fields.or("cost", Cost::Constant(1), |value| cost(value, size));
    let charge_when = fields.optional("charge_when", charge_when);
    let charge_preflight = fields.or("charge_preflight", false, Value::boolean);
    let enforce = fields.or("enforce", Enforce::Shared, |value| enforce(value, size));
    let when_unavailable =
        fields.or("when_unavailable", WhenUnavailable::Allow, |value| when_unavailable(value, size));
    let mode = fields.or("mode", default_mode, mode);
    let limit = Limit {
        name: name?.into(),
        pattern: pattern?,
        group: group?.map(Box::from),
        key: key?,
        when_missing: when_missing?,
        algorithm: algorithm?,
        cost: cost?,
        charge_when: charge_when?,
        charge_preflight: charge_preflight?,
        enforce: enforce?,
        when_unavailable: when_unavailable?,
        mode: mode?,
    };
    algorithm::agrees(&fields, &limit)?;
    Some(limit)
}

/// Whether refusals are carried out: `enforce`, `shadow`, or `{percent: 12.5}`.
pub(super) fn mode(value: &Value<'_>) -> Option<Mode> {
    if !matches!(value.node, Node::Map(_)) {
        return value.choice_or(&[("enforce", Mode::Enforce), ("shadow", Mode::Shadow)], &["{percent: ...}"]);
    }
    value.fields(&["percent"])?.required("percent", |value| {
        const WHAT: &str =
            "a percentage from 0.01 to 99.99 with at most two decimals (all is `enforce`, none `shadow`)";
        u32::try_from(value.scaled(2, 1..=9_999, WHAT)?).ok().map(Mode::Percent)
    })
}

/// The index of the identity that is named here.
pub(super) fn identity_id(value: &Value<'_>, identities: &[&str]) -> Option<IdentityId> {
    let name = value.text("the name of an identity")?;
    if let Some(index) = identities.iter().position(|identity| *identity == name) {
        return Some(IdentityId(index));
    }
    let hint = match spelling::nearest(name, identities) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "it is not among `identities`".into(),
    };
    value.fault(format!("unknown identity {}; {hint}", found(value.node)));
    None
}

fn key(fields: &Fields<'_>, identities: &[&str]) -> Option<Vec<IdentityId>> {
    let Some(value) = fields.get("key") else {
        fields
            .owner()
            .fault("missing `key`: the identities to count by, or `everyone` for one count shared by all");
        return None;
    };
    let ids = value.one_or_each(KEY_MAX, |value| identity_id(value, identities))?;
    let repeated =
        ids.iter().enumerate().find(|(index, id)| ids.iter().take(*index).any(|other| other == *id));
    if let Some((_, id)) = repeated {
        let name = identities.get(id.0).copied().unwrap_or_default();
        value.fault(format!("identity \"{name}\" stands here twice"));
        return None;
    }
    Some(ids)
}

fn when_missing(value: &Value<'_>) -> Option<WhenMissing> {
    if matches!(value.node, Node::Text(text) if &**text == "next") {
        // Inside an identity that is what happens; after its last source nothing comes next.
        value.fault(
            "`next` is what an identity does between its sources; expected `skip`, `deny` or `shared`",
        );
        return None;
    }
    value.choice(&[("skip", WhenMissing::Skip), ("deny", WhenMissing::Deny), ("shared", WhenMissing::Shared)])
}

fn cost(value: &Value<'_>, size: u64) -> Option<Cost> {
    if !matches!(value.node, Node::Map(_)) {
        let cost = value.integer(1..=TOKENS_MAX)?;
        if size < cost {
            value.fault(format!(
                "a cost of {} is more than the limit of {} ever holds",
                group(cost),
                group(size)
            ));
            return None;
        }
        return Some(Cost::Constant(cost));
    }
    let (kind, value) = {
        let fields = value.fields(&["request_header", "response_header"])?;
        fields.one_of(&["request_header", "response_header"])?
    };
    let text = matches!(value.node, Node::Text(_));
    if kind == "request_header" {
        if text {
            return Some(Cost::RequestHeader { name: header_name(&value)?, default: 1, max: size });
        }
        let fields = value.fields(&["name", "default", "max"])?;
        let name = fields.required("name", header_name);
        let max = fields.or("max", size, |value| value.integer(1..=size));
        let default = fields.or("default", 1, |value| value.integer(1..=max.unwrap_or(size)));
        return Some(Cost::RequestHeader { name: name?, default: default?, max: max? });
    }
    if text {
        return Some(Cost::ResponseHeader { name: header_name(&value)?, max: size });
    }
    let fields = value.fields(&["name", "max"])?;
    let name = fields.required("name", header_name);
    let max = fields.or("max", size, |value| value.integer(1..=size));
    Some(Cost::ResponseHeader { name: name?, max: max? })
}

fn charge_when(value: &Value<'_>) -> Option<ChargeWhen> {
    let statuses = value.fields(&["status"])?.required("status", |value| {
        value.one_or_each(64, |value| u16::try_from(value.integer(100..=599)?).ok())
    });
    Some(ChargeWhen { statuses: statuses? })
}

fn enforce(value: &Value<'_>, size: u64) -> Option<Enforce> {
    if !matches!(value.node, Node::Map(_)) {
        let word =
            value.choice_or(&[("shared", false), ("local", true)], &["{leased: ...}", "{local: ...}"])?;
        return Some(if word { Enforce::Local { shares: 1 } } else { Enforce::Shared });
    }
    let fields = value.fields(&["leased", "local"])?;
    match fields.one_of(&["leased", "local"])? {
        ("leased", value) => leased(&value, size),
        (_, value) => shares(&value, size).map(|shares| Enforce::Local { shares }),
    }
}

fn leased(value: &Value<'_>, size: u64) -> Option<Enforce> {
    let fields = value.fields(&["size", "for"])?;
    let block = fields.required("size", |value| {
        let block = value.integer(1..=1_000_000)?;
        if size / 4 < block {
            value.fault(format!(
                "a block of {} is more than a quarter of the limit of {}",
                group(block),
                group(size)
            ));
            return None;
        }
        Some(block)
    });
    let for_us = fields.or("for", 1_000_000, |value| value.duration_us(1_000..=60_000_000));
    Some(Enforce::Leased { size: block?, for_us: for_us? })
}

fn when_unavailable(value: &Value<'_>, size: u64) -> Option<WhenUnavailable> {
    if !matches!(value.node, Node::Map(_)) {
        // `local` alone would mean the whole limit in each worker: the divisor has to be said.
        return value.choice_or(
            &[("allow", WhenUnavailable::Allow), ("deny", WhenUnavailable::Deny)],
            &["{local: ...}"],
        );
    }
    let shares = value.fields(&["local"])?.required("local", |value| shares(value, size))?;
    Some(WhenUnavailable::Local { shares })
}

/// `{replicas, workers}`: by how much a limit is divided.
fn shares(value: &Value<'_>, size: u64) -> Option<u64> {
    let fields = value.fields(&["replicas", "workers"])?;
    let replicas = fields.required("replicas", |value| value.integer(1..=10_000));
    let workers = fields.or("workers", 1, |value| value.integer(1..=1_000));
    let shares = replicas?.saturating_mul(workers?);
    if 10_000 < shares {
        value.fault(format!("`replicas` times `workers` is {}, more than 10,000", group(shares)));
        return None;
    }
    if size < shares {
        value.fault(format!(
            "the limit of {} divided by {} leaves less than one request each",
            group(size),
            group(shares)
        ));
        return None;
    }
    Some(shares)
}
