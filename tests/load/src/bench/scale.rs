//! How cost grows: with keys, with limits.

use std::time::Duration;

use serde::Serialize;

use super::round::{Bench, Point};
use super::system::{System, many_limits};
use crate::rig::shim::Shim;

/// One point of a curve.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Scaled {
    pub(crate) system: &'static str,
    /// How many keys or limits.
    pub(crate) n: u64,
    #[serde(flatten)]
    pub(crate) point: Point,
    /// Resident memory of Envoy before, bytes.
    pub(crate) envoy_rss_before: u64,
    /// The same when half of the keys were seen.
    pub(crate) envoy_rss_half: u64,
}

const LIMITS: [usize; 3] = [1, 10, 200];

// === impl Scaled ===

impl Scaled {
    /// Memory that Envoy took meanwhile, bytes.
    pub(crate) fn grown_bytes(&self) -> f64 {
        self.point.envoy_rss.saturating_sub(self.envoy_rss_before) as f64
    }
}

/// Local and shared over the number of different keys. The largest number is asked for until each key was seen,
/// at most `longest`.
///
/// # Errors
///
/// Something could not be started, or a connection broke.
pub(crate) async fn keys(
    bench: &Bench<'_>,
    counts: &[u64],
    longest: Duration,
) -> anyhow::Result<Vec<Scaled>> {
    let mut curve = Vec::new();
    for system in [System::Local, System::Shared] {
        for &n in counts {
            let shim = if system.needs_shim() { Some(Shim::start(bench.folder).await?) } else { None };
            let services = system.services(bench.echo, shim.as_ref().map(Shim::service));
            let gateway = bench.start(system.filters()?, system.backend(bench.echo), services, shim).await?;
            gateway.warm_up(system.keys()).await?;
            let envoy_rss_before = gateway.rss_bytes();
            let first = gateway.measure(32, n, bench.length).await?;
            let all = Duration::from_secs_f64(n as f64 / first.rps).min(longest);
            let half = gateway.measure(32, n, (all / 2).max(bench.length)).await?;
            let point = gateway.measure(32, n, all.max(bench.length)).await?;
            let envoy_rss_half = half.envoy_rss;
            curve.push(Scaled { system: system.name(), n, point, envoy_rss_before, envoy_rss_half });
        }
    }
    Ok(curve)
}

/// Local over the number of configured limits, of which one matches.
///
/// # Errors
///
/// As above.
pub(crate) async fn limits(bench: &Bench<'_>) -> anyhow::Result<Vec<Scaled>> {
    let mut curve = Vec::new();
    for n in LIMITS {
        let (system, filters) = (System::Local, many_limits(n)?);
        let gateway = bench.start(filters, system.backend(bench.echo), Vec::new(), None).await?;
        gateway.warm_up(system.keys()).await?;
        let envoy_rss_before = gateway.rss_bytes();
        let point = gateway.measure(32, system.keys(), bench.length).await?;
        let (system, envoy_rss_half) = (system.name(), point.envoy_rss);
        curve.push(Scaled { system, n: n as u64, point, envoy_rss_before, envoy_rss_half });
    }
    Ok(curve)
}
