//! One system, once: with one connection, with 32 and with 256.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::system::System;
use crate::closed_loop::{self, Answers, KEY, Load};
use crate::machine::CoreTimes;
use crate::rig::config::{Backend, Config, Service};
use crate::rig::envoy::Envoy;
use crate::rig::process::Usage;
use crate::rig::shim::Shim;

/// Connections of the measurements, in this order; the second is the one that ratios are made of.
pub(crate) const CONNECTIONS: [usize; 3] = [1, 32, 256];

/// Where everything is, and how long things take.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) echo: u16,
    pub(crate) length: Duration,
}

/// The figures of one system in one round.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Round {
    pub(crate) system: &'static str,
    /// One for each of [`CONNECTIONS`].
    pub(crate) points: Vec<Point>,
    /// From the start of the process to readiness, milliseconds.
    pub(crate) start_ms: f64,
}

/// The figures of one measurement.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Point {
    pub(crate) connections: usize,
    pub(crate) rps: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// Processor time for each request, microseconds.
    pub(crate) envoy_us: f64,
    pub(crate) shim_us: f64,
    pub(crate) redis_us: f64,
    /// Resident memory of Envoy afterwards, bytes.
    pub(crate) envoy_rss: u64,
    /// Share of the machine that others used meanwhile, 0 to 1.
    pub(crate) foreign: f64,
    /// Answers that were neither 2xx nor 429: there should be none.
    pub(crate) other: u64,
    /// The beginning of one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) oddity: Option<String>,
}

/// A gateway under test with what it needs.
pub(crate) struct Gateway {
    envoy: Envoy,
    shim: Option<Shim>,
}

// === impl Bench ===

impl Bench<'_> {
    /// Starts the system, warms it up, measures it and ends it.
    ///
    /// # Errors
    ///
    /// Something could not be started, or a connection broke.
    pub(crate) async fn round(&self, system: System) -> anyhow::Result<Round> {
        let shim = if system.needs_shim() { Some(Shim::start(self.folder).await?) } else { None };
        let services = system.services(self.echo, shim.as_ref().map(Shim::service));
        let gateway = self.start(system.filters()?, system.backend(self.echo), services, shim).await?;
        let keys = system.keys();
        gateway.warm_up(keys).await?;
        let mut points = Vec::new();
        for connections in CONNECTIONS {
            points.push(gateway.measure(connections, keys, self.length).await?);
        }
        let start_ms = gateway.envoy.start_took().as_secs_f64() * 1_000.0;
        Ok(Round { system: system.name(), points, start_ms })
    }

    /// Starts an Envoy of one worker: the other core is for those who ask and answer.
    pub(crate) async fn start(
        &self,
        filters: Vec<Value>,
        backend: Backend,
        services: Vec<Service>,
        shim: Option<Shim>,
    ) -> anyhow::Result<Gateway> {
        let config = Config { workers: 1, filters, backend, services, admin_port: None, aside: None };
        Ok(Gateway { envoy: Envoy::start("envoy", self.folder, &config).await?, shim })
    }
}

// === impl Gateway ===

impl Gateway {
    /// Compilers have compiled, connections are open, every key of a denied system has been refused once.
    pub(crate) async fn warm_up(&self, keys: u64) -> anyhow::Result<()> {
        self.run(32, keys, Duration::from_millis(700)).await.map(drop)
    }

    /// One measurement.
    pub(crate) async fn measure(
        &self,
        connections: usize,
        keys: u64,
        length: Duration,
    ) -> anyhow::Result<Point> {
        let (before, cores) = (self.usage(), CoreTimes::read());
        let answers = self.run(connections, keys, length).await?;
        let after = self.usage();
        let spent = |usage: &[Usage]| usage.iter().map(|one| one.cpu_ns).sum::<u64>();
        let ours_ns = spent(&after).saturating_sub(spent(&before));
        let ([envoy_before, shim_before, redis_before, _], [envoy, shim, redis, _]) = (before, after);
        let us = |before: Usage, after: Usage| {
            after.cpu_ns.saturating_sub(before.cpu_ns) as f64 / 1_000.0 / answers.total().max(1) as f64
        };
        Ok(Point {
            connections,
            rps: answers.per_second(),
            p50_us: answers.latency_us(0.5),
            p99_us: answers.latency_us(0.99),
            envoy_us: us(envoy_before, envoy),
            shim_us: us(shim_before, shim),
            redis_us: us(redis_before, redis),
            envoy_rss: envoy.rss_bytes,
            foreign: CoreTimes::read().foreign_since(&cores, ours_ns),
            other: answers.other,
            oddity: answers.oddity,
        })
    }

    async fn run(&self, connections: usize, keys: u64, length: Duration) -> anyhow::Result<Answers> {
        let request = closed_loop::get("/", &format!("x-api-key: key-{KEY}\r\n"));
        closed_loop::run(&Load::new(self.envoy.address(), connections, request, keys), length).await
    }

    /// Resident memory of Envoy, bytes.
    pub(crate) fn rss_bytes(&self) -> u64 {
        self.envoy.usage().rss_bytes
    }

    /// Of Envoy, shim, Redis and ourselves, who ask and answer.
    fn usage(&self) -> [Usage; 4] {
        let shim = self.shim.as_ref();
        [
            self.envoy.usage(),
            shim.map(Shim::usage).unwrap_or_default(),
            shim.map(|shim| shim.redis().usage()).unwrap_or_default(),
            Usage::own(),
        ]
    }
}
