//! Which limits a request meets.

use sluicegate_policy::limit::Limit;
use sluicegate_policy::path::RAW_MAX;
use sluicegate_policy::pattern::{HeaderPattern, HeaderValue, Network, Pattern};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::setup::{Examiner, FakeRequest, anybody, exact, limit, policy, prefix, template};

fn limits(limits: Vec<Limit>) -> Examiner {
    Examiner::new(&policy(vec![anybody()], limits))
}

fn texts(texts: &[&str]) -> Vec<Box<str>> {
    texts.iter().map(|&text| text.into()).collect()
}

/// <https://github.com/coder/coder/pull/27273>
#[test]
fn a_respelled_path_meets_the_strict_limit() {
    let mut login = limits(vec![limit("strict", exact("/login")), limit("loose", Pattern::default())]);
    let spellings = [
        "/login",
        "//login",
        "/./login",
        "/x/../login",
        "/%6cogin",
        "/login/",
        "/login;v=1",
        "/x/%2e%2e/login?a#b",
    ];
    for path in spellings {
        assert_eq!(login.names(&FakeRequest::get(path)), ["strict", "loose"], "{path}");
    }
    for path in ["/LOGIN", "/login/x", "/loginx", "/", "/a%2Flogin", "*"] {
        assert_eq!(login.names(&FakeRequest::get(path)), ["loose"], "{path}");
    }
}

#[test]
fn all_that_match_apply_in_configuration_order() {
    let mut all = limits(vec![
        limit("any", Pattern::default()),
        limit("export", template("/reports/*/export")),
        limit("reports", prefix("/reports")),
        limit("exact", exact("/reports/7/export")),
        limit("below", template("/reports/**")),
        limit("root", prefix("/")),
    ]);
    let mut names = |path: &str| all.names(&FakeRequest::get(path)).join(" ");
    assert_eq!(names("/reports/7/export"), "any export reports exact below root");
    assert_eq!(names("/reports/8/export/"), "any export reports below root");
    assert_eq!(names("/reports/8/export/x"), "any reports below root");
    assert_eq!(names("/reports"), "any reports below root");
    assert_eq!(names("/reports//export"), "any reports below root");
    assert_eq!(names("/reportss"), "any root");
    assert_eq!(names("/"), "any root");
    assert_eq!(names("*"), "any root");
}

#[test]
fn the_path_of_a_pattern_is_normalised_too() {
    let mut all = limits(vec![limit("a", exact("/café/")), limit("b", prefix("/x//%79"))]);
    assert_eq!(all.names(&FakeRequest::get("/caf%c3%a9")), ["a"]);
    assert_eq!(all.names(&FakeRequest::get("/x/y/z")), ["b"]);
}

#[test]
fn only_the_first_of_a_group_applies() {
    let group = |name, pattern| Limit { group: Some("g".into()), ..limit(name, pattern) };
    let mut all = limits(vec![
        limit("alone", Pattern::default()),
        group("get", Pattern { methods: texts(&["GET"]), ..prefix("/a") }),
        group("a", prefix("/a")),
        Limit { group: Some("other".into()), ..limit("other", prefix("/a")) },
        group("rest", Pattern::default()),
    ]);
    assert_eq!(all.names(&FakeRequest::get("/a")), ["alone", "get", "other"]);
    assert_eq!(all.names(&FakeRequest::get("/a").with(":method", "POST")), ["alone", "a", "other"]);
    assert_eq!(all.names(&FakeRequest::get("/b")), ["alone", "rest"]);
}

#[test]
fn hosts_have_no_case_port_or_trailing_dot() {
    let host = |name, hosts| limit(name, Pattern { hosts: texts(hosts), ..Pattern::default() });
    let mut all = limits(vec![
        host("exact", &["api.example.com", "[2001:db8::1]"]),
        host("below", &["*.example.com"]),
        host("any", &["*"]),
    ]);
    let mut names = |host: &[u8]| all.names(&FakeRequest::get("/").with(":authority", host)).join(" ");
    for same in [
        "api.example.com",
        "API.Example.COM",
        "api.example.com:8443",
        "api.example.com.",
        "api.example.com.:80",
    ] {
        assert_eq!(names(same.as_bytes()), "exact below any", "{same}");
    }
    assert_eq!(names(b"[2001:DB8::1]:443"), "exact any");
    assert_eq!(names(b"[2001:db8::1]"), "exact any");
    assert_eq!(names(b"a.b.example.com"), "below any");
    for other in ["example.com", ".example.com", "example.com.evil", "badexample.com", "", ":80"] {
        assert_eq!(names(other.as_bytes()), "any", "{other}");
    }
    assert_eq!(names(b"\xff\xfe.example.com"), "below any");
    assert_eq!(names("a".repeat(300).as_bytes()), "any");
    assert_eq!(all.names(&FakeRequest::get("/").without(":authority")), ["any"]);
}

#[test]
fn every_condition_must_hold() {
    let headers = vec![
        HeaderPattern { name: "x-present".into(), value: HeaderValue::Present },
        HeaderPattern { name: "x-absent".into(), value: HeaderValue::Absent },
        HeaderPattern { name: "x-exact".into(), value: HeaderValue::Exact("v".into()) },
        HeaderPattern { name: "x-prefix".into(), value: HeaderValue::Prefix("v".into()) },
    ];
    let pattern = Pattern {
        methods: texts(&["POST", "PUT"]),
        hosts: texts(&["www.example.com"]),
        headers,
        routes: texts(&["orders"]),
        clusters: texts(&["web", "web-canary"]),
        networks: vec![Network::new("::ffff:192.0.2.0".parse().unwrap(), 120)],
        ..prefix("/orders")
    };
    let mut all = limits(vec![limit("all", pattern)]);
    let good = || {
        FakeRequest::get("/orders/1")
            .with(":method", "PUT")
            .with("x-present", "")
            .with("x-exact", "v")
            .with("x-prefix", "vw")
            .with_property("xds.route_name", "orders")
            .with_property("xds.cluster_name", "web")
    };
    assert_eq!(all.names(&good()), ["all"]);
    let faults = [
        good().with(":path", "/order"),
        good().with(":method", "GET"),
        good().with(":method", "put"),
        good().with(":authority", "example.com"),
        good().without("x-present"),
        good().with("x-absent", ""),
        good().with("x-exact", "vw"),
        good().without("x-exact"),
        good().with("x-prefix", "w"),
        good().with_property("xds.route_name", "order"),
        good().with_property("xds.cluster_name", "web2"),
        good().with_property("source.address", "192.0.3.1:1000"),
        good().with_property("source.address", "192.0.2.1:0"),
    ];
    for fault in faults {
        assert!(all.names(&fault).is_empty(), "{fault:?}");
    }
}

/// What no rule needs any more is not read.
#[test]
fn conditions_are_read_only_when_they_can_matter() {
    let header = HeaderPattern { name: "x-beta".into(), value: HeaderValue::Present };
    let mut all = limits(vec![
        limit("a", Pattern { hosts: texts(&["a.example.com"]), ..prefix("/a") }),
        limit("b", Pattern { methods: texts(&["POST"]), headers: vec![header], ..prefix("/b") }),
        limit("c", Pattern { networks: vec![Network::new("::".parse().unwrap(), 0)], ..prefix("/c") }),
    ]);
    let mut reads = |path: &str| {
        let request = FakeRequest::get(path);
        all.examine(&request);
        request.reads().join(" ")
    };
    assert_eq!(reads("/"), ":path");
    assert_eq!(reads("/a"), ":path :authority");
    assert_eq!(reads("/b"), ":path :method");
    assert_eq!(reads("/c"), ":path source.address");
}

/// <https://github.com/agentgateway/agentgateway/pull/926>
#[test]
fn a_preflight_is_not_charged() {
    let mut all = limits(vec![
        limit("free", Pattern::default()),
        Limit { charge_preflight: true, ..limit("charged", Pattern::default()) },
    ]);
    let options = || FakeRequest::get("/").with(":method", "OPTIONS");
    let preflight =
        || options().with("origin", "https://a.example").with("access-control-request-method", "PUT");
    assert_eq!(all.names(&preflight()), ["charged"]);
    let ordinary = [
        options(),
        options().with("origin", "https://a.example"),
        options().with("access-control-request-method", "PUT"),
        preflight().with("origin", ""),
        preflight().with(":method", "GET"),
        preflight().with(":method", "options"),
    ];
    for request in ordinary {
        assert_eq!(all.names(&request), ["free", "charged"], "{request:?}");
    }
}

#[test]
fn a_share_of_requests_is_that_share() {
    let share =
        |name, percent_e2| limit(name, Pattern { percent_e2: Some(percent_e2), ..Pattern::default() });
    let all =
        limits(vec![share("none", 0), share("tenth", 1_000), share("tenth-2", 1_000), share("all", 10_000)]);
    let Examiner { matcher, mut scratch, .. } = all;
    let mut counts = [0_u32; 4];
    let mut both = 0;
    for random in 0..20_000 {
        let request = FakeRequest::get("/");
        matcher.classify(&request, random, &mut scratch);
        matcher.meet(&request, &mut scratch);
        let met: Vec<usize> = scratch.met().iter().map(|met| met.limit).collect();
        met.iter().for_each(|&limit| counts[limit] += 1);
        both += u32::from(met.contains(&1) && met.contains(&2));
    }
    assert_eq!((counts[0], counts[3]), (0, 20_000));
    // 2,000 expected, deviation 42; 200 in both, deviation 14: the draws of two limits are independent.
    assert!((1_800..2_200).contains(&counts[1]) && (1_800..2_200).contains(&counts[2]), "{counts:?}");
    assert!((130..270).contains(&both), "{both}");
}

#[test]
fn a_path_too_long_to_look_at_meets_every_limit() {
    let mut all = limits(vec![limit("login", exact("/login")), limit("search", prefix("/search"))]);
    let padded = |len: usize| format!("/{}/../login", "x".repeat(len - "//../login".len()));
    assert_eq!(all.names(&FakeRequest::get(padded(RAW_MAX))), ["login"]);
    assert_eq!(all.names(&FakeRequest::get(padded(RAW_MAX + 1))), ["login", "search"]);
    assert_eq!(all.names(&FakeRequest::get(format!("/login?{}", "x".repeat(RAW_MAX)))), ["login"]);
}

#[test]
fn a_scratch_serves_one_policy_after_the_other() {
    let many = (0..130).map(|n| limit(&format!("limit-{n}"), exact(&format!("/{n}")))).collect();
    let (mut many, mut few) = (limits(many), limits(vec![limit("only", prefix("/"))]));
    assert_eq!(few.names(&FakeRequest::get("/129")), ["only"]);
    many.scratch = few.scratch.clone();
    assert_eq!(many.names(&FakeRequest::get("/129")), ["limit-129"]);
    few.scratch = many.scratch.clone();
    assert_eq!(few.names(&FakeRequest::get("/129")), ["only"]);
}
