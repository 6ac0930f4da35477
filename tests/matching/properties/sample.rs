//! Random rules, requests and paths.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use sluicegate_policy::address::parse;
use sluicegate_policy::pattern::{HeaderPattern, HeaderValue, Network, Pattern};

use crate::setup::{FakeRequest, exact, prefix, template};

/// Few values for everything, so that rules and requests often meet.
pub(super) fn pattern() -> impl Strategy<Value = Pattern> {
    let path = prop_oneof![
        Just(Pattern::default()),
        select(vec!["/", "/a", "/a/b", "/b", "/a/b/c", "*"]).prop_map(exact),
        select(vec!["/", "/a", "/a/b", "/b"]).prop_map(prefix),
        select(vec!["/a/*", "/*", "/*/b", "/a/*/c", "/**", "/a/**", "/*/b/**", "/*/*"]).prop_map(template),
    ];
    let texts = |texts: &'static [&str]| {
        let some = vec(select(texts), 1..3).prop_map(|some| some.into_iter().map(Box::from).collect());
        prop_oneof![3 => Just(Vec::new()), 1 => some]
    };
    let value = prop_oneof![
        Just(HeaderValue::Present),
        Just(HeaderValue::Absent),
        Just(HeaderValue::Exact("v".into())),
        Just(HeaderValue::Prefix("v".into())),
    ];
    let header = (select(vec!["x-a", "x-b"]), value)
        .prop_map(|(name, value)| HeaderPattern { name: name.into(), value });
    let headers = prop_oneof![3 => Just(Vec::new()), 1 => vec(header, 1..3)];
    let network = select(vec![("192.0.2.0", 120), ("198.51.100.0", 120), ("::", 0), ("2001:db8::", 32)])
        .prop_map(|(address, bits)| Network::new(parse(address.as_bytes()).unwrap(), bits));
    let networks = prop_oneof![3 => Just(Vec::new()), 1 => vec(network, 1..3)];
    (
        path,
        texts(&["GET", "POST", "OPTIONS"]),
        texts(&["a.example.com", "*.example.com", "example.com", "*.b.example.com"]),
        headers,
        (texts(&["r", "s"]), texts(&["web", "api"])),
        (networks, 0_usize..2),
        option(0_u32..=10_000),
    )
        .prop_map(
            |(path, methods, hosts, headers, (routes, clusters), (networks, trusted_hops), percent_e2)| {
                Pattern {
                    methods,
                    hosts,
                    headers,
                    routes,
                    clusters,
                    networks,
                    trusted_hops,
                    percent_e2,
                    ..path
                }
            },
        )
}

pub(super) fn request() -> impl Strategy<Value = FakeRequest> {
    let path = select(vec![
        "/", "/a", "/a/", "/a/b", "/a/b/c", "/b", "/b/b", "/c/b/d", "//a", "/x/../a", "/%61/b", "/a;x/b",
        "*", "/A", "/a?b",
    ]);
    let host =
        select(vec!["a.example.com", "B.Example.com:80", "example.com.", "x.b.example.com", "other.com"]);
    let headers = vec(
        (select(vec!["x-a", "x-b", "origin", "access-control-request-method"]), select(vec!["v", "vw", "w"])),
        0..4,
    );
    let source = select(vec!["192.0.2.1:1000", "198.51.100.1:1000", "[2001:db8::1]:9", "192.0.2.1:0"]);
    let properties = (option(select(vec!["r", "t"])), option(select(vec!["web", "t"])));
    let list = option(select(vec!["192.0.2.9,198.51.100.1", "192.0.2.1", "junk"]));
    (path, select(vec!["GET", "POST", "OPTIONS"]), host, headers, source, properties, list).prop_map(
        |(path, method, host, headers, source, (route, cluster), list)| {
            let mut request = FakeRequest::get(path)
                .with(":method", method)
                .with(":authority", host)
                .with_property("source.address", source);
            for (name, value) in headers.into_iter().chain(list.map(|list| ("x-forwarded-for", list))) {
                request = request.with(name, value);
            }
            let route = route.map(|value| ("xds.route_name", value));
            for (name, value) in route.into_iter().chain(cluster.map(|value| ("xds.cluster_name", value))) {
                request = request.with_property(name, value);
            }
            request
        },
    )
}

pub(super) fn raw_path() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => select(vec!["/", "//", ".", "..", "%2e", "%2E", "%", "%6", "%2f", "%25", ";", "a", "A", "%61", "?", "#", "*", ":"])
            .prop_map(|piece| piece.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 1..3),
    ];
    (option(Just("http://")), vec(piece, 0..24))
        .prop_map(|(origin, pieces)| [origin.unwrap_or_default().as_bytes(), &pieces.concat()].concat())
}

pub(super) fn option<S: Strategy>(some: S) -> impl Strategy<Value = Option<S::Value>>
where
    S::Value: Clone,
{
    proptest::option::weighted(0.4, some)
}
