//! Keys that carry no client text, and never meet.

use std::collections::BTreeSet;

use sluicegate_policy::identity::{IdentityId, Source};
use sluicegate_policy::limit::{Limit, WhenMissing};
use sluicegate_policy::matcher::{Key, Matcher, Scratch};
use sluicegate_policy::pattern::Pattern;
use sluicegate_policy::policy::Policy;
use sluicegate_policy::wire;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::setup::{Examiner, FakeRequest, header, keyed_by, limit, policy};

fn pair(tenant: &str, user: &str) -> FakeRequest {
    FakeRequest::get("/").with("x-tenant", tenant).with("x-user", user)
}

/// <https://github.com/kgateway-dev/kgateway/issues/3801>
#[test]
fn joiners_in_values_join_nothing() {
    let mut composite = keyed_by(vec![vec![header("x-tenant")], vec![header("x-user")]], WhenMissing::Shared);
    for joiner in [":", "|", "_", "/", ".", ";", ",", "\u{0}", "\u{1}", "{", "}", "-", ""] {
        let j = joiner;
        let requests = [
            pair(&format!("a{j}b"), "c"),
            pair("a", &format!("b{j}c")),
            pair(&format!("a{j}b{j}c"), ""),
            pair("", &format!("a{j}b{j}c")),
            pair("c", &format!("a{j}b")),
        ];
        let keys: BTreeSet<String> =
            requests.iter().flat_map(|request| composite.wire_keys(request)).collect();
        assert_eq!(keys.len(), requests.len(), "{joiner:?}");
        let mut fingerprints = BTreeSet::new();
        for request in &requests {
            if let Some(Key::Client(fingerprint)) = composite.key(request) {
                fingerprints.insert(fingerprint);
            }
        }
        assert_eq!(fingerprints.len(), requests.len(), "{joiner:?}");
    }
}

#[test]
fn a_wire_key_is_short_and_plain() {
    let mut single = keyed_by(vec![vec![header("x-tenant")]], WhenMissing::Deny);
    let mut composite = keyed_by(vec![vec![header("x-tenant")], vec![header("x-user")]], WhenMissing::Deny);
    let base64url = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    for value in ["t", "{t}", "a:b", &"x".repeat(50_000)] {
        let request = pair(value, "{u}");
        let keys = single.wire_keys(&request);
        let single = keys.first().unwrap();
        assert!(single.len() == 22 && base64url(single), "{single}");
        let keys = composite.wire_keys(&request);
        let (tag, digest) = keys.first().unwrap().split_at(wire::TAG_LEN);
        assert!(tag.len() == wire::TAG_LEN && digest.len() == 22 && base64url(tag) && base64url(digest));
        assert!(keys.first().unwrap().len() <= wire::KEY_MAX);
        // One slot for all limits that begin with the same identity.
        assert_eq!(single.get(..wire::TAG_LEN), Some(tag));
    }
}

/// The keys are part of what is stored: a change of theirs forgets every client's usage, and must be a decision.
///
/// Worked out with Python's hashlib and hmac over `"sluicegate key 1\0"` and, for header x-tenant with value t: 01,
/// 0d000000 (01 08000000 "x-tenant"), 01, 01000000 "t".
#[test]
fn a_wire_key_stays_what_it_is() {
    let mut single = keyed_by(vec![vec![header("x-tenant")]], WhenMissing::Deny);
    assert_eq!(single.wire_keys(&pair("t", "u")), [PLAIN]);
    let limits = vec![limit("only", Pattern::default())];
    let policy = policy(vec![vec![header("x-tenant")]], limits);
    let secret = Policy { digest_secret: Some(b"secret".to_vec().into()), ..policy };
    assert_eq!(Examiner::new(&secret).wire_keys(&pair("t", "u")), [KEYED]);
}

const PLAIN: &str = "EW3rjHK043V7vC5aDkDoSw";
const KEYED: &str = "KzwLlNOwP8CWkxPGIUI6hQ";

#[test]
fn fingerprints_differ_between_virtual_machines() {
    let policy = policy(vec![vec![header("x-tenant")]], vec![limit("only", Pattern::default())]);
    let key = |seed| {
        let (matcher, mut scratch) = (Matcher::new(&policy, seed), Scratch::default());
        let request = pair("t", "u");
        matcher.classify(&request, 0, &mut scratch);
        matcher.meet(&request, &mut scratch);
        scratch.met().first().map(|met| met.key)
    };
    assert_eq!(key([1, 2]), key([1, 2]));
    assert_ne!(key([1, 2]), key([1, 3]));
    assert_ne!(key([1, 2]), key([2, 2]));
}

#[test]
fn a_fair_share_counts_whom_a_limit_counts() {
    let mut single = keyed_by(vec![vec![header("x-tenant")]], WhenMissing::Deny);
    let request = pair("t", "u");
    let key = single.key(&request);
    let share = single.matcher.identity(IdentityId(0), &request, &mut single.scratch);
    assert_eq!(share.map(Key::Client), key);
    let nobody = FakeRequest::get("/");
    single.examine(&nobody);
    assert_eq!(single.matcher.identity(IdentityId(0), &nobody, &mut single.scratch), None);
}

#[test]
fn order_and_number_of_parts_matter() {
    let identities =
        vec![vec![header("x-tenant")], vec![header("x-user")], vec![Source::Constant("t".into())]];
    let keys: [&[usize]; 6] = [&[0], &[1], &[0, 1], &[1, 0], &[0, 0], &[0, 2]];
    let limits = keys.iter().zip(0..).map(|(key, n): (_, usize)| Limit {
        key: key.iter().copied().map(IdentityId).collect(),
        ..limit(&format!("limit-{n}"), Pattern::default())
    });
    let mut all = Examiner::new(&policy(identities, limits.collect()));
    let keys: BTreeSet<String> = all.wire_keys(&pair("t", "t")).into_iter().collect();
    assert_eq!(keys.len(), 6);
}
