//! Goodput under overload, against what Envoy has: every system in the same rig, one after the other.

mod calibrate;
mod measure;
mod pace;
mod policy;
mod report;
mod scenario;
mod summary;
mod system;
mod terminal;
mod timeline;
mod trial;
mod view;

use std::path::{Path, PathBuf};

use anyhow::ensure;
use clap::ValueEnum;

use crate::generate::record::Record;
use crate::{progress, signal, tally};
use calibrate::Calibration;
use measure::{Measured, measure};
use pace::Pace;
use report::Report;
use scenario::Scenario;
use system::System;
use timeline::Timeline;
use trial::Trial;

/// Starts upstream, Envoy and, where needed, shim and Redis for every run, and ends them after it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Everything once and briefly, in under five minutes; for figures, leave it out.
    #[arg(long)]
    quick: bool,
    /// Only these systems.
    #[arg(long, value_enum, value_delimiter = ',')]
    systems: Vec<System>,
    /// Only these scenarios, by name.
    #[arg(long, value_delimiter = ',')]
    scenarios: Vec<String>,
    /// Runs of each scenario with each system.
    #[arg(long)]
    repeats: Option<u32>,
    /// Length of a measurement, seconds.
    #[arg(long)]
    hold: Option<f64>,
    /// Folder of the reports.
    #[arg(long, default_value = "target/loadtest")]
    output: PathBuf,
}

/// One scenario with one system, to be run.
struct Job<'a> {
    system: System,
    scenario: &'a Scenario,
    repeat: u32,
}

/// What the runs have brought.
#[derive(Default)]
struct Outcome {
    measured: Vec<Measured>,
    timelines: Vec<Timeline>,
    faults: Vec<String>,
}

/// Runs everything and writes `report.json` and `report.html`.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let pace = args.pace();
    let scenarios = args.scenarios(pace)?;
    // This thread starts Envoy, and Envoy ends with it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(signal::unless_stopped(async {
        let log = args.output.join("log");
        let calibration = Calibration::run(&log).await?;
        let outcome = run_all(&log, &args.jobs(&scenarios, pace)).await;
        anyhow::Ok(Report::new(pace, args.quick, calibration, outcome))
    }))?;
    report.write(&args.output)?;
    terminal::print(&report);
    println!("\n{0}/report.html and {0}/report.json", args.output.display());
    ensure!(report.faults.is_empty(), "{} runs could not be made", report.faults.len());
    Ok(())
}

/// A run that cannot be made does not take the others along.
async fn run_all(log: &Path, jobs: &[Job<'_>]) -> Outcome {
    let mut outcome = Outcome::default();
    let bar = progress::steps(jobs.len());
    for (i, job) in jobs.iter().enumerate() {
        let Job { system, scenario, repeat } = *job;
        let name = format!("{} {} {}", scenario.name, scenario.label(), system.name());
        bar.set_message(name.clone());
        let mut seen = tally::Tally::default();
        let show = |record: &Record| {
            seen.add(record.outcome);
            if seen.offered.is_multiple_of(500) {
                bar.set_message(format!("{name}: {}", progress::counts(&seen)));
            }
        };
        let folder = log.join(format!("{i:03}"));
        match Trial::run(&folder, system, scenario, u64::from(repeat) + 1, show).await {
            Ok(trial) => {
                if repeat == 0 && scenario.name != "steps" {
                    outcome.timelines.push(Timeline::of(system, scenario, &trial.records));
                }
                outcome.measured.extend(measure(system, scenario, repeat, &trial));
            }
            Err(fault) => {
                bar.suspend(|| eprintln!("{name}: {fault:#}"));
                outcome.faults.push(format!("{name}: {fault:#}"));
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    outcome
}

// === impl Args ===

impl Args {
    fn pace(&self) -> Pace {
        let pace = if self.quick { Pace::QUICK } else { Pace::FULL };
        Pace {
            repeats: self.repeats.unwrap_or(pace.repeats).max(1),
            hold_s: self.hold.unwrap_or(pace.hold_s).max(1.0),
            ..pace
        }
    }

    fn scenarios(&self, pace: Pace) -> anyhow::Result<Vec<Scenario>> {
        let all = scenario::all(pace, self.quick);
        for name in &self.scenarios {
            let known: Vec<&str> = all.iter().map(|scenario| scenario.name).collect();
            ensure!(known.contains(&name.as_str()), "no scenario {name}; there are {}", known.join(" "));
        }
        let is_asked = |name: &str| self.scenarios.is_empty() || self.scenarios.iter().any(|n| n == name);
        Ok(all.into_iter().filter(|scenario| is_asked(scenario.name)).collect())
    }

    /// Systems take turns within a scenario, so that a machine that changes changes for all of them.
    fn jobs<'a>(&self, scenarios: &'a [Scenario], pace: Pace) -> Vec<Job<'a>> {
        let asked = if self.systems.is_empty() { System::value_variants() } else { &self.systems };
        let mut jobs = Vec::new();
        for repeat in 0..pace.repeats {
            for scenario in scenarios {
                let systems = scenario.systems.iter().filter(|system| asked.contains(system));
                jobs.extend(systems.map(|system| Job { system: *system, scenario, repeat }));
            }
        }
        jobs
    }
}
