//! What responses say about limits, on the wire.

use serde_json::{Value, json};
use sfv::{BareItem, List, ListEntry, Parser};
use sluicegate_testing::client::Reply;

use crate::rig::{Chain, NEVER, by, policy, row};

/// Two limits on everything, the second of three requests.
fn two_limits(responses: Value) -> Value {
    let mut policy = policy(json!([
        {"name": "per-caller", "key": "caller", "token_bucket": {"burst": 100, "rate": "10/s"}, "when_unavailable": "deny"},
        {"name": "three", "key": "caller", "token_bucket": {"burst": 3, "rate": NEVER}, "when_unavailable": "deny"},
    ]));
    policy["responses"] = responses;
    policy
}

/// The members of a structured field (RFC 9651): a name and its whole numbers each.
fn members(reply: &Reply, field: &str) -> Vec<(String, Vec<(String, i64)>)> {
    let value = reply.header(field).unwrap_or_else(|| panic!("no {field}: {reply:?}"));
    let list: List = Parser::new(value).parse().unwrap_or_else(|error| panic!("{field}: {value}: {error}"));
    list.iter()
        .map(|member| {
            let ListEntry::Item(item) = member else { panic!("{field}: {value}: an inner list") };
            let BareItem::String(name) = &item.bare_item else { panic!("{field}: {value}: no string") };
            let numbers = item.params.iter().map(|(key, number)| {
                let BareItem::Integer(number) = number else { panic!("{field}: {value}: no integer") };
                (key.as_str().to_owned(), i64::from(*number))
            });
            (name.as_str().to_owned(), numbers.collect())
        })
        .collect()
}

fn number(numbers: &[(String, i64)], key: &str) -> Option<i64> {
    numbers.iter().find(|(name, _)| name == key).map(|(_, number)| *number)
}

#[tokio::test]
async fn drafts_are_structured_fields() {
    for (style, left, until) in [("draft-11", "r", "t"), ("draft-12", "a", "w")] {
        let chain = Chain::with(&two_limits(json!({"ratelimit_headers": style})), |setup| setup.workers(1));
        let replies = row(&chain.client(), 4, "/", "one").await;
        for (nth, reply) in replies.iter().enumerate() {
            assert_eq!(reply.status, if nth < 3 { 200 } else { 429 });
            let policies = members(reply, "ratelimit-policy");
            let names: Vec<&str> = policies.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, ["per-caller", "three"], "{style}");
            assert!(policies.iter().all(|(_, numbers)| number(numbers, "q").is_some_and(|quota| 0 < quota)));
            let standing = members(reply, "ratelimit");
            assert_eq!(standing.len(), 1, "{style}: the tightest alone");
            let (name, numbers) = &standing[0];
            assert_eq!(name, "three", "{style}");
            assert_eq!(number(numbers, left), Some([2, 1, 0, 0][nth]), "{style}: {numbers:?}");
            assert!(number(numbers, until).is_some_and(|seconds| 0 < seconds), "{style}: {numbers:?}");
        }
        assert_eq!(members(&replies[0], "ratelimit-policy")[1].1.first(), Some(&("q".into(), 3)), "{style}");
    }
}

#[tokio::test]
async fn two_conventions_go_together() {
    let responses = json!({"ratelimit_headers": ["draft-11", "x-ratelimit"]});
    let chain = Chain::with(&two_limits(responses), |setup| setup.workers(1));
    let reply = by(&chain.client(), "/", "one").send().await;
    assert_eq!(members(&reply, "ratelimit")[0].0, "three");
    assert_eq!(reply.number("x-ratelimit-limit"), Some(3));
    assert_eq!(reply.number("x-ratelimit-remaining"), Some(2));
    assert_eq!(reply.header("ratelimit-remaining"), None);
}

/// What the upstream says in structured fields stays too, unless ours is tighter.
#[tokio::test]
async fn an_upstream_speaks_for_itself_in_structured_fields() {
    let responses = json!({"ratelimit_headers": "draft-11"});
    let chain = Chain::with(&two_limits(responses), |setup| setup.workers(1));
    let client = chain.client();
    for (theirs, name, left) in [("\"origin\";r=1;t=5", "origin", 1), ("\"origin\";r=70;t=5", "three", 2)] {
        let ask = by(&client, "/", theirs).header("reply-with", format!("ratelimit={theirs}"));
        let reply = ask.send().await;
        let standing = members(&reply, "ratelimit");
        assert_eq!((standing.len(), standing[0].0.as_str()), (1, name), "{theirs}");
        assert_eq!(number(&standing[0].1, "r"), Some(left), "{theirs}");
    }
}

/// What the upstream says stays, unless ours is tighter.
#[tokio::test]
async fn an_upstream_speaks_for_itself() {
    let chain = Chain::with(&two_limits(json!({"ratelimit_headers": "triple"})), |setup| setup.workers(1));
    let client = chain.client();
    let with = async |remaining: &str| {
        let reply = by(&client, "/", remaining)
            .header("reply-with", format!("ratelimit-remaining={remaining}"))
            .send()
            .await;
        reply.number("ratelimit-remaining").unwrap()
    };
    assert_eq!(with("1").await, 1, "theirs is tighter");
    assert_eq!(with("70").await, 2, "ours is tighter");
    let reply = by(&client, "/", "late").header("reply-with", "retry-after=7").send().await;
    assert_eq!((reply.status, reply.number("retry-after")), (200, Some(7)));
}

#[tokio::test]
async fn a_refusal_has_the_body_that_was_asked_for() {
    let own = json!({"content_type": "text/plain", "text": "Slowly.\n"});
    let problem = "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\"";
    for (body, content_type, begins) in [
        (json!("problem"), Some("application/problem+json"), problem),
        (json!("json"), Some("application/json"), "{\"error\":\"quota-exceeded\""),
        (json!("none"), None, ""),
        (own, Some("text/plain"), "Slowly.\n"),
    ] {
        let responses = json!({"body": body, "ratelimit_headers": "none"});
        let chain = Chain::with(&two_limits(responses), |setup| setup.workers(1));
        let client = chain.client();
        let refused = row(&client, 4, "/", "one").await.pop().unwrap();
        assert_eq!(refused.status, 429);
        assert_eq!(refused.header("content-type"), content_type, "{body}");
        assert!(
            refused.text().starts_with(begins) && refused.text().is_empty() == begins.is_empty(),
            "{body}"
        );
        assert!(refused.headers.keys().all(|name| !name.as_str().contains("ratelimit-")), "{refused:?}");

        let head = client.ask("HEAD", "/").header("x-api-key", "one").send().await;
        assert_eq!((head.status, head.text().as_str()), (429, ""), "{body}: a HEAD has no body");
        assert!(head.number("retry-after").is_some_and(|seconds| 0 < seconds));
    }
}
