//! What is always answered, and how much the rest matters.

use sluicegate_policy::class::Class;
use sluicegate_policy::pattern::{HeaderPattern, HeaderValue, Pattern};
use sluicegate_policy::policy::{ClassRule, Policy};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::setup::{Examiner, FakeRequest, anybody, exact, limit, policy, prefix};

fn shop() -> Policy {
    let rule = |class, pattern| ClassRule { class, pattern };
    Policy {
        classes: vec![
            rule(Class::Critical, prefix("/checkout")),
            rule(Class::Sheddable, prefix("/checkout/beacon")),
            rule(Class::Sheddable, prefix("/beacon")),
        ],
        class_header: Some("x-class".into()),
        exempt: vec![exact("/healthz"), prefix("/ready")],
        ..policy(vec![anybody()], vec![limit("all", Pattern::default())])
    }
}

#[test]
fn the_first_rule_gives_the_class() {
    let mut shop = Examiner::new(&shop());
    let mut class = |path: &str| shop.examine(&FakeRequest::get(path)).0;
    assert_eq!(class("/"), Class::Normal);
    assert_eq!(class("/checkout/pay"), Class::Critical);
    assert_eq!(class("/checkout/beacon"), Class::Critical);
    assert_eq!(class("/beacon?x"), Class::Sheddable);
    assert_eq!(class("/x/..//beacon"), Class::Sheddable);
    assert_eq!(class("/checkouts"), Class::Normal);
}

#[test]
fn a_trusted_header_comes_before_the_rules() {
    let mut shop = Examiner::new(&shop());
    let mut class = |value: &[u8]| shop.examine(&FakeRequest::get("/checkout").with("x-class", value)).0;
    assert_eq!(class(b"low"), Class::Low);
    assert_eq!(class(b" high "), Class::High);
    for not_a_class in [&b"exempt"[..], b"urgent", b"", b"\xff"] {
        assert_eq!(class(not_a_class), Class::Critical, "{not_a_class:?}");
    }
}

#[test]
fn a_header_nobody_trusts_gives_no_class() {
    let mut shop = Examiner::new(&Policy { class_header: None, ..shop() });
    let request = FakeRequest::get("/").with("x-class", "critical");
    assert_eq!(shop.examine(&request).0, Class::Normal);
    assert!(!request.reads().contains(&"x-class".to_owned()));
}

/// Probes pass, and the exemption does not spread (<https://github.com/cameri/nostream/issues/182>).
#[test]
fn only_the_plain_spelling_is_exempt() {
    let mut shop = Examiner::new(&shop());
    let mut class = |path: &str| shop.examine(&FakeRequest::get(path)).0;
    for probe in ["/healthz", "/healthz/", "/healthz?full=1", "/ready", "/ready/db"] {
        assert_eq!(class(probe), Class::Exempt, "{probe}");
    }
    let others = [
        "/healthz/../admin",
        "/healthzz",
        "/healthz/x",
        "/admin/..;/healthz",
        "/admin/../healthz",
        "//healthz",
        "/%68ealthz",
        "/healthz;x",
        "http://a/healthz",
        "/readyz",
    ];
    for other in others {
        assert_eq!(class(other), Class::Normal, "{other}");
    }
}

/// Beyond their abuse bound exempt requests count like any other, so their limits can be asked for too.
#[test]
fn an_exempt_request_still_has_limits_to_ask_for() {
    let mut shop = Examiner::new(&shop());
    assert_eq!(shop.examine(&FakeRequest::get("/healthz")), (Class::Exempt, vec!["all"]));
}

#[test]
fn an_exemption_without_a_path_holds_for_any_spelling() {
    let probe = HeaderPattern { name: "x-probe".into(), value: HeaderValue::Exact("1".into()) };
    let pattern = Pattern { headers: vec![probe], ..Pattern::default() };
    let mut shop = Examiner::new(&Policy { exempt: vec![pattern], ..shop() });
    assert_eq!(shop.examine(&FakeRequest::get("//x").with("x-probe", "1")).0, Class::Exempt);
    assert_eq!(shop.examine(&FakeRequest::get("//x").with("x-probe", "2")).0, Class::Normal);
}

/// An exempt request reads no header but its path, whatever the limits ask for.
#[test]
fn a_probe_costs_one_read() {
    let mut shop = Examiner::new(&shop());
    let request = FakeRequest::get("/healthz");
    assert_eq!(shop.matcher.classify(&request, 0, &mut shop.scratch), Class::Exempt);
    assert_eq!(request.reads(), [":path"]);
}
