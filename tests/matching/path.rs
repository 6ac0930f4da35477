//! One page, one spelling.

use std::borrow::Cow;

use sluicegate_policy::path::{normalize, query};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

/// (as sent, as matched)
const SPELLINGS: &[(&[u8], &[u8])] = &[
    // Already normal.
    (b"/", b"/"),
    (b"/login", b"/login"),
    (b"/a/b.c/~d-e_f", b"/a/b.c/~d-e_f"),
    (b"/users/@me", b"/users/@me"),
    (b"/a/...", b"/a/..."),
    (b"/a/.b", b"/a/.b"),
    (b"/a%2Fb", b"/a%2Fb"),
    (b"*", b"*"),
    // Query and fragment.
    (b"/login?next=/a/../b", b"/login"),
    (b"/login#top?x", b"/login"),
    (b"/?", b"/"),
    (b"", b"/"),
    (b"?x=1", b"/"),
    // Slashes.
    (b"//login", b"/login"),
    (b"/login/", b"/login"),
    (b"/login//", b"/login"),
    (b"///", b"/"),
    // Dot segments, plain and encoded.
    (b"/./login", b"/login"),
    (b"/x/../login", b"/login"),
    (b"/x/%2e%2E/login", b"/login"),
    (b"/x/%2e./login", b"/login"),
    (b"/%2e/login", b"/login"),
    (b"/login/.", b"/login"),
    (b"/login/x/..", b"/login"),
    (b"/../../login", b"/login"),
    (b"/a/b/../../..", b"/"),
    (b"/a//../b", b"/b"),
    // Triplets.
    (b"/%6cogin", b"/login"),
    (b"/%6Cogin", b"/login"),
    (b"/users/%40me", b"/users/@me"),
    (b"/a%2fb", b"/a%2Fb"),
    (b"/caf\xc3\xa9", b"/caf%C3%A9"),
    (b"/caf%c3%a9", b"/caf%C3%A9"),
    (b"/a b", b"/a%20b"),
    (b"/%", b"/%25"),
    (b"/100%", b"/100%25"),
    (b"/%zz", b"/%25zz"),
    (b"/%6%63", b"/%256c"),
    (b"/%256c", b"/%256c"),
    (b"/\x00\xff", b"/%00%FF"),
    (b"/a\\b", b"/a%5Cb"),
    // Parameters.
    (b"/login;v=1", b"/login"),
    (b"/a;x=1/b;y", b"/a/b"),
    (b"/x/..;/login", b"/login"),
    (b"/;x/login", b"/login"),
    (b"/login%3Bv", b"/login%3Bv"),
    // Absolute URIs.
    (b"http://example.com/login?x", b"/login"),
    (b"https://example.com", b"/"),
    (b"http://example.com?x", b"/"),
    (b"login", b"/login"),
    (b"a:b//c", b"/a:b/c"),
    // Case matters.
    (b"/LOGIN", b"/LOGIN"),
];

#[test]
fn each_path_has_one_spelling() {
    for (sent, matched) in SPELLINGS {
        assert_eq!(
            normalize(sent).escape_ascii().to_string(),
            matched.escape_ascii().to_string(),
            "{sent:?}"
        );
    }
}

#[test]
fn normalising_twice_changes_nothing() {
    for (sent, _) in SPELLINGS {
        let once = normalize(sent).into_owned();
        assert_eq!(*normalize(&once), *once, "{sent:?}");
    }
}

#[test]
fn a_normal_path_is_borrowed() {
    for sent in [&b"/"[..], b"/login", b"/login/", b"/a/b.c/d?e=f", b"/a%2Fb", b"*"] {
        assert!(matches!(normalize(sent), Cow::Borrowed(_)), "{sent:?}");
    }
}

#[test]
fn the_query_ends_at_the_fragment() {
    assert_eq!(query(b"/a?b=c?d#e"), b"b=c?d");
    assert_eq!(query(b"/a#b?c"), b"");
    assert_eq!(query(b"/a"), b"");
}
