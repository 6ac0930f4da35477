//! What protects the upstream in a run.

use clap::ValueEnum;
use serde::Serializer;
use serde_json::Value;

use super::pace::{CAPACITY, SERVERS};
use super::policy;
use super::scenario::Scenario;
use crate::rig::config::Backend;
use crate::rig::{artifact, filter};

/// A system under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum System {
    /// Sluicegate where pending requests are visible: HTTP/1.1 with a connection bound.
    SluicegatePool,
    /// Sluicegate where they are not: HTTP/2 without bounds.
    SluicegateLatency,
    /// No control, no bounds.
    None,
    /// Envoy's circuit breaker alone, well set.
    Breaker,
    /// Envoy's `adaptive_concurrency`.
    AdaptiveConcurrency,
    /// Envoy's `local_ratelimit` at 0.95 of capacity.
    LocalRatelimit,
}

/// A quarter more connections than the upstream works on: an answer does not leave a server idle for a turnaround.
pub(crate) const CONNECTIONS: u32 = (SERVERS + SERVERS / 4) as u32;

/// Share of capacity that the rate limit lets through.
const RATE: f64 = 0.95;

// === impl System ===

impl System {
    pub(crate) const ALL: [System; 6] = [
        System::SluicegatePool,
        System::SluicegateLatency,
        System::None,
        System::Breaker,
        System::AdaptiveConcurrency,
        System::LocalRatelimit,
    ];

    /// The name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            System::SluicegatePool => "sluicegate_pool",
            System::SluicegateLatency => "sluicegate_latency",
            System::None => "none",
            System::Breaker => "breaker",
            System::AdaptiveConcurrency => "adaptive_concurrency",
            System::LocalRatelimit => "local_ratelimit",
        }
    }

    /// How it is called in plots.
    pub(crate) fn title(self) -> &'static str {
        match self {
            System::SluicegatePool => "Sluicegate, pool",
            System::SluicegateLatency => "Sluicegate, latency",
            System::None => "no control",
            System::Breaker => "circuit breaker",
            System::AdaptiveConcurrency => "adaptive concurrency",
            System::LocalRatelimit => "local rate limit",
        }
    }

    pub(crate) fn serialize_name<S: Serializer>(system: &System, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(system.name())
    }

    #[cfg(test)]
    pub(crate) fn is_ours(self) -> bool {
        matches!(self, System::SluicegatePool | System::SluicegateLatency)
    }

    /// What stands behind the gateway.
    pub(crate) fn backend(self, port: u16) -> Backend {
        match self {
            System::SluicegateLatency => Backend::Http2 { port },
            System::SluicegatePool => {
                Backend::Http1 { port, connections: Some(CONNECTIONS), pending: Some(1_024) }
            }
            System::Breaker => Backend::Http1 { port, connections: Some(CONNECTIONS), pending: Some(64) },
            System::None | System::AdaptiveConcurrency | System::LocalRatelimit => {
                Backend::Http1 { port, connections: None, pending: None }
            }
        }
    }

    /// Our own filter aside from the traffic, where it leads until it is taken away: the younger configuration does.
    ///
    /// # Errors
    ///
    /// The filter was not built.
    pub(crate) fn aside(self, scenario: &Scenario) -> anyhow::Result<Option<Value>> {
        if scenario.leader_lost_s.is_none() {
            return Ok(None);
        }
        let mut policy = policy::of(self, scenario);
        if let Some(overload) = policy.pointer_mut("/overload").and_then(Value::as_object_mut) {
            overload.insert("retry_after_max".into(), "61s".into());
        }
        Ok(Some(filter::wasm_aside("sluicegate", &artifact::filter()?, &policy.to_string())))
    }

    /// The filters before the router.
    ///
    /// # Errors
    ///
    /// The filter was not built.
    pub(crate) fn filters(self, scenario: &Scenario) -> anyhow::Result<Vec<Value>> {
        Ok(match self {
            System::None | System::Breaker => Vec::new(),
            System::AdaptiveConcurrency => vec![filter::adaptive_concurrency()],
            System::LocalRatelimit => vec![filter::local_ratelimit(RATE * CAPACITY)],
            System::SluicegatePool | System::SluicegateLatency => {
                let policy = policy::of(self, scenario).to_string();
                vec![filter::wasm("sluicegate", &artifact::filter()?, &policy)]
            }
        })
    }
}
