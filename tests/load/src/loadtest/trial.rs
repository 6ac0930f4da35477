//! One scenario with one system, once.

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use tokio::time::Instant;

use super::pace::{CAPACITY, SERVERS, SERVICE_MS};
use super::scenario::{Scenario, Segment};
use super::system::System;
use crate::generate::drive::Drive;
use crate::generate::mix::Mix;
use crate::generate::plan::{Phase, Plan};
use crate::generate::record::Record;
use crate::machine::CoreTimes;
use crate::rig::config::Config;
use crate::rig::envoy::Envoy;
use crate::rig::port;
use crate::rig::process::Usage;
use crate::rig::shim::Shim;
use crate::rig::upstream::Upstream;
use crate::upstream::count::Count;

/// What a run has left behind.
#[derive(Debug)]
pub(crate) struct Trial {
    /// Every attempt, in the order in which they were due.
    pub(crate) records: Vec<Record>,
    /// One for each segment.
    pub(crate) spans: Vec<Span>,
}

/// The accounts at the start and at the end of a segment.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) segment: Segment,
    pub(crate) from: Account,
    pub(crate) to: Account,
}

/// What others have counted up to a moment.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) upstream: Count,
    pub(crate) envoy: Usage,
    pub(crate) cores: CoreTimes,
}

/// The processes of a run.
struct Bench {
    upstream: Upstream,
    envoy: Envoy,
    _shim: Option<Shim>,
}

impl Trial {
    /// Starts everything, runs the load, and ends everything.
    ///
    /// # Errors
    ///
    /// Something could not be started, or the upstream was lost.
    pub(crate) async fn run(
        folder: &Path,
        system: System,
        scenario: &Scenario,
        seed: u64,
        seen: impl FnMut(&Record),
    ) -> anyhow::Result<Trial> {
        let bench = Bench::start(folder, system, scenario, seed).await?;
        let drive = Drive::prepare(bench.envoy.address(), plan(scenario, seed)).await?;
        let start = Instant::from_std(drive.start());
        let (records, spans) = tokio::join!(drive.run(seen), bench.follow(scenario, start));
        Ok(Trial { records, spans: spans? })
    }
}

// === impl Bench ===

impl Bench {
    async fn start(folder: &Path, system: System, scenario: &Scenario, seed: u64) -> anyhow::Result<Bench> {
        let args = [
            format!("--concurrency={SERVERS}"),
            format!("--service-ms={SERVICE_MS}"),
            format!("--seed={seed}"),
        ];
        let upstream = Upstream::start(folder, &args).await?;
        let shim = match scenario.quota_per_tenant {
            Some(_) => Some(Shim::start(folder).await?),
            None => None,
        };
        let config = Config {
            workers: scenario.workers,
            filters: system.filters(scenario)?,
            backend: system.backend(upstream.port()),
            services: shim.iter().map(Shim::service).collect(),
            admin_port: if scenario.admin_blocked { Some(port::free()?) } else { None },
            aside: system.aside(scenario)?,
        };
        let envoy = Envoy::start("envoy", folder, &config).await?;
        Ok(Bench { upstream, envoy, _shim: shim })
    }

    /// Changes the upstream when it is time, and reads the accounts at both ends of each segment.
    async fn follow(&self, scenario: &Scenario, start: Instant) -> anyhow::Result<Vec<Span>> {
        let changes = async {
            for (at_s, service_ms) in &scenario.service_changes {
                tokio::time::sleep_until(start + Duration::from_secs_f64(*at_s)).await;
                self.upstream.control(&format!("service_ms={service_ms}")).await?;
            }
            anyhow::Ok(())
        };
        let loss = async {
            if let Some(lost_s) = scenario.leader_lost_s {
                // Envoy drains a listener for a second before it lets go of its VMs.
                tokio::time::sleep_until(start + Duration::from_secs_f64((lost_s - 1.0).max(0.0))).await;
                let leaders = self.leaders()?;
                self.envoy.take_aside_away()?;
                tokio::time::sleep_until(start + Duration::from_secs_f64(scenario.seconds())).await;
                ensure!(leaders < self.leaders()?, "the leader was not lost");
            }
            anyhow::Ok(())
        };
        let accounts = async {
            let mut spans = Vec::new();
            for segment in &scenario.segments {
                tokio::time::sleep_until(start + Duration::from_secs_f64(segment.from_s)).await;
                let from = self.account().await?;
                tokio::time::sleep_until(start + Duration::from_secs_f64(segment.to_s)).await;
                let to = self.account().await?;
                spans.push(Span { segment: segment.clone(), from, to });
            }
            anyhow::Ok(spans)
        };
        let (spans, (), ()) = tokio::try_join!(accounts, changes, loss)?;
        Ok(spans)
    }

    /// How often a VM has begun to lead.
    fn leaders(&self) -> anyhow::Result<usize> {
        Ok(self.envoy.log()?.matches("this worker polls Envoy's stats").count())
    }

    async fn account(&self) -> anyhow::Result<Account> {
        let (envoy, cores) = (self.envoy.usage(), CoreTimes::read());
        Ok(Account { upstream: self.upstream.count().await?, envoy, cores })
    }
}

fn plan(scenario: &Scenario, seed: u64) -> Plan {
    let phase = |(load, seconds): &(f64, f64)| Phase { rate: load * CAPACITY, us: (seconds * 1e6) as u64 };
    Plan {
        phases: scenario.phases.iter().map(phase).collect(),
        mix: Mix::default(),
        patience: scenario.patience,
        retries: scenario.retries,
        transport: scenario.transport,
        tenants: scenario.tenants,
        seed,
    }
}
