//! Which requests a rule is about: `match`.

use std::net::{IpAddr, Ipv6Addr};

use super::fields::Fields;
use super::source::{header_name, is_token};
use super::value::Value;
use super::words::quoted;
use crate::path::normalize;
use crate::pattern::{HeaderPattern, HeaderValue, Network, PathPattern, Pattern, Segment};

/// Most items in one condition.
const ITEMS_MAX: usize = 64;

/// The fields of a pattern.
const KNOWN: &[&str] = &[
    "path",
    "path_prefix",
    "methods",
    "hosts",
    "headers",
    "routes",
    "clusters",
    "networks",
    "trusted_hops",
    "percent",
];

pub(super) fn pattern(value: &Value<'_>) -> Option<Pattern> {
    let fields = value.fields(KNOWN)?;
    let path = path(&fields);
    let list = |name, read: fn(&Value<'_>) -> Option<Box<str>>| {
        fields.or(name, Vec::new(), |value| value.one_or_each(ITEMS_MAX, read))
    };
    let methods = list("methods", method);
    let hosts = list("hosts", host);
    let routes = list("routes", |value| value.text("a route name").map(Box::from));
    let clusters = list("clusters", |value| value.text("a cluster name").map(Box::from));
    let headers = fields.or("headers", Vec::new(), |value| value.one_or_each(ITEMS_MAX, header));
    let networks = fields.or("networks", Vec::new(), |value| value.one_or_each(ITEMS_MAX, network));
    let trusted_hops = fields.optional("trusted_hops", |value| {
        if fields.get("networks").is_none() {
            value.fault("without `networks` there is no address to find");
        }
        value.size(0..=32)
    });
    let percent_e2 = fields.optional("percent", |value| {
        let percent = value.scaled(2, 0..=10_000, "a percentage from 0 to 100 with at most two decimals")?;
        u32::try_from(percent).ok()
    });
    Some(Pattern {
        path: path?,
        methods: methods?,
        hosts: hosts?,
        headers: headers?,
        routes: routes?,
        clusters: clusters?,
        networks: networks?,
        trusted_hops: trusted_hops?.unwrap_or(0),
        percent_e2: percent_e2?,
    })
}

fn path(fields: &Fields<'_>) -> Option<PathPattern> {
    let Some((name, value)) = fields.at_most_one_of(&["path", "path_prefix"])? else {
        return Some(PathPattern::Any);
    };
    let path = value.text("a path")?;
    match (name, path.contains(['*', '{', '}'])) {
        // The path of `OPTIONS *`.
        ("path", true) if path == "*" => Some(PathPattern::Exact(path.into())),
        ("path", true) => template(&value, path).map(PathPattern::Template),
        ("path", false) => normal(&value, path).map(|path| PathPattern::Exact(path.into())),
        (_, true) => {
            value.fault("a prefix has no wildcards; write `path` with a final `**`");
            None
        }
        (_, false) => normal(&value, path).map(|path| PathPattern::Prefix(path.into())),
    }
}

/// The path without a slash at its end, if it is normal but for that: what is written is what is matched.
fn normal<'p>(value: &Value<'_>, path: &'p str) -> Option<&'p str> {
    if !path.starts_with('/') {
        return value.expected("a path that begins with `/`");
    }
    let trimmed = path.strip_suffix('/').filter(|rest| !rest.is_empty()).unwrap_or(path);
    let normal = normalize(path.as_bytes());
    if *normal == *trimmed.as_bytes() {
        return Some(trimmed);
    }
    let normal = String::from_utf8_lossy(&normal);
    value.expected(&format!("a path in normal form, {}", quoted(&normal)))
}

fn template(value: &Value<'_>, path: &str) -> Option<Vec<Segment>> {
    let inner = path.strip_prefix('/').map(|rest| rest.strip_suffix('/').unwrap_or(rest));
    let steps: Vec<&str> = inner.into_iter().flat_map(|rest| rest.split('/')).collect();
    let last = steps.len().saturating_sub(1);
    let segments: Option<Vec<Segment>> =
        steps.iter().enumerate().map(|(index, step)| segment(step, index == last)).collect();
    match segments {
        Some(segments) if !segments.is_empty() => Some(segments),
        _ => value.expected(
            "a template: `/`, then whole segments, each of them text in normal form, or `{name}` or `*` for any \
             one, or a final `**` for the rest",
        ),
    }
}

fn segment(step: &str, is_last: bool) -> Option<Segment> {
    let name = step.strip_prefix('{').and_then(|step| step.strip_suffix('}'));
    match (step, name) {
        ("*", _) => Some(Segment::One),
        ("**", _) => is_last.then_some(Segment::Rest),
        (_, Some(name)) => (!name.is_empty() && !name.contains(['*', '{', '}'])).then_some(Segment::One),
        (text, None) => {
            let path = format!("/{text}");
            let plain = !text.is_empty() && !text.contains(['*', '{', '}']);
            (plain && *normalize(path.as_bytes()) == *path.as_bytes()).then(|| Segment::Literal(text.into()))
        }
    }
}

fn method(value: &Value<'_>) -> Option<Box<str>> {
    let method = value.text("a method")?;
    if 32 < method.len() || !method.bytes().all(|b| is_token(b) && !b.is_ascii_lowercase()) {
        return value.expected("a method in upper case, such as \"GET\"");
    }
    Some(method.into())
}

fn host(value: &Value<'_>) -> Option<Box<str>> {
    let host = value.text("a host")?.to_ascii_lowercase();
    let host = host.strip_suffix('.').unwrap_or(&host);
    let name = host.strip_prefix("*.").unwrap_or(host);
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let named = name.split('.').all(|label| {
        !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    });
    if !named && address.is_none_or(|address| address.parse::<Ipv6Addr>().is_err()) {
        return value.expected("a host without port, such as \"api.example.com\" or \"*.example.com\"");
    }
    Some(host.into())
}

fn header(value: &Value<'_>) -> Option<HeaderPattern> {
    let fields = value.fields(&["name", "exact", "prefix", "present"])?;
    let name = fields.required("name", header_name);
    let condition = fields.at_most_one_of(&["exact", "prefix", "present"])?;
    let condition = match condition {
        None => Some(HeaderValue::Present),
        Some(("exact", value)) => value.text("text").map(|text| HeaderValue::Exact(text.into())),
        Some(("prefix", value)) => value.text("text").map(|text| HeaderValue::Prefix(text.into())),
        Some((_, value)) => value.boolean().map(|present| match present {
            true => HeaderValue::Present,
            false => HeaderValue::Absent,
        }),
    };
    Some(HeaderPattern { name: name?, value: condition? })
}

fn network(value: &Value<'_>) -> Option<Network> {
    const WHAT: &str = "a network such as \"10.0.0.0/8\" or \"2001:db8::/32\"";
    let text = value.text(WHAT)?;
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let Ok(address) = address.parse::<IpAddr>() else {
        return value.expected(WHAT);
    };
    let (mapped, bits) = match address {
        IpAddr::V4(address) => (address.to_ipv6_mapped(), 32),
        IpAddr::V6(address) => (address, 128),
    };
    let plain = |text: &&str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let prefix = match prefix {
        None => Some(bits),
        Some(prefix) => Some(prefix).filter(plain).and_then(|p| p.parse().ok()).filter(|p| *p <= bits),
    };
    let Some(prefix) = prefix else {
        return value.expected(WHAT);
    };
    // An IPv4 /24 is the mapped /120.
    let prefix: u8 = 128 - bits + prefix;
    let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
    let network = Ipv6Addr::from(u128::from(mapped) & mask);
    if network != mapped {
        let shown = network.to_ipv4_mapped().map_or_else(|| network.to_string(), |v4| v4.to_string());
        value.fault(format!(
            "{text} has bits set after its prefix; did you mean {shown}/{}?",
            prefix - (128 - bits)
        ));
        return None;
    }
    Some(Network { address: network, prefix })
}
