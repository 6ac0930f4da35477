//! Clients that need to be told in their own way: gRPC, browsers, health checks.

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testing::client::{Ask, Client, Reply};

use crate::rig::{Chain, NEVER, by, eventually, passed, policy, row, statuses};

const SOON: Duration = Duration::from_secs(10);

/// So many for each caller, and one request in flight.
fn narrow(burst: u64) -> Value {
    let limits = json!([{"name": "few", "key": "caller", "token_bucket": {"burst": burst, "rate": NEVER}, "when_unavailable": "deny"}]);
    let mut policy = policy(limits);
    policy["overload"] = json!({"upstreams": [{"cluster": "web", "max_in_flight": 1}], "admin_cluster": "envoy-admin",
                                "exempt": [{"path": "/healthz"}]});
    policy
}

/// Takes the one place there is, until the upstream is released.
async fn fill(chain: &Chain) -> tokio::task::JoinHandle<Reply> {
    chain.upstream.hold();
    let held = tokio::spawn(by(&chain.client(), "/held", "holder").send());
    eventually("the place is taken", SOON, async || chain.upstream.count("/held") == 1).await;
    held
}

/// Waits until the filter counts nothing as in flight, and forgets that it was full.
async fn calm(chain: &Chain) {
    let sum = |name: &str| chain.envoy.metrics().sum(name, &[]);
    let calm = async || sum("sluicegate_class_outstanding") + sum("sluicegate_overload_engaged") == 0.0;
    eventually("calm again", SOON, calm).await;
}

fn call(client: &Client, caller: &str, content_type: &str) -> Ask {
    let ask = client.post("/shop.Cart/Add").header("x-api-key", caller).header("content-type", content_type);
    ask.header("te", "trailers").body(&b"\0\0\0\0\0"[..])
}

/// HT-2: <https://github.com/envoyproxy/envoy/issues/21461>: a limited call arrived as UNAVAILABLE, and clients tried again
/// at once.
#[tokio::test]
async fn ht_2_grpc_is_told_in_grpc() {
    let chain = Chain::with(&narrow(2), |setup| setup.workers(1));
    let client = Client::http2(chain.envoy.address());
    for content_type in ["application/grpc", "application/grpc+proto"] {
        for _ in 0..2 {
            let reply = call(&client, content_type, content_type).send().await;
            assert_eq!((reply.status, reply.header("grpc-status")), (200, None), "the upstream's own answer");
        }
        let limited = call(&client, content_type, content_type).send().await;
        assert_eq!((limited.status, limited.header("grpc-status")), (200, Some("8")), "{limited:?}");
        assert_eq!(limited.header("grpc-message"), Some("quota-exceeded: few"));
        assert!(limited.header("content-type").unwrap().starts_with("application/grpc"));
        assert!(limited.body.is_empty(), "neither JSON nor HTML");

        let held = fill(&chain).await;
        let shed = call(&client, "another", content_type).send().await;
        assert_eq!((shed.status, shed.header("grpc-status")), (200, Some("14")), "{shed:?}");
        assert!(shed.number("grpc-retry-pushback-ms").is_some_and(|ms| 1_000 <= ms), "{shed:?}");
        assert!(shed.body.is_empty());
        let plain = by(&client, "/", "another").send().await;
        assert_eq!(plain.status, 503, "other requests are told as ever");
        chain.upstream.release();
        assert_eq!(held.await.unwrap().status, 200);
        calm(&chain).await;
    }
    let plain = row(&client, 3, "/", "third").await;
    assert_eq!(statuses(&plain), [200, 200, 429]);
}

/// HT-1: <https://github.com/agentgateway/agentgateway/pull/926>: preflights used up the quota, and a browser could not read
/// the refusal.
#[tokio::test]
async fn ht_1_browsers_can_read_a_refusal() {
    const PAGE: &str = "https://shop.example.com";
    let chain = Chain::with(&narrow(3), |setup| setup.workers(1));
    let client = chain.client();
    for _ in 0..5 {
        let preflight = client.ask("OPTIONS", "/").header("origin", PAGE);
        let reply = preflight.header("access-control-request-method", "GET").send().await;
        assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, Some(PAGE)));
    }
    for expected in [200, 200, 200, 429] {
        let reply = by(&client, "/", "page").header("origin", PAGE).send().await;
        assert_eq!((reply.status, reply.header("access-control-allow-origin")), (expected, Some(PAGE)));
        let readable = reply.header("access-control-expose-headers").unwrap();
        assert!(readable.contains("retry-after"), "{readable}");
    }
    let mut options = Vec::new();
    for _ in 0..4 {
        options.push(client.ask("OPTIONS", "/").header("x-api-key", "script").send().await);
    }
    assert_eq!(statuses(&options), [200, 200, 200, 429], "OPTIONS alone is no free lane");
}

/// HT-6: <https://github.com/cameri/nostream/issues/182>: probes used up the quota of their address, were refused, and the
/// platform restarted a healthy instance.
#[tokio::test]
async fn ht_6_health_checks_always_pass() {
    let chain = Chain::with(&narrow(5), |setup| setup.workers(1));
    let client = chain.client();
    let probe = async |n: usize| {
        for _ in 0..n {
            assert_eq!(by(&client, "/healthz", "probe").send().await.status, 200);
        }
    };
    probe(30).await;
    assert_eq!(passed(&row(&client, 6, "/", "probe").await), 5, "what the probes have left");
    let held = fill(&chain).await;
    probe(10).await;
    for path in ["/healthz/../admin", "/healthzz"] {
        assert_eq!(by(&client, path, "other").send().await.status, 503, "{path} is no health check");
    }
    chain.upstream.release();
    assert_eq!(held.await.unwrap().status, 200);
    calm(&chain).await;
    for path in ["/healthz/../admin", "/healthzz"] {
        assert_eq!(passed(&row(&client, 6, path, path).await), 5, "{path} is counted");
    }
}
