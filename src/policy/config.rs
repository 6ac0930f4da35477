//! From a document to a [`Policy`], or to everything that is wrong with it.
//!
//! The grammar is told in `envoy/CONFIGURATION.md`. Nothing is guessed: an unknown field, a number out of range, a
//! fraction where a whole number is due, a name that stands twice are faults, each with its path, what was expected
//! and what was found.

mod algorithm;
mod attribute;
mod fault;
mod fields;
mod fingerprint;
mod limit;
mod overload;
mod pattern;
mod responses;
mod scalar;
mod shim;
mod source;
mod spelling;
mod tier;
mod trail;
mod value;
mod words;

use self::fault::Log;
pub use self::fault::{Fault, Faults};
use self::fields::Fields;
use self::value::Value;
use self::words::{alternatives, is_name, quoted};
use crate::identity::IdentityId;
use crate::limit::{Enforce, Limit};
use crate::mode::Mode;
use crate::node::{self, Node, NodeError};
use crate::policy::Policy;

/// The version of the grammar that a document has to name.
const VERSION: u64 = 1;

/// Most limits in a policy.
const LIMITS_MAX: usize = 1_000;

const KNOWN: &[&str] = &[
    "version",
    "namespace",
    "digest_secret",
    "shim",
    "identities",
    "limits",
    "tiers",
    "tier_from",
    "overload",
    "responses",
    "mode",
];

/// A policy from what Envoy hands over: JSON, or a serialized `google.protobuf.Struct`.
///
/// # Errors
///
/// Every fault of the document.
pub fn from_bytes(bytes: &[u8]) -> Result<Policy, Faults> {
    // A serialized Struct begins with the tag of its one field, which in JSON is a line feed: only one of the two
    // can be read to its end.
    match bytes.first() {
        Some(b'\n') => match node::from_struct(bytes) {
            Ok(node) => from_node(&node),
            Err(_) => from_json(bytes),
        },
        _ => from_json(bytes),
    }
}

/// A policy from JSON text.
///
/// # Errors
///
/// Every fault of the document; of text that is no JSON, the first.
pub fn from_json(text: &[u8]) -> Result<Policy, Faults> {
    match node::from_json(text) {
        Ok(node) => from_node(&node),
        Err(NodeError::Json { path, message }) => Err(Faults::one(&path, format!("not JSON: {message}"))),
        Err(error) => Err(Faults::one("", error.to_string())),
    }
}

/// A policy from a document in any format.
///
/// # Errors
///
/// Every fault of the document.
pub fn from_node(node: &Node) -> Result<Policy, Faults> {
    if *node == Node::Null {
        return Err(Faults::one("", NodeError::Empty.to_string()));
    }
    let log = Log::new(node);
    let policy = read(&Value::top(node, &log));
    log.judge(policy.map(|policy| Policy { hash: fingerprint::of(node), ..policy }))
}

fn read(value: &Value<'_>) -> Option<Policy> {
    let fields = value.fields(KNOWN)?;
    let version = fields.required("version", |value| value.integer(VERSION..=VERSION));
    let namespace = fields.or("namespace", "default", namespace);
    let digest_secret = fields.optional("digest_secret", digest_secret);
    let mode = fields.or("mode", Mode::Enforce, limit::mode);
    let shim = fields.optional("shim", shim::shim);
    let identities = source::identities(&fields);
    let limits = limits(&fields, &identities.names, mode.unwrap_or(Mode::Enforce));
    let scope = tier::Scope {
        identities: &identities.names,
        limit_names: &limit_names(&fields),
        limits: limits.as_deref(),
    };
    let tiers = tier::tiers(&fields, scope);
    let overload = fields.or("overload", overload::Section::absent(), |value| {
        overload::overload(value, &identities.names, mode.unwrap_or(Mode::Enforce))
    });
    let responses = fields.or("responses", responses::absent(), responses::responses);
    if fields.get("limits").is_none() && fields.get("overload").is_none() {
        value.fault("missing `limits` or `overload`: this document limits nothing");
    }
    version?;
    let overload = overload?;
    let mut policy = Policy {
        namespace: namespace?.into(),
        shim: shim?,
        identities: identities.identities?,
        limits: limits?,
        tiers: tiers?,
        classes: overload.classes,
        class_header: overload.class_header,
        exempt: overload.exempt,
        exempt_rate: overload.exempt_rate,
        overload: overload.overload,
        responses: responses?,
        mode: mode?,
        digest_secret: digest_secret?,
        hash: 0,
    };
    drop_unused(&mut policy, &fields);
    Some(policy)
}

fn namespace<'a>(value: &Value<'a>) -> Option<&'a str> {
    match value.node {
        Node::Text(text) if is_name(text, 32) => Some(text),
        _ => value.expected(
            "a name of at most 32 lower-case letters, digits, `-` and `_` that begins with a letter or digit",
        ),
    }
}

fn digest_secret(value: &Value<'_>) -> Option<Box<[u8]>> {
    match value.node {
        Node::Text(text) if (16..=1_024).contains(&text.len()) => Some(text.as_bytes().into()),
        _ => {
            // Never shown: it is a secret even if it is too short.
            value.fault("expected a secret of 16 to 1,024 bytes of text");
            None
        }
    }
}

fn limits(fields: &Fields<'_>, identities: &[&str], mode: Mode) -> Option<Vec<Limit>> {
    let Some(value) = fields.get("limits") else {
        return Some(Vec::new());
    };
    // Whose name is whose is asked of all limits, those with faults too.
    let mut names: Vec<(&str, Value<'_>)> = Vec::new();
    let limits = value.each(1, LIMITS_MAX, |value| {
        let limit = limit::limit(value, identities, mode);
        let distinct = distinct_name(value, &mut names);
        let limit = limit?;
        distinct.then_some(limit)
    });
    let limits = limits?;
    if fields.get("shim").is_none() {
        let asking: Vec<&str> = limits
            .iter()
            .filter(|limit| !matches!(limit.enforce, Enforce::Local { .. }))
            .map(|limit| &*limit.name)
            .collect();
        if !asking.is_empty() {
            let shown = alternatives(asking.iter().take(5).copied()).replace(" or ", " and ");
            let more = match asking.len() {
                0..=5 => String::new(),
                count => format!(" and {} more", count - 5),
            };
            fields.owner().fault(format!(
                "missing `shim`: without it only limits with `enforce: local` can be had, not {shown}{more}"
            ));
            return None;
        }
    }
    Some(limits)
}

/// The names of all limits in order, those with faults too; empty where there is none.
fn limit_names<'a>(fields: &Fields<'a>) -> Vec<&'a str> {
    let Some(Node::List(items)) = fields.get("limits").map(|value| value.node) else {
        return Vec::new();
    };
    let name = |item: &'a Node| match item {
        Node::Map(fields) => match fields.iter().find(|(field, _)| &**field == "name") {
            Some((_, Node::Text(name))) => &**name,
            _ => "",
        },
        _ => "",
    };
    items.iter().map(name).collect()
}

fn distinct_name<'a>(value: &Value<'a>, names: &mut Vec<(&'a str, Value<'a>)>) -> bool {
    let Node::Map(fields) = value.node else {
        return true;
    };
    let named = fields.iter().enumerate().find(|(_, (field, _))| &**field == "name");
    let Some((index, (_, node @ Node::Text(name)))) = named else {
        return true;
    };
    match names.iter().find(|(other, _)| **other == **name) {
        Some((_, earlier)) => {
            let earlier = earlier.path();
            value.child(index, node).fault(format!("the name {} is taken by {earlier}", quoted(name)));
            false
        }
        None => {
            names.push((name, *value));
            true
        }
    }
}

/// The identity `everyone` is there only if it is used or declared; being the last, it moves no index.
fn drop_unused(policy: &mut Policy, fields: &Fields<'_>) {
    let declared = match fields.get("identities").map(|value| value.node) {
        Some(Node::Map(map)) => map.len(),
        _ => 0,
    };
    let everyone = IdentityId(declared);
    let tenant = policy.overload.as_ref().and_then(|overload| overload.tenant);
    let used = policy.limits.iter().any(|limit| limit.key.contains(&everyone))
        || policy.tiers.members.iter().any(|member| member.0 == everyone)
        || tenant == Some(everyone);
    if !used {
        policy.identities.truncate(declared);
    }
}
