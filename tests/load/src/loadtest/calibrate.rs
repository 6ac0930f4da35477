//! What the upstream can really do on this machine.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::pace::{CAPACITY, SERVERS, SERVICE_MS};
use crate::closed_loop::{self, Load};
use crate::rig::port;
use crate::rig::upstream::Upstream;

/// Length of the measurement.
const SECONDS: f64 = 2.0;

/// Capacity by reckoning and by measurement.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Calibration {
    /// Requests served at once over the mean service time, requests a second.
    pub(crate) nominal_rps: f64,
    /// What 64 clients in a closed loop were answered, corrected for the service times drawn, requests a second.
    pub(crate) measured_rps: f64,
}

impl Calibration {
    /// Measures the upstream without a gateway.
    ///
    /// # Errors
    ///
    /// The upstream cannot be started.
    pub(crate) async fn run(folder: &Path) -> anyhow::Result<Calibration> {
        let args = [format!("--concurrency={SERVERS}"), format!("--service-ms={SERVICE_MS}")];
        let upstream = Upstream::start(folder, &args).await?;
        let load = Load::new(port::local(upstream.port()), 64, closed_loop::get("/", ""), 1);
        let rate = closed_loop::run(&load, Duration::from_secs_f64(SECONDS)).await?.per_second();
        let count = upstream.count().await?;
        let drawn_ms = count.drawn_us as f64 / count.arrived.max(1) as f64 / 1_000.0;
        Ok(Calibration { nominal_rps: CAPACITY, measured_rps: rate * drawn_ms / SERVICE_MS })
    }
}
