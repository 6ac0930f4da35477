//! What decides about a request in the benchmark.

use serde_json::{Value, json};

use crate::rig::config::{Backend, SHIM, Service};
use crate::rig::{artifact, filter};

/// A system under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum System {
    /// Envoy answers by itself, without filter and upstream.
    Direct,
    /// Envoy proxies, without filter.
    Plain,
    /// A Wasm filter that reads two headers and passes.
    Noop,
    /// A Wasm filter that makes one callout for each request and passes.
    Callout,
    /// A Wasm filter that answers 429 to everything.
    NoopDenied,
    /// Envoy's own token bucket, never empty.
    LocalRatelimit,
    /// Ours, each Envoy by itself.
    Local,
    /// Ours, tokens taken ahead of time.
    Leased,
    /// Ours, every request decided by Redis.
    Shared,
    /// The same with five limits on every request.
    SharedFive,
    /// Ours, refused by what is known of an earlier refusal.
    Denied,
}

/// Name of the cluster that a bare callout asks.
const CALLOUT: &str = "callout";

/// Tokens that no benchmark uses up.
const PLENTY: u32 = 1_000_000_000;

// === impl System ===

impl System {
    pub(crate) const ALL: [System; 11] = [
        System::Direct,
        System::Plain,
        System::Noop,
        System::Callout,
        System::NoopDenied,
        System::LocalRatelimit,
        System::Local,
        System::Leased,
        System::Shared,
        System::SharedFive,
        System::Denied,
    ];

    /// The name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            System::Direct => "direct_response",
            System::Plain => "plain",
            System::Noop => "noop_wasm",
            System::Callout => "callout_each",
            System::NoopDenied => "noop_denied",
            System::LocalRatelimit => "local_ratelimit",
            System::Local => "local",
            System::Leased => "leased",
            System::Shared => "shared",
            System::SharedFive => "shared_5_limits",
            System::Denied => "denied",
        }
    }

    /// Different keys that ask, where their number is not what is measured.
    pub(crate) fn keys(self) -> u64 {
        match self {
            // A denial is remembered for half a second, then somebody asks again: of few keys, few requests in a
            // hundred.
            System::Denied => 16,
            // A lease lives for a second, and pays for keys that are asked for often meanwhile.
            System::Leased => 100,
            _ => 1_000,
        }
    }

    pub(crate) fn needs_shim(self) -> bool {
        matches!(self, System::Leased | System::Shared | System::SharedFive | System::Denied)
    }

    /// What stands behind the gateway.
    pub(crate) fn backend(self, port: u16) -> Backend {
        match self {
            System::Direct => Backend::Direct,
            _ => Backend::Http1 { port, connections: None, pending: None },
        }
    }

    /// Where callouts go; `echo` is the port of the lean upstream.
    pub(crate) fn services(self, echo: u16, shim: Option<Service>) -> Vec<Service> {
        match self {
            System::Callout => vec![Service { name: CALLOUT, port: echo }],
            _ => shim.into_iter().collect(),
        }
    }

    /// The filters before the router.
    ///
    /// # Errors
    ///
    /// A module was not built.
    pub(crate) fn filters(self) -> anyhow::Result<Vec<Value>> {
        let noop = |task: &str| anyhow::Ok(vec![filter::wasm("noop", &artifact::noop()?, task)]);
        let ours = |limits| sluicegate(&policy(limits));
        match self {
            System::Direct | System::Plain => Ok(Vec::new()),
            System::Noop => noop(""),
            System::Callout => noop(&format!("callout {CALLOUT}")),
            System::NoopDenied => noop("deny"),
            System::LocalRatelimit => Ok(vec![filter::local_ratelimit(f64::from(PLENTY))]),
            System::Local => ours(vec![limit("local", &json!("local"))]),
            System::Leased => ours(vec![limit("leased", &json!({"leased": {"size": 1_000, "for": "1s"}}))]),
            System::Shared => ours(vec![limit("shared", &json!("shared"))]),
            System::SharedFive => {
                ours((1..=5).map(|i| limit(&format!("shared-{i}"), &json!("shared"))).collect())
            }
            System::Denied => ours(vec![json!({
                "name": "once",
                "key": ["caller"],
                "token_bucket": {"burst": 1, "rate": "1/h"},
            })]),
        }
    }
}

/// Our filter with `configured` local limits, of which one matches.
///
/// # Errors
///
/// The module was not built.
pub(crate) fn many_limits(configured: usize) -> anyhow::Result<Vec<Value>> {
    let mut limits = vec![limit("matching", &json!("local"))];
    limits.extend((1..configured).map(|i| {
        let mut limit = limit(&format!("other-{i}"), &json!("local"));
        if let Some(fields) = limit.as_object_mut() {
            fields.insert("match".into(), json!({"path_prefix": format!("/other/{i}")}));
        }
        limit
    }));
    sluicegate(&policy(limits))
}

fn sluicegate(policy: &Value) -> anyhow::Result<Vec<Value>> {
    Ok(vec![filter::wasm("sluicegate", &artifact::filter()?, &policy.to_string())])
}

fn limit(name: &str, enforce: &Value) -> Value {
    json!({
        "name": name,
        "key": ["caller"],
        "token_bucket": {"burst": PLENTY, "rate": "1000000/s"},
        "enforce": enforce,
    })
}

fn policy(limits: Vec<Value>) -> Value {
    json!({
        "version": 1,
        "shim": {"cluster": SHIM},
        "identities": {"caller": [{"header": {"name": "x-api-key"}}]},
        "limits": limits,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_valid() {
        let all = [
            vec![limit("local", &json!("local"))],
            vec![limit("leased", &json!({"leased": {"size": 1_000, "for": "1s"}}))],
            vec![limit("shared", &json!("shared")), limit("shared-2", &json!("shared"))],
        ];
        for limits in all {
            let text = policy(limits).to_string();
            sluicegate_policy::config::from_json(text.as_bytes()).unwrap();
        }
    }
}
