//! What a decision costs, against plain Envoy and what else it offers: all systems in turn in the same run.

mod bar;
mod echo;
mod memory;
mod noise;
mod ratio;
mod redis;
mod report;
mod round;
mod scale;
mod system;
mod terminal;
mod view;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use crate::rig::envoy;
use crate::{progress, signal};
use report::{Findings, Report};
use round::Bench;
use system::System;

/// Starts Envoy, shim and Redis anew for every system and round, and ends them after it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Two short rounds; for figures, leave it out.
    #[arg(long)]
    quick: bool,
    /// Rounds of all systems.
    #[arg(long)]
    rounds: Option<u32>,
    /// Length of a measurement, seconds.
    #[arg(long)]
    seconds: Option<f64>,
    /// Seed of the order of the systems.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Measure only these: names of systems, `redis`, `curves`.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// Folder of the reports.
    #[arg(long, default_value = "target/bench")]
    output: PathBuf,
}

/// Different keys in the curve; a million is asked for until each was seen.
const KEYS: [u64; 3] = [1, 1_000, 1_000_000];
const KEYS_QUICK: [u64; 3] = [1, 1_000, 50_000];

/// Longest time that the curve over keys spends on one point.
const KEYS_LONGEST: Duration = Duration::from_secs(150);

/// Names that [`Args::only`] knows beside those of systems.
const REDIS: &str = "redis";
const CURVES: &str = "curves";

/// What is measured in each round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    System(System),
    Redis,
}

/// Runs everything and writes `report.json` and `report.html`.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    args.check()?;
    // This thread starts Envoy, and Envoy ends with it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(signal::unless_stopped(measure(&args)))?;
    report.write(&args.output)?;
    terminal::print(&report);
    println!("\n{0}/report.html and {0}/report.json", args.output.display());
    Ok(())
}

async fn measure(args: &Args) -> anyhow::Result<Report> {
    let (rounds, seconds, keys) = match args.quick {
        true => (2, 0.7, KEYS_QUICK),
        false => (5, 2.5, KEYS),
    };
    let rounds = args.rounds.unwrap_or(rounds).max(1);
    let seconds = args.seconds.unwrap_or(seconds).max(0.2);
    let length = Duration::from_secs_f64(seconds);
    let folder = args.output.join("log");
    let bench = Bench { folder: &folder, echo: echo::start()?, length };
    let mut found = Findings { envoy: envoy::version()?, quick: args.quick, seconds, ..Findings::default() };

    let mut parts = args.parts();
    let bar = progress::steps(rounds as usize * parts.len() + if args.wants(CURVES) { 4 } else { 0 });
    let mut random = StdRng::seed_from_u64(args.seed);
    for _ in 0..rounds {
        parts.shuffle(&mut random);
        let mut systems = Vec::new();
        for part in &parts {
            match part {
                Part::System(system) => {
                    bar.set_message(system.name());
                    systems.push(bench.round(*system).await?);
                }
                Part::Redis => {
                    bar.set_message("shim and Redis alone");
                    found.redis.push(redis::round(&folder, length).await?);
                }
            }
            bar.inc(1);
        }
        found.rounds.push(systems);
    }
    if args.wants(CURVES) {
        bar.set_message("batches");
        found.by_batch = redis::by_batch(&folder, length).await?;
        bar.inc(1);
        bar.set_message("memory of the shim");
        found.shim_memory = Some(memory::shim(&folder, 2 * length).await?);
        bar.inc(1);
        bar.set_message("limits");
        found.by_limits = scale::limits(&bench).await?;
        bar.inc(1);
        bar.set_message("keys");
        found.by_keys = scale::keys(&bench, &keys, KEYS_LONGEST).await?;
    }
    bar.finish_and_clear();
    Report::new(found)
}

// === impl Args ===

impl Args {
    /// # Errors
    ///
    /// There is no part of such a name.
    fn check(&self) -> anyhow::Result<()> {
        let names = System::ALL.map(System::name);
        let known = || names.iter().copied().chain([REDIS, CURVES]);
        for name in &self.only {
            if !known().any(|one| one == name) {
                bail!("--only {name}: expected {}", known().collect::<Vec<_>>().join(", "));
            }
        }
        Ok(())
    }

    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|one| one == name)
    }

    fn parts(&self) -> Vec<Part> {
        let systems = System::ALL.into_iter().filter(|system| self.wants(system.name()));
        let redis = self.wants(REDIS).then_some(Part::Redis);
        systems.map(Part::System).chain(redis).collect()
    }
}
