//! What the grid has brought: `report.json` and the table in the terminal.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use sluicegate_simulate::figures::Figures;
use sluicegate_simulate::grid::Cell;
use sluicegate_simulate::outcome::{Moment, Outcome};

use super::view;
use crate::date;

/// Everything.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) made_at: String,
    pub(crate) seeds: u64,
    pub(crate) rows: Vec<Row>,
    pub(crate) timelines: Vec<Timeline>,
}

/// One phase of one cell.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) group: &'static str,
    pub(crate) name: String,
    pub(crate) system: &'static str,
    #[serde(flatten)]
    pub(crate) figures: Figures,
}

/// The first seed of a cell in which something happens, by tenths of a second.
#[derive(Debug, Serialize)]
pub(crate) struct Timeline {
    pub(crate) name: String,
    pub(crate) system: &'static str,
    /// Requests a second that the upstream can finish.
    pub(crate) capacity: f64,
    pub(crate) moments: Vec<Moment>,
}

impl Report {
    pub(crate) fn new(seeds: u64) -> Report {
        Report { made_at: date::now(), seeds, rows: Vec::new(), timelines: Vec::new() }
    }

    /// Writes `report.json` and `report.html` to `folder`.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub(crate) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        fs::write(folder.join("report.json"), serde_json::to_string(self)?)?;
        fs::write(folder.join("report.html"), view::page(self).html())?;
        Ok(())
    }

    pub(crate) fn print(&self) {
        println!("means over {} seeds; shares in %, times in ms and s", self.seeds);
        let mut group = "";
        for row in &self.rows {
            if row.group != group {
                group = row.group;
                println!("\n{group}");
            }
            let cells: Vec<String> = view::cells(row);
            let [name, system, rest @ ..] = cells.as_slice() else { continue };
            print!("  {name:<34} {system:<21}");
            rest.iter().for_each(|cell| print!(" {cell:>8}"));
            println!();
        }
        println!("\ncolumns: {}", view::HEAD.join(", "));
    }
}

impl Row {
    pub(crate) fn new(cell: &Cell, figures: Figures) -> Row {
        let name = match cell.phases.len() {
            1 => cell.name.clone(),
            _ => format!("{}: {}x", cell.name, figures.load),
        };
        Row { group: cell.group, name, system: cell.system, figures }
    }
}

impl Timeline {
    /// `None` where nothing happens but a step.
    pub(crate) fn of(cell: &Cell, outcomes: &[Outcome]) -> Option<Timeline> {
        let outcome = outcomes.first().filter(|_| ["change", "clients"].contains(&cell.group))?;
        Some(Timeline {
            name: cell.name.clone(),
            system: cell.system,
            capacity: outcome.capacity,
            moments: outcome.timeline.clone(),
        })
    }
}
