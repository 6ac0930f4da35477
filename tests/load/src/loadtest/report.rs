//! `report.json`.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

use super::calibrate::Calibration;
use super::measure::Measured;
use super::pace::{Pace, SERVERS, SERVICE_MS};
use super::summary::{Summary, summarise};
use super::timeline::Timeline;
use super::{Outcome, view};
use crate::date;
use crate::machine::Machine;

/// Everything that a load test has found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) made_at: String,
    pub(crate) machine: Machine,
    /// Short runs: for seeing that all works, not for figures.
    pub(crate) quick: bool,
    pub(crate) upstream: Upstream,
    /// Seconds measured in each run, and runs.
    pub(crate) hold_s: f64,
    pub(crate) repeats: u32,
    /// Runs that could not be made, and why.
    pub(crate) faults: Vec<String>,
    /// Medians over the runs that count.
    pub(crate) summary: Vec<Summary>,
    /// Every run, those that do not count included.
    pub(crate) runs: Vec<Measured>,
    /// First run of each scenario over time.
    pub(crate) timelines: Vec<Timeline>,
}

/// The service that is protected.
#[derive(Debug, Serialize)]
pub(crate) struct Upstream {
    pub(crate) servers: usize,
    pub(crate) service_ms: f64,
    pub(crate) law: &'static str,
    #[serde(flatten)]
    pub(crate) capacity: Calibration,
}

impl Report {
    pub(super) fn new(pace: Pace, quick: bool, capacity: Calibration, outcome: Outcome) -> Report {
        Report {
            made_at: date::now(),
            machine: Machine::read(),
            quick,
            upstream: Upstream { servers: SERVERS, service_ms: SERVICE_MS, law: "exponential", capacity },
            hold_s: pace.hold_s,
            repeats: pace.repeats,
            faults: outcome.faults,
            summary: summarise(&outcome.measured),
            runs: outcome.measured,
            timelines: outcome.timelines,
        }
    }

    /// Writes `report.json` and `report.html` to `folder`.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub(crate) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        fs::write(folder.join("report.json"), serde_json::to_string_pretty(self)?)?;
        fs::write(folder.join("report.html"), view::page(self).html())?;
        Ok(())
    }
}
