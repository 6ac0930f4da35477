//! The bound on requests in flight, over the workers of one Envoy.

use std::time::Duration;

use serde_json::json;
use sluicegate_testing::client::{Client, with_status};
use sluicegate_testing::envoy::Setup;

use crate::rig::{Chain, by, eventually, policy, statuses};

/// WF-5: <https://github.com/istio-ecosystem/wasm-extensions/pull/43>: a shared counter without compare-and-set lost updates,
/// and each worker had a limit of its own.
#[tokio::test]
async fn wf_5_a_bound_on_requests_in_flight_holds_over_all_workers() {
    let mut policy =
        policy(json!([{"name": "all", "key": "caller", "token_bucket": {"burst": 100_000, "rate": "1/s"}}]));
    // By connections, since what the upstream takes here says nothing.
    policy["overload"] = json!({"upstreams": [{"cluster": "web", "max_in_flight": 10}], "law": "pool",
                                "admin_cluster": "envoy-admin"});
    for workers in [1, 4_usize] {
        // Connections enough: nothing else is in the way.
        let change =
            |setup: Setup| setup.workers(workers as u32).edit("max_connections: 20", "max_connections: 100");
        let chain = Chain::with(&policy, change);
        let client = chain.client();
        let slow = |client: &Client, _| by(client, "/", "one").header("reply-after-ms", "1000");
        let replies = client.burst(60, slow).await;
        let ok = with_status(&replies, 200);
        assert_eq!(ok + with_status(&replies, 503), 60, "{:?}", statuses(&replies));
        assert!((10..=10 * workers).contains(&ok), "{workers} workers: {ok} passed");
        assert!(chain.upstream.peak() <= 10 * workers);
        let in_flight = || chain.envoy.metrics().sum("sluicegate_overload_in_flight", &[]);
        eventually("nothing is in flight", Duration::from_secs(5), async || in_flight() == 0.0).await;
        for _ in 0..200 {
            client.burst(50, |client, _| by(client, "/", "one")).await;
        }
        eventually("nothing is in flight", Duration::from_secs(5), async || in_flight() == 0.0).await;
        let outstanding = || chain.envoy.metrics().sum("sluicegate_class_outstanding", &[]);
        eventually("nothing is outstanding", Duration::from_secs(5), async || outstanding() == 0.0).await;
        let engaged = || chain.envoy.metrics().sum("sluicegate_overload_engaged", &[]);
        eventually("calm again", Duration::from_secs(10), async || engaged() == 0.0).await;
        let ten = client.burst(10, |client, _| by(client, "/", "one")).await;
        assert_eq!(statuses(&ten), [200; 10], "{}", chain.envoy.metrics().list("sluicegate_overload"));
    }
}
