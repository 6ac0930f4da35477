use std::borrow::Cow;

use super::*;
use crate::limit::{Algorithm, Concurrency, FixedWindow, Rate, SlidingWindow, TokenBucket};
use crate::policy::{Body, FieldStyle};
use crate::verdict::Standing;

fn responses(styles: &[FieldStyle], body: Body) -> Responses {
    Responses { fields: styles.to_vec(), on_allow: true, body, retry_after_jitter_percent: 0 }
}

fn bucket() -> Quota {
    let rate = Rate { tokens: 1, period_us: 100_000 };
    Quota::new("burst", &Algorithm::TokenBucket(TokenBucket { burst: 100, rate }))
}

fn daily() -> Quota {
    Quota::new("daily", &Algorithm::SlidingWindow(SlidingWindow { limit: 1_000, per_us: 86_400_000_000 }))
}

fn allowed(remaining: u64, reset_us: u64) -> Option<Standing> {
    Some(Standing { allowed: true, remaining, reset_us, ..Standing::default() })
}

fn refused(retry_after_us: u64) -> Option<Standing> {
    Some(Standing { retry_after_us, reset_us: 9 * retry_after_us, ..Standing::default() })
}

fn held(quota: &Quota, standing: Option<Standing>) -> Held<'_> {
    Held { quota, standing, is_known: true }
}

/// The fields that are set in a response which has what `upstream` reads.
fn set(styles: &[FieldStyle], held: &[Held<'_>], upstream: impl Fn(&str) -> Option<Vec<u8>>) -> Vec<Field> {
    let mut fields = Vec::new();
    let upstream = |name: &str| upstream(name).map(Cow::Owned);
    rate_limit_fields(styles, held.iter().copied(), upstream, |name, value| {
        fields.push(Field { name, value });
    });
    fields
}

fn text(value: &Value) -> &str {
    std::str::from_utf8(value.as_bytes()).unwrap()
}

fn field<'a>(fields: &'a [Field], name: &str) -> Option<&'a str> {
    let mut values = fields.iter().filter(|field| field.name == name).map(|field| text(&field.value));
    let value = values.next();
    assert_eq!(values.next(), None, "two values of {name}");
    value
}

#[test]
fn seconds_are_whole_positive_and_rounded_up() {
    for (us, s) in [(0, 1), (1, 1), (999_999, 1), (1_000_000, 1), (1_000_001, 2), (59_999_999, 60)] {
        assert_eq!(whole_seconds(us), s, "{us}");
    }
}

#[test]
fn jitter_adds_and_never_subtracts() {
    assert_eq!(jittered(10_000_000, 0, u64::MAX), 10_000_000);
    assert_eq!(jittered(10_000_000, 50, 0), 10_000_000);
    assert_eq!(jittered(10_000_000, 50, u64::MAX), 14_999_999);
    assert_eq!(jittered(u64::MAX, 100, u64::MAX), u64::MAX);
}

#[test]
fn quota_refusal_names_the_limits_and_the_longest_wait() {
    let (burst, daily) = (bucket(), daily());
    let held = [held(&burst, refused(300_000)), held(&daily, refused(4_200_000))];
    let response = quota_exceeded(
        &responses(&[FieldStyle::Triple], Body::Problem),
        Dialect::default(),
        held.iter().copied(),
        0,
    );
    assert_eq!((response.status, response.grpc_status), (429, None));
    for (name, value) in [
        ("retry-after", "5"),
        ("cache-control", "no-store"),
        ("x-envoy-ratelimited", "true"),
        ("ratelimit-limit", "1000"),
        ("ratelimit-remaining", "0"),
        ("ratelimit-reset", "5"),
        ("content-type", "application/problem+json"),
    ] {
        assert_eq!(field(&response.fields, name), Some(value), "{name}");
    }
    assert_eq!(
        response.body,
        "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\",\
         \"title\":\"Request cannot be satisfied as assigned quota has been exceeded\",\
         \"status\":429,\"violated-policies\":[\"burst\",\"daily\"]}"
    );
}

#[test]
fn a_limit_that_would_allow_is_not_blamed() {
    let (burst, daily) = (bucket(), daily());
    let held = [held(&burst, allowed(3, 5)), held(&daily, refused(1_000_000))];
    let response = quota_exceeded(&responses(&[], Body::Json), Dialect::default(), held.iter().copied(), 0);
    assert_eq!(response.body, "{\"error\":\"quota-exceeded\",\"retry_after\":1,\"limits\":[\"daily\"]}");
}

#[test]
fn saturation_is_503_and_tells_the_reason() {
    let shape = responses(&[FieldStyle::Triple], Body::Problem);
    let response = saturated(&shape, Dialect::default(), ShedReason::Saturation, 0);
    assert_eq!(response.status, 503);
    assert_eq!(field(&response.fields, "retry-after"), Some("1"));
    assert_eq!(field(&response.fields, "x-envoy-overloaded"), Some("true"));
    assert_eq!(field(&response.fields, "x-shed-reason"), Some("saturation"));
    assert_eq!(field(&response.fields, "ratelimit-limit"), None);
    assert!(response.body.contains("#temporary-reduced-capacity"));
}

#[test]
fn grpc_is_answered_in_grpc() {
    let burst = bucket();
    let held = [held(&burst, refused(1))];
    let grpc = Dialect { grpc: true };
    let limited = quota_exceeded(&responses(&[], Body::Problem), grpc, held.iter().copied(), 0);
    assert_eq!((limited.status, limited.grpc_status, limited.body.as_str()), (200, Some(8), ""));
    assert_eq!(field(&limited.fields, "grpc-status"), Some("8"));
    assert_eq!(field(&limited.fields, "grpc-message"), Some("quota-exceeded: burst"));
    assert_eq!(field(&limited.fields, "grpc-retry-pushback-ms"), None);
    let shed = saturated(&responses(&[], Body::Problem), grpc, ShedReason::Deadline, 2);
    assert_eq!((shed.status, shed.grpc_status), (200, Some(14)));
    assert_eq!(field(&shed.fields, "grpc-retry-pushback-ms"), Some("2000"));
    assert_eq!(field(&shed.fields, "content-type"), Some("application/grpc"));
}

#[test]
fn every_style_on_an_allowed_response() {
    let (burst, daily) = (bucket(), daily());
    let held = [held(&burst, allowed(50, 30_000_000)), held(&daily, allowed(999, 7))];
    for (style, expected) in [
        (
            FieldStyle::Triple,
            vec![("ratelimit-limit", "100"), ("ratelimit-remaining", "50"), ("ratelimit-reset", "30")],
        ),
        (
            FieldStyle::XRateLimit,
            vec![("x-ratelimit-limit", "100"), ("x-ratelimit-remaining", "50"), ("x-ratelimit-reset", "30")],
        ),
        (
            FieldStyle::Draft11,
            vec![
                ("ratelimit-policy", "\"burst\";q=100;w=10, \"daily\";q=1000;w=86400"),
                ("ratelimit", "\"burst\";r=50;t=30"),
            ],
        ),
        (
            FieldStyle::Draft12,
            vec![
                ("ratelimit-policy", "\"burst\";q=100;w=10, \"daily\";q=1000;w=86400"),
                ("ratelimit", "\"burst\";a=50;w=30"),
            ],
        ),
    ] {
        let fields = set(&[style], &held, |_| None);
        let pairs: Vec<(&str, &str)> = fields.iter().map(|f| (f.name, text(&f.value))).collect();
        assert_eq!(pairs, expected);
    }
}

#[test]
fn no_decision_no_fields() {
    let burst = bucket();
    let held = [held(&burst, None)];
    assert_eq!(set(&[FieldStyle::Triple, FieldStyle::Draft11], &held, |_| None), []);
}

#[test]
fn one_value_for_each_name() {
    let burst = bucket();
    let held = [held(&burst, allowed(1, 1))];
    let fields = set(&[FieldStyle::Draft11, FieldStyle::Draft12], &held, |_| None);
    assert_eq!(field(&fields, "ratelimit"), Some("\"burst\";r=1;t=1"));
}

#[test]
fn the_upstreams_fields_stay_unless_ours_are_tighter() {
    let burst = bucket();
    let held = [held(&burst, allowed(50, 1))];
    for (style, theirs, ours_sent) in [
        (FieldStyle::Triple, "49", false),
        (FieldStyle::Triple, "50", false),
        (FieldStyle::Triple, "51", true),
        (FieldStyle::Triple, "lots", false),
        (FieldStyle::XRateLimit, "70, 49", false),
        (FieldStyle::Draft11, "\"theirs\";r=49;t=1", false),
        (FieldStyle::Draft11, "\"theirs\";r=80;t=1, \"more\";r=60", true),
        (FieldStyle::Draft12, "\"theirs\";a=80", true),
        (FieldStyle::Draft12, "\u{ff}", false),
    ] {
        let fields = set(&[style], &held, |_| Some(theirs.as_bytes().to_vec()));
        assert_eq!(!fields.is_empty(), ours_sent, "{style:?} {theirs}");
    }
}

#[test]
fn windows_below_a_second_and_concurrency() {
    let short = Quota::new(
        "short",
        &Algorithm::FixedWindow(FixedWindow { limit: 5, per_us: 250_000, align: crate::limit::Align::Epoch }),
    );
    assert_eq!(short.policy_item(), "\"short\";q=5;w=1");
    let slots = Quota::new("slots", &Algorithm::Concurrency(Concurrency { max: 2, release_after_us: 1 }));
    assert_eq!(slots.policy_item(), "\"slots\";q=2;qu=\"concurrent-requests\"");
}
