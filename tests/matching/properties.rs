//! Random policies and requests: the index against trying each limit, and laws of paths, keys and addresses.

mod naive;
mod sample;

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use sluicegate_policy::address::{Client, parse};
use sluicegate_policy::class::Class;
use sluicegate_policy::identity::Source;
use sluicegate_policy::limit::{Limit, WhenMissing};
use sluicegate_policy::matcher::{Key, Matcher, Scratch};
use sluicegate_policy::path::normalize;
use sluicegate_policy::policy::{ClassRule, Policy};

use crate::setup::{FakeRequest, anybody, header, limit, policy};
use naive::{naive, naive_path};
use sample::{option, pattern, raw_path, request};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_index_finds_what_trying_each_rule_finds(
        limits in vec((pattern(), option(select(vec!["g", "h"])), any::<bool>()), 0..80),
        classes in vec((select(Class::SHEDDABLE.to_vec()), pattern()), 0..6),
        exempt in vec(pattern(), 0..3),
        requests in vec((request(), any::<u64>()), 1..8),
    ) {
        let limits: Vec<Limit> = limits.into_iter().zip(0..).map(|((pattern, group, charge_preflight), n)| Limit {
            group: group.map(Into::into),
            charge_preflight,
            ..limit(&format!("limit-{n}"), pattern)
        }).collect();
        let policy = Policy {
            classes: classes.into_iter().map(|(class, pattern)| ClassRule { class, pattern }).collect(),
            exempt,
            ..policy(vec![anybody()], limits)
        };
        let (matcher, mut scratch) = (Matcher::new(&policy, [1, 2]), Scratch::default());
        for (request, random) in &requests {
            let class = matcher.classify(request, *random, &mut scratch);
            matcher.meet(request, &mut scratch);
            let met: Vec<usize> = scratch.met().iter().map(|met| met.limit).collect();
            prop_assert_eq!((class, met), naive(&policy, request, *random), "{:?}", request);
        }
    }

    #[test]
    fn normal_form_is_what_the_rules_say(raw in raw_path()) {
        let normal = normalize(&raw);
        prop_assert_eq!(normal.escape_ascii().to_string(), naive_path(&raw).escape_ascii().to_string());
        prop_assert_eq!(&*normalize(&normal), &*normal);
        prop_assert!(normal.first().is_some_and(|byte| matches!(byte, b'/' | b'*')));
        prop_assert!(normal.len() <= raw.len() * 3 + 1);
    }

    #[test]
    fn different_parts_are_different_keys(
        lists in vec((vec(0_u8..3, 0..4), vec(0_u8..3, 0..4), vec(0_u8..3, 0..4)), 2..12),
    ) {
        let identities = ["x-a", "x-b", "x-c"].map(|name| vec![header(name)]);
        let mut composite = crate::setup::keyed_by(identities.to_vec(), WhenMissing::Shared);
        let distinct: BTreeSet<_> = lists.into_iter().collect();
        let (mut wire, mut fingerprints) = (BTreeSet::new(), BTreeSet::new());
        for (a, b, c) in &distinct {
            // Few characters, so that pieces of one value often make up another.
            let text = |value: &[u8]| value.iter().map(|n| [b"\x01", b":", b"\xff"][usize::from(*n)][0]).collect::<Vec<u8>>();
            let request = FakeRequest::get("/").with("x-a", text(a)).with("x-b", text(b)).with("x-c", text(c));
            wire.extend(composite.wire_keys(&request));
            if let Some(Key::Client(fingerprint)) = composite.key(&request) {
                fingerprints.insert(fingerprint);
            }
        }
        prop_assert_eq!((wire.len(), fingerprints.len()), (distinct.len(), distinct.len()));
    }

    /// Whatever stands left of the trusted entries changes nothing, in each of Envoy's settings.
    #[test]
    fn what_a_client_writes_is_never_its_address(
        invented in vec(select(vec!["6.6.6.6", "junk", "", "6.6.6.6:1", "198.51.100.1", "203.0.113.9", "\u{ff}"]), 0..4),
        hops in 1_usize..4,
        appends in any::<bool>(),
        told in any::<bool>(),
        port in 1_u16..,
    ) {
        let client = "203.0.113.9";
        let proxies: Vec<String> = (1..=hops).map(|n| format!("198.51.100.{n}")).collect();
        // What the proxies in front have appended: the client, then each its predecessor.
        let appended: Vec<&str> = std::iter::once(client).chain(proxies.iter().map(|p| &**p)).collect();
        let last = appended[hops - 1];
        let mut list: Vec<&str> = invented.clone();
        list.extend(&appended[..if appends { hops + 1 } else { hops }]);
        let source = match (appends, told) {
            (true, false) => format!("{}:{port}", appended[hops]),
            (false, false) => format!("{last}:0"),
            (_, true) => format!("{client}:0"),
        };
        let list = list.join(",");
        let found = Client::of(Some(source.as_bytes()), || Some(list.as_bytes()), hops);
        prop_assert_eq!(found, parse(client.as_bytes()).map_or(Client::Unknown, Client::Known), "{} [{}]", source, list);
    }

    /// Header octets need not be text (<https://github.com/proxy-wasm/proxy-wasm-rust-sdk/issues/25>).
    #[test]
    fn no_bytes_anywhere_do_harm(
        path in vec(any::<u8>(), 0..40),
        values in vec(vec(any::<u8>(), 0..40), 8),
    ) {
        let sources = vec![
            vec![Source::Header { name: "authorization".into(), scheme: Some("bearer".into()) }, header("x-api-key")],
            vec![Source::Query("q".into()), Source::Cookie("c".into())],
            vec![Source::ClientIp { trusted_hops: 1, ipv4_prefix: 32, ipv6_prefix: 64 }],
        ];
        let mut all = crate::setup::keyed_by(sources, WhenMissing::Shared);
        let names = [":method", ":authority", "authorization", "x-api-key", "cookie", "x-forwarded-for", "origin"];
        let request = names.iter().zip(&values).fold(FakeRequest::get(&path), |r, (name, value)| r.with(name, value));
        let request = request.with_property("source.address", &values[7]);
        let first = all.key(&request);
        prop_assert!(matches!(first, Some(Key::Client(_))));
        prop_assert_eq!(all.key(&request), first);
        prop_assert_eq!(all.wire_keys(&request).len(), 1);
    }
}
