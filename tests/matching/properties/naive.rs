//! What the documentation says, done the plain way: the index and the one-pass normaliser are compared with it.

use std::collections::BTreeSet;

use sluicegate_policy::address::Client;
use sluicegate_policy::class::Class;
use sluicegate_policy::matcher::drawn;
use sluicegate_policy::pattern::{HeaderPattern, HeaderValue, PathPattern, Pattern, Segment};
use sluicegate_policy::policy::Policy;
use sluicegate_policy::request::Request;

use crate::setup::FakeRequest;

/// What the documentation of patterns says, rule by rule.
pub(super) fn naive(policy: &Policy, request: &FakeRequest, random: u64) -> (Class, Vec<usize>) {
    let raw = request.header(":path").unwrap_or_default();
    let raw = raw.split(|byte| *byte == b'?').next().unwrap_or_default();
    let path = naive_path(raw);
    let plain = raw == path || raw.strip_suffix(b"/") == Some(&path);
    let (limits, classes) = (policy.limits.len(), policy.classes.len());
    let exempt = policy.exempt.iter().enumerate().any(|(n, pattern)| {
        let pathless = matches!(&pattern.path, PathPattern::Any)
            || pattern.path == PathPattern::Prefix("/".into())
            || pattern.path == PathPattern::Template(vec![Segment::Rest]);
        (plain || pathless) && holds(pattern, limits + classes + n, request, &path, random)
    });
    let class = policy
        .classes
        .iter()
        .enumerate()
        .find(|(n, rule)| holds(&rule.pattern, limits + n, request, &path, random));
    let class = class.map_or(Class::Normal, |(_, rule)| rule.class);
    let is_there = |name: &str| request.header(name).is_some_and(|value| !value.is_empty());
    let preflight = request.header(":method").as_deref() == Some(b"OPTIONS")
        && is_there("origin")
        && is_there("access-control-request-method");
    let mut groups = BTreeSet::new();
    let met = policy.limits.iter().enumerate().filter(|(n, limit)| {
        holds(&limit.pattern, *n, request, &path, random)
            && limit.group.as_ref().is_none_or(|group| groups.insert(group.clone()))
            && (limit.charge_preflight || !preflight)
    });
    let met = met.map(|(n, _)| n).collect();
    (if exempt { Class::Exempt } else { class }, met)
}

fn holds(pattern: &Pattern, rule: usize, request: &FakeRequest, path: &[u8], random: u64) -> bool {
    let segments: Vec<&[u8]> =
        path.split(|byte| *byte == b'/').filter(|segment| !segment.is_empty()).collect();
    let split = |text: &str| -> Vec<Vec<u8>> {
        text.split('/')
            .filter(|segment| !segment.is_empty())
            .map(|segment| segment.as_bytes().to_vec())
            .collect()
    };
    let on_path = match &pattern.path {
        PathPattern::Any => true,
        PathPattern::Exact(text) => path == text.as_bytes(),
        PathPattern::Prefix(text) if &**text == "/" => true,
        PathPattern::Prefix(text) => {
            path != b"*" && segments.starts_with(&split(text).iter().map(|s| &**s).collect::<Vec<_>>())
        }
        PathPattern::Template(wanted) => match wanted.split_last() {
            Some((Segment::Rest, [])) => true,
            _ if path == b"*" => false,
            Some((Segment::Rest, wanted)) => segments.len() >= wanted.len() && each(wanted, &segments),
            _ => segments.len() == wanted.len() && each(wanted, &segments),
        },
    };
    let value = |name: &str| request.header(name).map(|value| value.into_owned());
    let text = |name: &str| value(name).map(|value| String::from_utf8_lossy(&value).into_owned());
    let property =
        |path: &[&str]| request.property(path).map(|value| String::from_utf8_lossy(&value).into_owned());
    let one_of = |wanted: &[Box<str>], value: Option<String>| {
        wanted.is_empty() || wanted.iter().any(|wanted| Some(&**wanted) == value.as_deref())
    };
    let host = text(":authority").map(|host| {
        let host = host.split(':').next().unwrap_or_default().to_ascii_lowercase();
        host.strip_suffix('.').map(str::to_owned).unwrap_or(host)
    });
    let on_host = pattern.hosts.is_empty()
        || host.is_some_and(|host| {
            pattern.hosts.iter().any(|wanted| match wanted.strip_prefix('*') {
                Some(suffix) => host.len() > suffix.len() && host.ends_with(suffix),
                None => *host == **wanted,
            })
        });
    let source = request.property(&["source", "address"]);
    let list = request.header("x-forwarded-for");
    let client = Client::of(source.as_deref(), || list.as_deref(), pattern.trusted_hops);
    on_path
        && on_host
        && one_of(&pattern.methods, text(":method"))
        && one_of(&pattern.routes, property(&["xds", "route_name"]))
        && one_of(&pattern.clusters, property(&["xds", "cluster_name"]))
        && pattern.headers.iter().all(|HeaderPattern { name, value: wanted }| match wanted {
            HeaderValue::Present => value(name).is_some(),
            HeaderValue::Absent => value(name).is_none(),
            HeaderValue::Exact(text) => value(name).is_some_and(|value| value == text.as_bytes()),
            HeaderValue::Prefix(text) => value(name).is_some_and(|value| value.starts_with(text.as_bytes())),
        })
        && (pattern.networks.is_empty()
            || matches!(client, Client::Known(address) if pattern.networks.iter().any(|n| n.contains(address))))
        && pattern.percent_e2.is_none_or(|share| drawn(random, rule, share))
}

fn each(wanted: &[Segment], segments: &[&[u8]]) -> bool {
    wanted.iter().zip(segments).all(|(wanted, segment)| match wanted {
        Segment::Literal(text) => text.as_bytes() == *segment,
        Segment::One | Segment::Rest => true,
    })
}

/// The rules of the module's documentation, one after the other, each over the whole path.
pub(super) fn naive_path(raw: &[u8]) -> Vec<u8> {
    let end = raw.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(raw.len());
    let path = &raw[..end];
    if path == b"*" {
        return path.to_vec();
    }
    let path = match path.strip_prefix(b"http://") {
        Some(rest) => &rest[rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len())..],
        None => path,
    };
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for segment in path.split(|byte| *byte == b'/') {
        let end = segment.iter().position(|byte| *byte == b';').unwrap_or(segment.len());
        let segment = spelled(&segment[..end]);
        match &*segment {
            b"" | b"." => {}
            b".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
    }
    match kept.is_empty() {
        true => b"/".to_vec(),
        false => kept.iter().flat_map(|segment| [b"/", &**segment].concat()).collect(),
    }
}

fn spelled(segment: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (String::new(), 0);
    while at < segment.len() {
        let digits = segment.get(at + 1..at + 3).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits =
            digits.filter(|_| segment[at] == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        let (byte, len) = match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => (byte, 3),
            None => (segment[at], 1),
        };
        at += len;
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,=:@".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out.into_bytes()
}
