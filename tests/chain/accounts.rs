//! What is counted adds up, whatever happened.

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testing::client::Client;
use sluicegate_testing::envoy::Metrics;

use crate::rig::{Chain, NEVER, by, eventually, policy};

const SOON: Duration = Duration::from_secs(10);

const CLASSES: [&str; 6] = ["exempt", "critical", "high", "normal", "low", "sheddable"];

fn mixed() -> Value {
    let limit = |name: &str, rest: Value| {
        let mut limit = json!({"name": name, "match": {"path_prefix": format!("/{name}")}, "key": "caller",
                               "token_bucket": {"burst": 10, "rate": NEVER}});
        limit.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        limit
    };
    let mut policy = policy(json!([
        limit("ten", json!({"when_unavailable": "deny"})),
        limit("open", json!({"when_unavailable": "allow"})),
        limit("shadow", json!({"mode": "shadow"})),
        limit(
            "leased",
            json!({"token_bucket": {"burst": 100, "rate": NEVER}, "enforce": {"leased": {"size": 20}}})
        ),
        limit("local", json!({"enforce": "local"})),
        limit("queue", json!({"token_bucket": null})),
    ]));
    let queue = policy["limits"].as_array_mut().unwrap().last_mut().unwrap().as_object_mut().unwrap();
    queue.remove("token_bucket");
    queue.insert("leaky_bucket".into(), json!({"rate": "20/s", "wait": {"up_to": "1s", "waiting": 10}}));
    policy["overload"] = json!({
        "upstreams": [{"cluster": "web", "max_in_flight": 30}],
        "admin_cluster": "envoy-admin",
        // An upstream that is slow on demand teaches nothing about latency.
        "law": "pool",
        "classes": [
            {"class": "critical", "match": {"path_prefix": "/ten"}},
            {"class": "critical", "match": {"path_prefix": "/open"}},
            {"class": "critical", "match": {"path": "/reports/held"}},
            {"class": "high", "match": {"path_prefix": "/leased"}},
            {"class": "low", "match": {"path_prefix": "/queue"}},
            {"class": "sheddable", "match": {"path_prefix": "/beacon"}},
        ],
        "exempt": [{"path": "/healthz"}],
    });
    policy
}

/// One account of a class.
fn of(metrics: &Metrics, class: &str, name: &str) -> f64 {
    metrics.sum(&format!("sluicegate_class_{name}"), &[("class", class)])
}

/// Both equations, for every class; what was offered in all.
fn add_up(metrics: &Metrics) -> f64 {
    let mut offered = 0.0;
    for class in CLASSES {
        let [all, admitted, limited, shed] = ["offered", "admitted", "quota_rejected", "saturation_rejected"]
            .map(|name| of(metrics, class, name));
        let [ok, failed, late, outstanding] =
            ["ok", "failed", "deadline_missed", "outstanding"].map(|name| of(metrics, class, name));
        let list = || metrics.list("sluicegate_class");
        assert_eq!(all, admitted + limited + shed, "{class} in\n{}", list());
        assert_eq!(admitted, ok + failed + late + outstanding, "{class} in\n{}", list());
        offered += all;
    }
    offered
}

/// Waits until the workers have told what they know: both sides agree on the number sent, and nothing changes any more,
/// since a worker tells its counters one by one and may be in the midst of it.
async fn settle(chain: &Chain, sent: f64) -> Metrics {
    let all = |metrics: &Metrics| {
        metrics.sum("sluicegate_class_offered", &[]) + metrics.sum("sluicegate_class_abandoned", &[])
    };
    let mut before = String::new();
    let told = async || {
        let metrics = chain.envoy.metrics();
        let now = metrics.list("sluicegate_class");
        all(&metrics) == sent && std::mem::replace(&mut before, now.clone()) == now
    };
    eventually(&format!("{sent} requests are accounted for"), SOON, told).await;
    chain.envoy.metrics()
}

/// Section 8 of the design: offered = admitted + refused, admitted = ended + outstanding, to the last request.
#[tokio::test]
async fn both_equations_hold_after_all_that_can_happen() {
    // Connections enough: those that one worker keeps idle are not there for the other.
    let mut chain = Chain::with(&mixed(), |setup| {
        setup.edit("timeout: 5s", "timeout: 1s").edit("max_connections: 20", "max_connections: 100")
    });
    let client = chain.client();
    let mut sent = 0.0;
    let mut burst = async |client: &Client, n: usize, path: &str, more: &[(&str, &str)]| {
        sent += n as f64;
        let replies = client
            .burst(n, |client, _| {
                let ask = by(client, path, "one");
                more.iter().fold(ask, |ask, (name, value)| ask.header(name, value))
            })
            .await;
        replies.into_iter().map(|reply| reply.status).collect::<Vec<_>>()
    };

    // Quota of every kind, and none.
    for path in ["/ten", "/open", "/shadow", "/leased", "/local", "/queue", "/free", "/beacon", "/healthz"] {
        burst(&client, 30, path, &[]).await;
    }
    // A lease is spent by those that come after the one that asked for it.
    for _ in 0..5 {
        burst(&client, 1, "/leased/slowly", &[]).await;
    }
    // Refused from memory, and without a key.
    burst(&client, 5, "/ten", &[]).await;
    assert_eq!(client.get("/ten").send().await.status, 429);
    // Ends of every kind: errors, too late for the caller, too late for the route.
    assert!(burst(&client, 5, "/free", &[("reply-status", "500")]).await.contains(&500));
    burst(&client, 5, "/free", &[("reply-after-ms", "300"), ("grpc-timeout", "100m")]).await;
    assert!(burst(&client, 5, "/free", &[("reply-after-ms", "3000")]).await.contains(&504));
    // More than there is room for.
    assert!(burst(&client, 80, "/beacon", &[("reply-after-ms", "200")]).await.contains(&503));
    sent += 1.0;
    let metrics = settle(&chain, sent).await;
    assert_eq!(add_up(&metrics) + metrics.sum("sluicegate_class_abandoned", &[]), sent);

    // Requests under way are outstanding; clients that leave are failures once admitted. All six are to be admitted, so
    // what the beacons have caused has to be over.
    let engaged = async || chain.envoy.metrics().sum("sluicegate_overload_engaged", &[]) > 0.0;
    eventually("calm again", SOON, async || !engaged().await).await;
    // And what Envoy has given up may still be at the upstream.
    eventually("nothing is at the upstream", SOON, async || chain.upstream.in_flight() == 0).await;
    chain.upstream.hold();
    // By a route that has time: the other would answer for the upstream while the accounts are awaited.
    let leaving: Vec<_> =
        (0..6).map(|_| tokio::spawn(by(&client, "/reports/held", "two").try_send())).collect();
    sent += 6.0;
    eventually("they are at the upstream", SOON, async || chain.upstream.in_flight() == 6).await;
    let metrics = settle(&chain, sent).await;
    assert_eq!(of(&metrics, "critical", "outstanding"), 6.0);
    add_up(&metrics);
    leaving.iter().for_each(tokio::task::JoinHandle::abort);
    let failed = of(&metrics, "critical", "failed");
    let gone = async || of(&chain.envoy.metrics(), "critical", "failed") == failed + 6.0;
    eventually("they have failed", SOON, gone).await;
    chain.upstream.release();

    // No decisions to be had. Saturation control is to keep out of it.
    let engaged = async || chain.envoy.metrics().sum("sluicegate_overload_engaged", &[]) > 0.0;
    eventually("calm again", SOON, async || !engaged().await).await;
    chain.shim.kill();
    let mut without = async |path: &str| {
        sent += 10.0;
        let replies = client.burst(10, |client, _| by(client, path, "three")).await;
        replies.into_iter().map(|reply| reply.status).collect::<Vec<_>>()
    };
    assert_eq!(without("/ten").await, [503; 10]);
    assert_eq!(without("/open").await, [200; 10]);
    settle(&chain, sent).await;
    let outstanding = async || chain.envoy.metrics().sum("sluicegate_class_outstanding", &[]);
    eventually("idle again", SOON, async || outstanding().await == 0.0).await;
    let metrics = chain.envoy.metrics();
    add_up(&metrics);
    let by_reason = |reason: &str| metrics.sum("sluicegate_class_saturation_rejected", &[("reason", reason)]);
    assert!(by_reason("unavailable") >= 10.0, "{}", metrics.list("sluicegate_class"));
    assert!(by_reason("hardcap") + by_reason("saturation") > 0.0, "{}", metrics.list("sluicegate_class"));
    assert!(of(&metrics, "normal", "deadline_missed") + by_reason("deadline") >= 5.0);
    assert_eq!(of(&metrics, "exempt", "admitted"), 30.0);
    let event =
        |limit: &str, name: &str| metrics.value(&format!("sluicegate_limit_{name}"), &[("limit", limit)]);
    assert_eq!((event("ten", "allowed"), event("ten", "fallback_deny")), (10.0, 10.0));
    assert_eq!(event("open", "fallback_allow"), 10.0);
    assert_eq!(event("shadow", "allowed"), 10.0);
    assert!(event("shadow", "would_limit") > 0.0);
    assert!(event("leased", "leased") > 0.0);
}
