//! Who the client is: the table in the module's documentation, and attempts to be somebody else.

use std::net::Ipv6Addr;

use sluicegate_policy::address::{Client, parse};
use sluicegate_policy::identity::Source;
use sluicegate_policy::limit::WhenMissing;
use sluicegate_policy::pattern::Network;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::setup::{FakeRequest, keyed_by};

const UNKNOWN: &str = "unknown";

/// (`source.address`, `x-forwarded-for` as this filter sees it, trusted hops, the client)
///
/// C is 203.0.113.9, the balancers are 198.51.100.1 and .2, 6.6.6.6 is what an attacker wrote. The first columns are
/// what Envoy 1.40 showed for each of its settings.
const CHAINS: &[(&str, &str, usize, &str)] = &[
    // use_remote_address: true, on the edge.
    ("203.0.113.9:41000", "203.0.113.9", 0, "203.0.113.9"),
    ("203.0.113.9:41000", "6.6.6.6,203.0.113.9", 0, "203.0.113.9"),
    ("203.0.113.9:41000", "6.6.6.6,203.0.113.9", 1, "6.6.6.6"), // one hop too many: the operator's mistake
    // use_remote_address: true, behind one balancer.
    ("198.51.100.1:41000", "203.0.113.9,198.51.100.1", 1, "203.0.113.9"),
    ("198.51.100.1:41000", "6.6.6.6, 203.0.113.9,198.51.100.1", 1, "203.0.113.9"),
    ("203.0.113.9:0", "6.6.6.6, 203.0.113.9,198.51.100.1", 1, "203.0.113.9"),
    // The same on one machine: Envoy appends its own address for a peer on loopback.
    ("127.0.0.1:41000", "6.6.6.6, 203.0.113.9,192.0.2.2", 1, "203.0.113.9"),
    ("[::1]:41000", "6.6.6.6, 203.0.113.9,192.0.2.2", 1, "203.0.113.9"),
    // use_remote_address: true, behind two balancers.
    ("198.51.100.2:41000", "6.6.6.6, 203.0.113.9, 198.51.100.1,198.51.100.2", 2, "203.0.113.9"),
    ("203.0.113.9:0", "6.6.6.6, 203.0.113.9, 198.51.100.1,198.51.100.2", 2, "203.0.113.9"),
    // use_remote_address: false, behind a gateway.
    ("203.0.113.9:0", "203.0.113.9", 1, "203.0.113.9"),
    ("203.0.113.9:0", "6.6.6.6, 203.0.113.9", 1, "203.0.113.9"),
    ("198.51.100.1:0", "6.6.6.6, 203.0.113.9, 198.51.100.1", 2, "203.0.113.9"),
    ("203.0.113.9:0", "6.6.6.6, 203.0.113.9, 198.51.100.1", 2, "203.0.113.9"),
    // skip_xff_append: true.
    ("198.51.100.1:41000", "6.6.6.6, 203.0.113.9", 1, "203.0.113.9"),
    // An address that Envoy took from elsewhere (a CDN's own header).
    ("203.0.113.9:0", "", 1, "203.0.113.9"),
    ("203.0.113.9:0", "6.6.6.6, 198.51.100.1", 1, "203.0.113.9"),
    // Nothing but the client's word, and no hop to trust.
    ("6.6.6.6:0", "6.6.6.6", 0, UNKNOWN),
    ("", "6.6.6.6", 0, UNKNOWN),
    // Too few entries, junk, nothing: the peer.
    ("198.51.100.1:41000", "198.51.100.1", 1, "198.51.100.1"),
    ("198.51.100.1:41000", "", 1, "198.51.100.1"),
    ("198.51.100.1:41000", "junk,198.51.100.1", 1, "198.51.100.1"),
    ("198.51.100.1:41000", "6.6.6.6, junk,198.51.100.1", 2, "198.51.100.1"),
    ("198.51.100.1:41000", ",198.51.100.1", 1, "198.51.100.1"),
    ("198.51.100.1:41000", "6.6.6.6, junk", 1, "198.51.100.1"),
    ("127.0.0.1:41000", "6.6.6.6, junk", 1, "127.0.0.1"),
    ("198.51.100.1:0", "198.51.100.1", 2, "198.51.100.1"),
    // A balancer that writes ports. Envoy does not read such entries, and shows its peer.
    ("198.51.100.1:41000", "6.6.6.6, 203.0.113.9:55,198.51.100.1", 1, "203.0.113.9"),
    ("127.0.0.1:41000", "6.6.6.6, 203.0.113.9:55", 1, "203.0.113.9"),
    // A peer without an address.
    ("/run/envoy.sock", "6.6.6.6, 203.0.113.9", 1, "203.0.113.9"),
    ("/run/envoy.sock", "", 1, UNKNOWN),
    // IPv6, mapped IPv4.
    ("[2001:db8::9]:41000", "2001:db8::9", 0, "2001:db8::9"),
    ("[::ffff:203.0.113.9]:41000", "", 0, "203.0.113.9"),
    ("[2001:db8::1]:41000", "2001:db8::9,2001:db8::1", 1, "2001:db8::9"),
];

fn client(source: &str, list: &[u8], hops: usize) -> Client {
    let list = (!list.is_empty()).then_some(list);
    Client::of(Some(source.as_bytes()), || list, hops)
}

#[test]
fn the_client_is_who_the_proxies_vouch_for() {
    for (source, list, hops, expected) in CHAINS {
        let expected = parse(expected.as_bytes()).map_or(Client::Unknown, Client::Known);
        assert_eq!(client(source, list.as_bytes(), *hops), expected, "{source} [{list}] {hops}");
    }
}

#[test]
fn bytes_that_are_no_text_are_junk() {
    assert_eq!(
        client("198.51.100.1:41000", b"1\xc0\xa7,198.51.100.1", 1),
        Client::Known(parse(b"198.51.100.1").unwrap())
    );
    assert_eq!(client("\u{7f}", b"\xff,\xfe", 1), Client::Unknown);
}

#[test]
fn without_hops_the_list_is_not_even_read() {
    let mut one = keyed_by(
        vec![vec![Source::ClientIp { trusted_hops: 0, ipv4_prefix: 32, ipv6_prefix: 64 }]],
        WhenMissing::Deny,
    );
    let request = FakeRequest::get("/").with("x-forwarded-for", "6.6.6.6");
    let known = one.key(&request);
    assert!(!request.reads().contains(&"x-forwarded-for".to_owned()));
    for invented in ["6.6.6.7", "junk", "6.6.6.8, 192.0.2.1"] {
        assert_eq!(one.key(&FakeRequest::get("/").with("x-forwarded-for", invented)), known);
    }
}

#[test]
fn spellings_of_one_address_are_one() {
    let spellings: &[(&[u8], &str)] = &[
        (b"192.0.2.1", "::ffff:192.0.2.1"),
        (b" 192.0.2.1\t", "::ffff:192.0.2.1"),
        (b"192.0.2.1:80", "::ffff:192.0.2.1"),
        (b"::ffff:192.0.2.1", "::ffff:192.0.2.1"),
        (b"[::FFFF:C000:0201]", "::ffff:192.0.2.1"),
        (b"2001:0DB8:0001:0002:0000:0000:0000:0001", "2001:db8:1:2::1"),
        (b"[2001:db8:1:2::1]:443", "2001:db8:1:2::1"),
        (b"[2001:db8:1:2::1]", "2001:db8:1:2::1"),
        (b"fe80::1%eth0", "fe80::1"),
        (b"[fe80::1%25eth0]:80", "fe80::1"),
    ];
    for (text, expected) in spellings {
        assert_eq!(parse(text), Some(expected.parse::<Ipv6Addr>().unwrap()), "{}", text.escape_ascii());
    }
    for junk in
        ["", "unknown", "_hidden", "1.2.3", "1.2.3.4.5", "010.0.0.1", "1.2.3.4:", "[::1", "::1]", "%eth0"]
    {
        assert_eq!(parse(junk.as_bytes()), None, "{junk}");
    }
}

/// A household owns a /64 (<https://github.com/sozu-proxy/sozu/issues/1270>).
#[test]
fn rotation_inside_a_prefix_is_one_client() {
    let mut one = keyed_by(
        vec![vec![Source::ClientIp { trusted_hops: 0, ipv4_prefix: 24, ipv6_prefix: 64 }]],
        WhenMissing::Deny,
    );
    let mut from = |address: &str| one.key(&FakeRequest::get("/").with_property("source.address", address));
    let household = from("[2001:db8:1:2::1]:1000");
    for address in
        ["[2001:db8:1:2::5]:9", "[2001:0DB8:0001:0002:0000:0000:0000:0001]:9", "[2001:db8:1:2:f::]:9"]
    {
        assert_eq!(from(address), household, "{address}");
    }
    assert_ne!(from("[2001:db8:1:3::1]:1000"), household);
    assert_eq!(from("192.0.2.1:5"), from("192.0.2.255:6"));
    assert_eq!(from("192.0.2.1:5"), from("[::ffff:192.0.2.7]:6"));
    assert_ne!(from("192.0.2.1:5"), from("192.0.3.1:5"));
}

#[test]
fn networks_contain_what_lies_in_them() {
    let network = |address: &str, prefix| Network::new(parse(address.as_bytes()).unwrap(), prefix);
    let inside = |network: Network, address: &str| network.contains(parse(address.as_bytes()).unwrap());
    assert!(inside(network("10.0.0.0", 104), "10.255.0.1"));
    assert!(inside(network("10.9.9.9", 104), "10.255.0.1"));
    assert!(!inside(network("10.0.0.0", 104), "11.0.0.1"));
    assert!(inside(network("0.0.0.0", 96), "203.0.113.9"));
    assert!(!inside(network("0.0.0.0", 96), "2001:db8::1"));
    assert!(inside(network("::", 0), "2001:db8::1"));
    assert!(!inside(network("::", 0), "203.0.113.9"));
    assert!(inside(network("192.0.2.1", 128), "192.0.2.1"));
    assert!(!inside(network("192.0.2.1", 128), "192.0.2.2"));
}
