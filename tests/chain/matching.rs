//! Which limits a request meets, by the paths that clients really send.

use serde_json::json;
use sluicegate_testing::client::with_status;
use sluicegate_testing::envoy::Setup;

use crate::rig::{Chain, NEVER, policy};

async fn respelled_paths_dodge_nothing(change: impl FnOnce(Setup) -> Setup, more: &[&str]) {
    let limits = json!([
        {"name": "strict", "match": {"path": "/login"}, "key": "everyone", "when_unavailable": "deny",
         "token_bucket": {"burst": 2, "rate": NEVER}},
        {"name": "loose", "key": "everyone", "when_unavailable": "deny",
         "token_bucket": {"burst": 1_000, "rate": NEVER}},
    ]);
    let chain = Chain::with(&policy(limits), change);
    let client = chain.client();
    let status = async |path: &str| client.get(path).send().await.status;
    assert_eq!([status("/login").await, status("/login").await], [200, 200]);
    let spellings = [
        "/login",
        "//login",
        "/./login",
        "/x/../login",
        "/%6cogin",
        "/%6Cogin",
        "/x/%2e%2e/login",
        "/login?next=/",
        "/login/",
        "/login;v=1",
        "/login/.",
    ];
    for path in spellings.iter().chain(more) {
        let answer = status(path).await;
        assert!(matches!(answer, 400 | 429), "{path}: {answer}");
    }
    assert_eq!(chain.upstream.total(), 2, "{:?}", chain.upstream.arrivals("/"));
    for path in ["/LOGIN", "/login/help", "/logins", "/xlogin"] {
        assert_eq!(status(path).await, 200, "{path} is another page");
    }
}

/// MT-1: <https://github.com/coder/coder/pull/27273>: the router took several spellings for one page, the limiter did not.
#[tokio::test]
async fn mt_1_respelled_paths_dodge_nothing() {
    respelled_paths_dodge_nothing(|setup| setup, &[]).await;
}

/// An Envoy that leaves paths as they come.
fn as_they_come(setup: Setup) -> Setup {
    setup
        .edit("normalize_path: true", "normalize_path: false")
        .edit("merge_slashes: true", "merge_slashes: false")
        .edit("UNESCAPE_AND_REDIRECT", "KEEP_UNCHANGED")
}

/// MT-1, with an Envoy that leaves paths as they come (<https://github.com/envoyproxy/envoy/issues/7611>).
#[tokio::test]
async fn mt_1_respelled_paths_dodge_nothing_by_themselves() {
    // Envoy itself would make /x/login of it.
    respelled_paths_dodge_nothing(as_they_come, &["/x//../login"]).await;
}

/// The filter normalises for itself only: what goes upstream is what came.
#[tokio::test]
async fn the_upstream_gets_the_path_as_it_came() {
    let limits = json!([
        {"name": "loose", "key": "everyone", "token_bucket": {"burst": 1_000, "rate": NEVER}, "when_unavailable": "deny"},
    ]);
    let chain = Chain::with(&policy(limits), as_they_come);
    let client = chain.client();
    let paths = ["/a/../b//c/./%6cogin;v=1?q=%2e%2e", "/%2F/", "//"];
    let mut replies = Vec::new();
    for path in paths {
        replies.push(client.get(path).send().await);
    }
    assert_eq!(with_status(&replies, 200), paths.len());
    assert_eq!(chain.upstream.arrivals("/"), paths);
}
