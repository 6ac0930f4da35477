//! What a decision costs, against plain Envoy and what else it offers: all systems in turn in the same run.

mod echo;
mod noise;
mod ratio;
mod redis;
mod report;
mod round;
mod scale;
mod system;
mod terminal;
mod view;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use crate::rig::config::Backend;
use crate::{progress, signal};
use report::{Findings, Report};
use round::{Bench, Round};
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
    /// Folder of the reports.
    #[arg(long, default_value = "target/bench")]
    output: PathBuf,
}

/// Different keys in the curve; a million is asked for until each was seen.
const KEYS: [u64; 3] = [1, 1_000, 1_000_000];
const KEYS_QUICK: [u64; 3] = [1, 1_000, 50_000];

/// Longest time that the curve over keys spends on one point.
const KEYS_LONGEST: Duration = Duration::from_secs(150);

/// Runs everything and writes `report.json` and `report.html`.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
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
    let bar = progress::steps(rounds as usize * System::ALL.len() + 3);
    let envoy = version(&bench).await?;
    let rounds = all_rounds(&bench, rounds, args.seed, &bar).await?;
    bar.set_message("shim and Redis alone");
    let redis = redis::measure(Path::new(&folder), length).await?;
    bar.inc(1);
    bar.set_message("keys");
    let by_keys = scale::keys(&bench, &keys, KEYS_LONGEST).await?;
    bar.inc(1);
    bar.set_message("limits");
    let by_limits = scale::limits(&bench).await?;
    bar.finish_and_clear();
    Report::new(Findings { envoy, quick: args.quick, seconds, rounds, redis, by_keys, by_limits })
}

async fn all_rounds(
    bench: &Bench<'_>,
    rounds: u32,
    seed: u64,
    bar: &indicatif::ProgressBar,
) -> anyhow::Result<Vec<Vec<Round>>> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut all = Vec::new();
    for _ in 0..rounds {
        let mut order = System::ALL;
        order.shuffle(&mut random);
        let mut round = Vec::new();
        for system in order {
            bar.set_message(system.name());
            round.push(bench.round(system).await?);
            bar.inc(1);
        }
        all.push(round);
    }
    Ok(all)
}

async fn version(bench: &Bench<'_>) -> anyhow::Result<String> {
    bench.start(Vec::new(), Backend::Direct, Vec::new(), None).await?.version().await
}
