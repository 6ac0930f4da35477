//! Conditions that want one of a few values: method, host, route, cluster.
//!
//! For each such attribute the rules that accept a value are looked up by the value, so rules that do not accept it
//! cost nothing.

use std::collections::BTreeMap;

use super::bits::Bits;
use crate::resolve::attribute::{AttributeId, Reader};

/// Longest host that can match, bytes; DNS names have at most 253.
const HOST_MAX: usize = 256;

/// One attribute and what rules want of it.
#[derive(Clone, Debug)]
pub(super) struct Dimension {
    attribute: AttributeId,
    kind: Kind,
    /// Rules with a condition here, and those without.
    conditioned: Bits,
    unconditioned: Bits,
    exact: BTreeMap<Box<[u8]>, Vec<usize>>,
    /// By what follows the `*` of `*.example.com`.
    suffixes: BTreeMap<Box<[u8]>, Vec<usize>>,
}

/// How values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Byte by byte.
    Plain,
    /// Without case, port and trailing dot; `*.` stands for any subdomain, `*` for any host.
    Host,
}

// === impl Dimension ===

impl Dimension {
    /// The index of one condition of each rule: `wanted` yields a rule's values, none if it has no condition.
    pub(super) fn new<'p, V>(attribute: AttributeId, kind: Kind, rules: usize, wanted: V) -> Dimension
    where
        V: Fn(usize) -> &'p [Box<str>],
    {
        let mut dimension = Dimension {
            attribute,
            kind,
            conditioned: Bits::new(rules),
            unconditioned: Bits::new(rules),
            exact: BTreeMap::new(),
            suffixes: BTreeMap::new(),
        };
        for rule in 0..rules {
            let values = wanted(rule);
            if values.is_empty() || (kind == Kind::Host && values.iter().any(|value| &**value == "*")) {
                dimension.unconditioned.insert(rule);
            } else {
                dimension.conditioned.insert(rule);
                values.iter().for_each(|value| dimension.want(value, rule));
            }
        }
        dimension
    }

    /// Takes from `candidates` the rules that do not accept the request's value, which is read only if one of them
    /// has a condition here. `accepted` is a buffer.
    pub(super) fn narrow(&self, candidates: &mut Bits, accepted: &mut Bits, reader: &mut Reader<'_>) {
        if !candidates.intersects(&self.conditioned) {
            return;
        }
        accepted.copy_from(&self.unconditioned);
        if let Some(value) = reader.bytes(self.attribute) {
            match self.kind {
                Kind::Plain => accept(self.exact.get(value), accepted),
                Kind::Host => {
                    let mut buffer = [0; HOST_MAX];
                    if let Some(host) = host(value, &mut buffer) {
                        self.accept_host(host, accepted);
                    }
                }
            }
        }
        candidates.intersect(accepted);
    }

    fn accept_host(&self, host: &[u8], accepted: &mut Bits) {
        accept(self.exact.get(host), accepted);
        if self.suffixes.is_empty() {
            return;
        }
        // A subdomain has something before the dot.
        for (at, _) in host.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'.') {
            accept(host.get(at..).and_then(|suffix| self.suffixes.get(suffix)), accepted);
        }
    }

    fn want(&mut self, value: &str, rule: usize) {
        let (table, value) = match (self.kind, value.strip_prefix('*')) {
            (Kind::Host, Some(suffix)) => (&mut self.suffixes, suffix),
            _ => (&mut self.exact, value),
        };
        let mut buffer = [0; HOST_MAX];
        let value = match self.kind {
            Kind::Host => host(value.as_bytes(), &mut buffer),
            Kind::Plain => Some(value.as_bytes()),
        };
        if let Some(value) = value {
            table.entry(value.into()).or_default().push(rule);
        }
    }
}

/// A host without port and trailing dot, in lower case; `None` if it is too long to be one.
fn host<'b>(raw: &[u8], buffer: &'b mut [u8; HOST_MAX]) -> Option<&'b [u8]> {
    let name = match raw.iter().rposition(|&byte| byte == b':') {
        // Not the colons inside an IPv6 address, which ends with a bracket.
        Some(colon) if raw.get(colon..)?.iter().skip(1).all(u8::is_ascii_digit) => raw.get(..colon)?,
        _ => raw,
    };
    let name = name.strip_suffix(b".").unwrap_or(name);
    let out = buffer.get_mut(..name.len())?;
    out.copy_from_slice(name);
    out.make_ascii_lowercase();
    Some(out)
}

fn accept(rules: Option<&Vec<usize>>, accepted: &mut Bits) {
    rules.into_iter().flatten().for_each(|&rule| accepted.insert(rule));
}
