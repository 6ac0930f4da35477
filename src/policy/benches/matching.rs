//! What it costs to find a request's limits and keys, in a policy of 200 limits.
//!
//! `cargo bench -p sluicegate-policy --bench matching`. The goal: under 5 microseconds, whatever the request.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use std::borrow::Cow;
use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use sluicegate_policy::config;
use sluicegate_policy::matcher::{Matcher, Scratch};
use sluicegate_policy::path;
use sluicegate_policy::policy::Policy;
use sluicegate_policy::request::Request;

/// Headers in order of name; the address as Envoy shows it.
struct Headers(&'static [(&'static str, &'static str)]);

impl Request for Headers {
    fn header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| Cow::Borrowed(value.as_bytes()))
    }

    fn property(&self, path: &[&str]) -> Option<Vec<u8>> {
        (path == ["source", "address"]).then(|| b"192.0.2.1:50000".to_vec())
    }
}

/// `count` limits of every kind: most on a path of their own, some by host, method, header, network and share, and
/// three that meet every request.
fn policy(count: usize) -> Policy {
    let own = |n: usize| match n % 10 {
        0 => format!(r#""match": {{"path": "/service-{n}/items"}}"#),
        1 => format!(r#""match": {{"path": "/service-{n}/items/{{id}}/orders"}}"#),
        2 => format!(r#""match": {{"path_prefix": "/service-{n}", "methods": ["POST", "PUT"]}}"#),
        3 => format!(r#""match": {{"path": "/service-{}/**", "hosts": ["*.example-{n}.com"]}}"#, n % 40),
        4 => format!(r#""match": {{"hosts": ["tenant-{n}.example.com"]}}"#),
        5 => format!(
            r#""match": {{"path_prefix": "/service", "headers": [{{"name": "x-tenant", "exact": "{n}"}}]}}"#
        ),
        6 => {
            format!(r#""match": {{"path_prefix": "/v1/service-{n}", "networks": ["10.{}.0.0/16"]}}"#, n % 256)
        }
        7 => format!(r#""match": {{"path_prefix": "/v1", "routes": ["route-{n}"]}}"#),
        8 => format!(r#""match": {{"path": "/{{region}}/service-{n}", "percent": 50}}"#),
        _ => format!(r#""match": {{"path": "/login/{n}", "methods": ["POST"]}}"#),
    };
    let limits: Vec<String> = (0..count)
        .map(|n| match count - n {
            1 => r#"{"name": "all", "key": ["caller"], "token_bucket": {"burst": 100, "rate": "10/s"}}"#.to_owned(),
            2 => r#"{"name": "address", "key": ["address"], "token_bucket": {"burst": 9, "rate": "1/s"}}"#.to_owned(),
            3 => r#"{"name": "both", "key": ["caller", "address"], "fixed_window": {"limit": 9, "per": "1m"}}"#.to_owned(),
            _ => format!(r#"{{"name": "limit-{n}", {}, "key": ["caller"], "token_bucket": {{"burst": 100, "rate": "10/s"}}}}"#, own(n)),
        })
        .collect();
    let text = format!(
        r#"{{"version": 1, "shim": {{"cluster": "shim"}},
            "identities": {{
                "caller": [{{"header": {{"name": "x-api-key"}}}}, {{"client_ip": {{}}}}],
                "address": [{{"client_ip": {{"trusted_hops": 1}}}}]}},
            "limits": [{}]}}"#,
        limits.join(",")
    );
    match config::from_json(text.as_bytes()) {
        Ok(policy) => policy,
        Err(faults) => {
            eprintln!("the bench's own policy is wrong: {faults:?}");
            std::process::exit(1)
        }
    }
}

fn matching(c: &mut Criterion) {
    let requests = [
        (
            "own_path",
            Headers(&[
                (":authority", "www.example.com"),
                (":method", "GET"),
                (":path", "/service-101/items/123456/orders?page=2"),
                ("x-api-key", "0123456789abcdef0123456789abcdef"),
                ("x-forwarded-for", "203.0.113.9,192.0.2.1"),
            ]),
        ),
        (
            "respelled",
            Headers(&[
                (":authority", "Tenant-114.Example.COM:8443"),
                (":method", "POST"),
                (":path", "//service-101/./x/../it%65ms/123456/orders;v=1?page=2"),
                ("x-api-key", "0123456789abcdef0123456789abcdef"),
                ("x-forwarded-for", "203.0.113.9,192.0.2.1"),
                ("x-tenant", "115"),
            ]),
        ),
        (
            "no_path",
            Headers(&[
                (":authority", "www.example.com"),
                (":method", "GET"),
                (":path", "/"),
                ("x-forwarded-for", "203.0.113.9,192.0.2.1"),
            ]),
        ),
    ];
    for count in [10, 200, 1_000] {
        let policy = policy(count);
        let (matcher, mut scratch) = (Matcher::new(&policy, [1, 2]), Scratch::default());
        for (name, request) in &requests {
            let id = |step: &str| format!("{step}/{count} limits/{name}");
            c.bench_function(&id("classify and meet"), |b| {
                b.iter(|| {
                    black_box(matcher.classify(black_box(request), 7, &mut scratch));
                    matcher.meet(request, &mut scratch);
                    black_box(scratch.met().len())
                });
            });
        }
    }
    let policy = policy(200);
    let (matcher, mut scratch) = (Matcher::new(&policy, [1, 2]), Scratch::default());
    let [(_, request), ..] = &requests;
    c.bench_function("classify, meet and wire keys/200 limits/own_path", |b| {
        b.iter(|| {
            matcher.classify(black_box(request), 7, &mut scratch);
            matcher.meet(request, &mut scratch);
            for met in scratch.met().to_vec() {
                black_box(matcher.wire_key(met.limit, &mut scratch));
            }
        });
    });
    for (name, path) in
        [("normal", "/service-101/items/123456/orders?page=2"), ("odd", "//a/./b/../%63;d/e/")]
    {
        c.bench_function(&format!("normalize/{name}"), |b| {
            b.iter(|| path::normalize(black_box(path.as_bytes())).len())
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    targets = matching
}
criterion_main!(benches);
