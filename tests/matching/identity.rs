//! Whom a limit counts: where identities come from, and when they are missing.

use sluicegate_policy::identity::{CertificateField, Source};
use sluicegate_policy::limit::WhenMissing;
use sluicegate_policy::matcher::Key;
use sluicegate_policy::resolve::VALUE_MAX;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::setup::{Examiner, FakeRequest, header, keyed_by};

fn get() -> FakeRequest {
    FakeRequest::get("/")
}

fn by(source: Source) -> Examiner {
    keyed_by(vec![vec![source]], WhenMissing::Deny)
}

#[test]
fn a_header_counts_by_its_bytes() {
    let mut api_key = by(header("x-api-key"));
    let k1 = api_key.key(&get().with("x-api-key", "k1"));
    assert!(matches!(k1, Some(Key::Client(_))));
    assert_eq!(api_key.key(&get().with("x-api-key", "\t k1  ")), k1);
    assert_ne!(api_key.key(&get().with("x-api-key", "K1")), k1);
}

/// <https://github.com/netlify/gotrue/pull/447>
#[test]
fn empty_and_blank_are_missing() {
    let values = [None, Some(""), Some(" "), Some(" \t ")];
    let of = |value: Option<&str>| value.map_or_else(get, |value| get().with("x-api-key", value));
    let mut deny = by(header("x-api-key"));
    let mut skip = keyed_by(vec![vec![header("x-api-key")]], WhenMissing::Skip);
    let mut shared = keyed_by(vec![vec![header("x-api-key")]], WhenMissing::Shared);
    let nobody = shared.key(&get());
    assert!(matches!(nobody, Some(Key::Client(_))));
    for value in values {
        assert_eq!(deny.key(&of(value)), Some(Key::Refused), "{value:?}");
        assert_eq!(skip.key(&of(value)), None, "{value:?}");
        assert_eq!(shared.key(&of(value)), nobody, "{value:?}");
    }
    for somebody in ["k1", "missing", "0"] {
        assert_ne!(shared.key(&of(Some(somebody))), nobody, "{somebody}");
    }
}

/// <https://github.com/proxy-wasm/proxy-wasm-rust-sdk/issues/25>
#[test]
fn bytes_that_are_no_text_are_opaque_keys() {
    let mut api_key = by(header("x-api-key"));
    let a7 = api_key.key(&get().with("x-api-key", b"1\xc0\xa7"));
    let a8 = api_key.key(&get().with("x-api-key", b"1\xc0\xa8"));
    assert!(matches!(a7, Some(Key::Client(_))));
    assert_ne!(a7, a8);
    let mut everything = keyed_by(
        vec![vec![
            Source::Query("q".into()),
            Source::Cookie("c".into()),
            Source::Header { name: "authorization".into(), scheme: Some("bearer".into()) },
            header("x-api-key"),
            Source::ClientIp { trusted_hops: 2, ipv4_prefix: 32, ipv6_prefix: 64 },
        ]],
        WhenMissing::Deny,
    );
    let junk = b"1\xc0\xa7\x00\xff";
    let mut request = get().with("user-agent", junk);
    let plain = everything.key(&request);
    for name in ["cookie", "authorization", "x-forwarded-for"] {
        request = request.with(name, junk);
        assert_eq!(everything.key(&request), plain, "{name}");
    }
    for name in [":path", ":authority", ":method", "x-api-key"] {
        request = request.with(name, junk);
        assert!(matches!(everything.key(&request), Some(Key::Client(_))), "{name}");
    }
}

#[test]
fn a_scheme_has_any_case_and_any_space() {
    let mut bearer = by(Source::Header { name: "authorization".into(), scheme: Some("bearer".into()) });
    let mut key = |value: &str| bearer.key(&get().with("authorization", value));
    let abc = key("Bearer abc");
    assert!(matches!(abc, Some(Key::Client(_))));
    for same in ["bearer abc", "BEARER   abc", " Bearer\tabc ", "bEaReR \t abc"] {
        assert_eq!(key(same), abc, "{same}");
    }
    for missing in ["Basic abc", "Bearer", "Bearer ", "Bearerabc", "", "abc", "Bearers abc"] {
        assert_eq!(key(missing), Some(Key::Refused), "{missing}");
    }
    assert_ne!(key("Bearer ABC"), abc);
}

#[test]
fn a_query_parameter_is_decoded() {
    let mut query = by(Source::Query("api key".into()));
    let mut key = |path: &str| query.key(&FakeRequest::get(path));
    let it = key("/x?api%20key=a%2Fb+c");
    assert!(matches!(it, Some(Key::Client(_))));
    for same in
        ["/?b=1&api+key=a/b%20c", "/?api+key=&api+key=a/b+c", "/?api+key=a/b+c&api+key=other#?api+key=z"]
    {
        assert_eq!(key(same), it, "{same}");
    }
    assert_ne!(key("/?api+key=a/b"), it);
    for missing in
        ["/", "/?", "/?api+key", "/?api+key=", "/?api+key=+", "/?API+KEY=a", "/#?api+key=a", "/api key=a"]
    {
        assert_eq!(key(missing), Some(Key::Refused), "{missing}");
    }
}

#[test]
fn a_cookie_is_found_among_others() {
    let mut cookie = by(Source::Cookie("id".into()));
    let mut key = |value: &str| cookie.key(&get().with("cookie", value));
    let it = key("id=abc");
    assert!(matches!(it, Some(Key::Client(_))));
    for same in [
        "a=1; id=abc; b=2",
        "id=abc;",
        "id=\"abc\"",
        "id=; id=abc",
        " id = abc ",
        "id=abc; id=def",
        "xid=1;id=abc",
    ] {
        assert_eq!(key(same), it, "{same}");
    }
    // Two fields joined like any others: no new value of the first.
    assert_eq!(key("id=abc,z=1"), it);
    assert_eq!(key("z=1,id=abc"), it);
    for missing in ["", "id", "id=", "id=\"\"", "ID=abc", "xid=abc", ";;;", "=abc"] {
        assert_eq!(key(missing), Some(Key::Refused), "{missing}");
    }
}

#[test]
fn claims_certificates_and_properties_come_from_the_proxy() {
    let claim = Source::JwtClaim {
        namespace: "envoy.filters.http.jwt_authn".into(),
        payload: "jwt_payload".into(),
        path: vec!["realm".into(), "sub".into()],
    };
    let cases = [
        (claim, "metadata.filter_metadata.envoy.filters.http.jwt_authn.jwt_payload.realm.sub"),
        (Source::ClientCertificate(CertificateField::Uri), "connection.uri_san_peer_certificate"),
        (Source::ClientCertificate(CertificateField::Dns), "connection.dns_san_peer_certificate"),
        (Source::ClientCertificate(CertificateField::Subject), "connection.subject_peer_certificate"),
        (Source::ClientCertificate(CertificateField::Digest), "connection.sha256_peer_certificate_digest"),
        (Source::Property(vec!["filter_state".into(), "tenant".into()]), "filter_state.tenant"),
    ];
    for (source, path) in cases {
        let mut one = by(source);
        assert_eq!(one.key(&get()), Some(Key::Refused), "{path}");
        assert_eq!(one.key(&get().with_property(path, "")), Some(Key::Refused), "{path}");
        let alice = one.key(&get().with_property(path, "alice"));
        assert!(matches!(alice, Some(Key::Client(_))), "{path}");
        assert_ne!(one.key(&get().with_property(path, "bob")), alice, "{path}");
        // A number claim is 8 bytes.
        assert!(matches!(one.key(&get().with_property(path, 42_f64.to_le_bytes())), Some(Key::Client(_))));
    }
}

#[test]
fn the_first_source_with_a_value_wins() {
    let sources = vec![
        header("x-api-key"),
        Source::Header { name: "authorization".into(), scheme: Some("bearer".into()) },
    ];
    let mut caller = keyed_by(vec![sources], WhenMissing::Deny);
    let both = get().with("x-api-key", "a").with("authorization", "Bearer b");
    let first = caller.key(&both);
    assert_eq!(caller.key(&get().with("x-api-key", "a")), first);
    assert!(!both.reads().contains(&"authorization".to_owned()));
    let second = caller.key(&both.with("x-api-key", " "));
    assert_eq!(caller.key(&get().with("authorization", "bearer b")), second);
    assert_ne!(first, second);
}

#[test]
fn one_value_from_two_places_is_two_clients() {
    let mut caller = keyed_by(
        vec![vec![header("x-a"), header("x-b"), Source::Query("x-a".into()), Source::Cookie("x-a".into())]],
        WhenMissing::Deny,
    );
    let keys = [
        caller.key(&get().with("x-a", "v")),
        caller.key(&get().with("x-b", "v")),
        caller.key(&FakeRequest::get("/?x-a=v")),
        caller.key(&get().with("cookie", "x-a=v")),
    ];
    for (i, a) in keys.iter().enumerate() {
        assert!(matches!(a, Some(Key::Client(_))));
        assert!(keys.iter().skip(i + 1).all(|b| a != b), "{i}");
    }
}

#[test]
fn long_values_differ_at_their_very_end() {
    let mut api_key = by(header("x-api-key"));
    let mut long = vec![b'a'; 60_000];
    let one = api_key.key(&get().with("x-api-key", &long));
    assert_eq!(api_key.key(&get().with("x-api-key", &long)), one);
    *long.last_mut().unwrap() = b'b';
    assert_ne!(api_key.key(&get().with("x-api-key", &long)), one);
    let at_bound = api_key.key(&get().with("x-api-key", vec![b'a'; VALUE_MAX]));
    assert_ne!(api_key.key(&get().with("x-api-key", vec![b'a'; VALUE_MAX + 1])), at_bound);
}

#[test]
fn a_header_is_read_once_however_many_ask() {
    use sluicegate_policy::identity::IdentityId;
    use sluicegate_policy::limit::Limit;
    use sluicegate_policy::pattern::Pattern;

    let limits = (0..50).map(|n| Limit {
        key: vec![IdentityId(n % 2)],
        ..crate::setup::limit(&format!("limit-{n}"), Pattern::default())
    });
    let policy = crate::setup::policy(vec![vec![header("x-a")], vec![header("x-a")]], limits.collect());
    let mut both = Examiner::new(&policy);
    let request = get().with("x-a", "1");
    assert_eq!(both.names(&request).len(), 50);
    assert_eq!(both.wire_keys(&request).len(), 50);
    let reads = request.reads();
    // Two examinations, nothing twice in one: no rule asks for the path, and without the header that every preflight has
    // the method does not matter.
    assert_eq!(reads, ["access-control-request-method", "x-a", "access-control-request-method", "x-a"]);
}
