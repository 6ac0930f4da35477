//! `simulate`: the laws of overload on a virtual clock, over the whole grid.

mod report;
mod view;

use std::path::PathBuf;

use sluicegate_simulate::figures::{figures, outcomes};
use sluicegate_simulate::grid;

use crate::progress;
use report::{Report, Row, Timeline};

/// Drives the filter's own decisions through a queueing model and writes tables and plots.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Runs of each cell, with seeds from 1 on.
    #[arg(long, default_value_t = 5)]
    seeds: u64,
    /// Only cells whose group, name or system contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Folder of the reports.
    #[arg(long, default_value = "target/simulate")]
    output: PathBuf,
}

/// Runs the grid and writes `report.json` and `report.html`.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let wanted =
        |cell: &grid::Cell| format!("{} {} {}", cell.group, cell.name, cell.system).contains(&args.only);
    let cells: Vec<grid::Cell> = grid::cells().into_iter().filter(wanted).collect();
    let bar = progress::steps(cells.len());
    let mut report = Report::new(args.seeds);
    for cell in &cells {
        bar.set_message(format!("{} {} {}", cell.system, cell.group, cell.name));
        let outcomes = outcomes(&cell.scenario, args.seeds.max(1));
        for phase in cell.phases.clone() {
            report.rows.push(Row::new(cell, figures(&cell.scenario, &outcomes, phase)));
        }
        if let Some(timeline) = Timeline::of(cell, &outcomes) {
            report.timelines.push(timeline);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    report.print();
    report.write(&args.output)?;
    println!("\n{0}/report.html and {0}/report.json", args.output.display());
    Ok(())
}
