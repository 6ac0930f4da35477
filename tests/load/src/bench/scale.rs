//! How cost grows: with keys, with limits.

use std::time::Duration;

use serde::Serialize;

use super::round::{Bench, KEYS, Point};
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
}

const LIMITS: [usize; 3] = [1, 10, 200];

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
            gateway.warm_up().await?;
            let first = gateway.measure(32, n, bench.length).await?;
            let left_s = (n as f64 / first.rps - bench.length.as_secs_f64()).max(0.0);
            let left = Duration::from_secs_f64(left_s).min(longest).max(bench.length);
            let point = gateway.measure(32, n, left).await?;
            curve.push(Scaled { system: system.name(), n, point, envoy_rss_before: first.envoy_rss });
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
        let filters = many_limits(n)?;
        let gateway = bench.start(filters, System::Local.backend(bench.echo), Vec::new(), None).await?;
        gateway.warm_up().await?;
        let point = gateway.measure(32, KEYS, bench.length).await?;
        let system = System::Local.name();
        curve.push(Scaled { system, n: n as u64, point, envoy_rss_before: point.envoy_rss });
    }
    Ok(curve)
}
