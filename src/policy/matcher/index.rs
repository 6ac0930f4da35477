//! All rules of the policy, found by what they want instead of tried one by one.
//!
//! A request's rules are a set of numbers. The tree of paths gives the first set; each further attribute takes from
//! it those that do not accept its value; what few are left are asked for headers, networks and their share of
//! requests.

use super::bits::Bits;
use super::dimension::{Dimension, Kind};
use super::drawn;
use super::trie::{Reach, Stack, Step, Trie};
use crate::address::Client;
use crate::path;
use crate::pattern::{HeaderPattern, HeaderValue, Network, PathPattern, Pattern, Segment};
use crate::resolve::attribute::{AttributeId, Attributes, ClientId, Reader};

/// The rules, numbered in the order they were given in.
#[derive(Clone, Debug)]
pub(super) struct Index {
    paths: Trie,
    /// Rules that want the path `*`.
    asterisk: Vec<usize>,
    dimensions: Vec<Dimension>,
    /// What is left to ask, for each rule.
    rest: Vec<Option<Box<Rest>>>,
}

/// Conditions that are not indexed.
#[derive(Clone, Debug)]
struct Rest {
    headers: Vec<(AttributeId, HeaderValue)>,
    networks: Option<(ClientId, Vec<Network>)>,
    percent_e2: Option<u32>,
}

// === impl Index ===

impl Index {
    pub(super) fn new(patterns: &[&Pattern], attributes: &mut Attributes) -> Index {
        let mut paths = Trie::new();
        let mut asterisk = Vec::new();
        for (rule, pattern) in patterns.iter().enumerate() {
            if pattern.path == PathPattern::Exact("*".into()) {
                asterisk.push(rule);
            } else {
                let (steps, reach) = steps(&pattern.path);
                paths.insert(steps, reach, rule);
            }
        }
        let dimensions = [
            (attributes.header(":method"), Kind::Plain, (|p| &p.methods) as fn(&Pattern) -> &Vec<Box<str>>),
            (attributes.header(":authority"), Kind::Host, |p| &p.hosts),
            (attributes.property(["xds", "route_name"]), Kind::Plain, |p| &p.routes),
            (attributes.property(["xds", "cluster_name"]), Kind::Plain, |p| &p.clusters),
        ]
        .into_iter()
        .filter(|(_, _, wanted)| patterns.iter().any(|pattern| !wanted(pattern).is_empty()))
        .map(|(attribute, kind, wanted)| {
            Dimension::new(attribute, kind, patterns.len(), |rule| {
                patterns.get(rule).map_or(&[], |pattern| wanted(pattern))
            })
        })
        .collect();
        let rest = patterns.iter().map(|pattern| Rest::new(pattern, attributes)).collect();
        Index { paths, asterisk, dimensions, rest }
    }

    /// Sets `found` to the rules whose path condition this normal path meets.
    pub(super) fn on_path(&self, path: &[u8], stack: &mut Stack, found: &mut Bits) {
        found.reset(self.rest.len());
        if path == b"*" {
            self.paths.collect_all(found);
            self.asterisk.iter().for_each(|&rule| found.insert(rule));
        } else {
            self.paths.collect(path, stack, found);
        }
    }

    /// Takes from `candidates` what method, host, route or cluster rule out. `accepted` is a buffer.
    pub(super) fn narrow(&self, candidates: &mut Bits, accepted: &mut Bits, reader: &mut Reader<'_>) {
        self.dimensions.iter().for_each(|dimension| dimension.narrow(candidates, accepted, reader));
    }

    /// Whether the conditions that are not indexed hold too.
    pub(super) fn holds(&self, rule: usize, random: u64, reader: &mut Reader<'_>) -> bool {
        match self.rest.get(rule) {
            Some(Some(rest)) => rest.holds(rule, random, reader),
            Some(None) => true,
            None => false,
        }
    }
}

// === impl Rest ===

impl Rest {
    fn new(pattern: &Pattern, attributes: &mut Attributes) -> Option<Box<Rest>> {
        let Pattern { headers, networks, trusted_hops, percent_e2, .. } = pattern;
        if headers.is_empty() && networks.is_empty() && percent_e2.is_none() {
            return None;
        }
        let headers = headers
            .iter()
            .map(|HeaderPattern { name, value }| (attributes.header(name), value.clone()))
            .collect();
        let networks = (!networks.is_empty()).then(|| (attributes.client(*trusted_hops), networks.clone()));
        Some(Box::new(Rest { headers, networks, percent_e2: *percent_e2 }))
    }

    /// Cheapest first: the draw reads nothing.
    fn holds(&self, rule: usize, random: u64, reader: &mut Reader<'_>) -> bool {
        self.percent_e2.is_none_or(|share| drawn(random, rule, share))
            && self.headers.iter().all(|(id, wanted)| accepts(wanted, reader.bytes(*id)))
            && self.networks.as_ref().is_none_or(|(client, networks)| match reader.client(*client) {
                Client::Known(address) => networks.iter().any(|network| network.contains(address)),
                Client::Unknown => false,
            })
    }
}

fn accepts(wanted: &HeaderValue, value: Option<&[u8]>) -> bool {
    match (wanted, value) {
        (HeaderValue::Present, value) => value.is_some(),
        (HeaderValue::Absent, value) => value.is_none(),
        (HeaderValue::Exact(text), Some(value)) => value == text.as_bytes(),
        (HeaderValue::Prefix(text), Some(value)) => value.starts_with(text.as_bytes()),
        (HeaderValue::Exact(_) | HeaderValue::Prefix(_), None) => false,
    }
}

/// Whether a rule has no condition on the path.
pub(super) fn is_pathless(pattern: &Pattern) -> bool {
    let (steps, reach) = steps(&pattern.path);
    steps.is_empty() && reach == Reach::Below
}

/// The way through the tree; texts are brought into the same normal form as a request's path.
fn steps(path: &PathPattern) -> (Vec<Step>, Reach) {
    match path {
        PathPattern::Any => (Vec::new(), Reach::Below),
        PathPattern::Exact(text) => (literals(text), Reach::Here),
        PathPattern::Prefix(text) => (literals(text), Reach::Below),
        PathPattern::Template(segments) => {
            let reach = match segments.last() {
                Some(Segment::Rest) => Reach::Below,
                _ => Reach::Here,
            };
            let steps = segments
                .iter()
                .flat_map(|segment| match segment {
                    Segment::Literal(text) => literals(text),
                    Segment::One => vec![Step::One],
                    Segment::Rest => Vec::new(),
                })
                .collect();
            (steps, reach)
        }
    }
}

fn literals(text: &str) -> Vec<Step> {
    let path = path::normalize(text.as_bytes());
    path.split(|&byte| byte == b'/')
        .filter(|segment| !segment.is_empty())
        .map(|segment| Step::Literal(segment.into()))
        .collect()
}
