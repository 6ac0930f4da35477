//! The sample upstream, the load generator and the reports.

mod query;
mod timer;
mod upstream;

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
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Upstream(args) => upstream::run(args),
    }
}
