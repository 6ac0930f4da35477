//! The sample upstream, the load generator and the reports.
#![allow(dead_code, reason = "the load test, which lands next, uses the rest")]

mod generate;
mod machine;
mod progress;
mod query;
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
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Upstream(args) => upstream::run(args),
        Command::Generate(args) => generate::run(args),
    }
}
