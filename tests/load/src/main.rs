//! The sample upstream, the load generator and the reports.

mod bench;
mod closed_loop;
mod date;
mod generate;
mod loadtest;
mod machine;
mod page;
mod plot;
mod progress;
mod query;
mod rig;
mod signal;
mod simulation;
mod stats;
mod tally;
mod timer;
mod upstream;
mod validity;

use clap::{Parser, Subcommand};

/// Loads a gateway and reports what became of it.
#[derive(Debug, Parser)]
#[command(name = "sluicegate-load", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve as an upstream with a real concurrency limit.
    Upstream(upstream::Args),
    /// Send an open-loop load and tell what became of it.
    Generate(generate::Args),
    /// Measure goodput under overload, against what Envoy has.
    Loadtest(loadtest::Args),
    /// Drive the laws of overload on a virtual clock.
    Simulate(simulation::Args),
    /// Measure what a decision costs, against plain Envoy and its own filters.
    Bench(bench::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Upstream(args) => upstream::run(args),
        Command::Generate(args) => generate::run(args),
        Command::Loadtest(args) => loadtest::run(args),
        Command::Simulate(args) => simulation::run(args),
        Command::Bench(args) => bench::run(args),
    }
}
