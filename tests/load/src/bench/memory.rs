//! How much memory the shim takes.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::redis;
use crate::closed_loop;
use crate::rig::shim::Shim;

/// Takes in one batch.
const BATCH: usize = 8;

/// Decisions a second, about.
const DECISIONS_PER_S: f64 = 10_000.0;

/// Resident memory of the shim.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct ShimMemory {
    /// Ready, not asked yet, bytes.
    pub(crate) idle_bytes: u64,
    /// After some seconds of 10,000 decisions a second, bytes.
    pub(crate) busy_bytes: u64,
    /// How many decisions a second it was in fact.
    pub(crate) decisions_per_s: f64,
    /// Share of one core that the shim used for them, 0 to 1.
    pub(crate) core: f64,
}

/// Measures an idle shim, then the same at work.
///
/// # Errors
///
/// It could not be started, or a connection broke.
pub(crate) async fn shim(folder: &Path, length: Duration) -> anyhow::Result<ShimMemory> {
    let shim = Shim::start(folder).await?;
    let idle = shim.usage();
    let mut load = redis::load(shim.address(), BATCH)?;
    load.pace = Duration::from_secs_f64((load.connections * BATCH) as f64 / DECISIONS_PER_S);
    let answers = closed_loop::run(&load, length).await?;
    let busy = shim.usage();
    Ok(ShimMemory {
        idle_bytes: idle.rss_bytes,
        busy_bytes: busy.rss_bytes,
        decisions_per_s: answers.per_second() * BATCH as f64,
        core: busy.cpu_ns.saturating_sub(idle.cpu_ns) as f64 / 1e9 / answers.seconds,
    })
}
