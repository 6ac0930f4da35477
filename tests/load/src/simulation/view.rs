//! The grid as a page with plots.

use sluicegate_simulate::outcome::Moment;

use super::report::{Report, Row, Timeline};
use crate::machine::Machine;
use crate::page::Page;
use crate::plot::{Axis, Line, Plot};

pub(crate) const HEAD: [&str; 14] = [
    "cell",
    "system",
    "goodput",
    "worst",
    "critical",
    "critical offered",
    "p50",
    "p99",
    "refused",
    "refused normal and above",
    "onset",
    "recovery",
    "Jain",
    "wasted",
];

/// Systems in the order of their colours.
const SYSTEMS: [&str; 6] = ["pool", "latency", "breaker", "adaptive_concurrency", "threshold", "none"];

const LOAD: &str = "offered load / capacity";

/// A row of the table.
pub(crate) fn cells(row: &Row) -> Vec<String> {
    let figures = &row.figures;
    let percent = |share: f64| format!("{:.2}", 100.0 * share);
    let one = |value: f64| format!("{value:.1}");
    vec![
        row.name.clone(),
        row.system.to_owned(),
        percent(figures.goodput),
        percent(figures.goodput_least),
        percent(figures.success[0]),
        figures.offered[0].to_string(),
        one(figures.p50_ms),
        one(figures.p99_ms),
        percent(figures.refused),
        percent(figures.refused_upper),
        figures.onset_s.map_or_else(|| "-".into(), |s| format!("{s:.2}")),
        format!("{:.2}", figures.recovery_s),
        format!("{:.3}", figures.jain),
        percent(figures.wasted),
    ]
}

/// The page.
pub(crate) fn page(report: &Report) -> Page {
    let mut page = Page::new("Sluicegate in simulation", &report.made_at, &Machine::read());
    page.paragraph(&format!(
        "The filter's own decisions, driven through a queueing model of clients, Envoy's connection pools and a service \
         of 16 servers, 20 ms each, unless a line says otherwise. Critical 10 %, high 20 %, normal 40 %, low 20 %, \
         sheddable 10 % of the arrivals; every caller leaves after 250 ms. Means over {} seeds. In the model a refusal \
         costs nothing and connections never close; the load test is what counts.",
        report.seeds
    ));
    page.heading("Over offered load");
    page.plots(&over_load(report));
    let over_time = over_time(report);
    if !over_time.is_empty() {
        page.heading("Over time");
        page.plots(&over_time);
    }
    let mut group = "";
    for row in &report.rows {
        if row.group != group {
            group = row.group;
            page.heading(group);
            let rows = report.rows.iter().filter(|row| row.group == group);
            page.table(&HEAD, &rows.map(cells).collect::<Vec<_>>());
        }
    }
    page
}

fn over_load(report: &Report) -> Vec<Plot> {
    let plot = |title: &str, y: Axis, figure: &dyn Fn(&Row) -> f64| {
        let line = |(style, system): (usize, &&'static str)| {
            let rows = report.rows.iter().filter(|row| row.group == "load" && row.system == *system);
            let points: Vec<_> = rows.map(|row| (row.figures.load, figure(row))).collect();
            (!points.is_empty()).then(|| Line { name: (*system).into(), style, points })
        };
        Plot {
            title: title.into(),
            x: Axis::from_zero(LOAD),
            y,
            lines: SYSTEMS.iter().enumerate().filter_map(line).collect(),
        }
    };
    vec![
        plot("Goodput", Axis::up_to("answers in time / capacity", 1.1), &|row| row.figures.goodput),
        plot("Critical requests answered in time", Axis::up_to("share", 1.1), &|row| row.figures.success[0]),
        plot("p99 of the answered", Axis::up_to("ms", 300.0), &|row| row.figures.p99_ms),
        plot("Refused of normal and above", Axis::up_to("share", 1.0), &|row| row.figures.refused_upper),
    ]
}

fn over_time(report: &Report) -> Vec<Plot> {
    let mut names: Vec<&str> = Vec::new();
    for timeline in &report.timelines {
        if !names.contains(&timeline.name.as_str()) {
            names.push(&timeline.name);
        }
    }
    let plot = |name: &&str, what: &str, y: Axis, figure: &dyn Fn(&Timeline, &Moment) -> f64| {
        let line = |(style, system): (usize, &&'static str)| {
            let timeline = report.timelines.iter().find(|one| one.name == **name && one.system == *system)?;
            let points = timeline.moments.iter().enumerate();
            let points = points.map(|(i, moment)| (i as f64 / 10.0, figure(timeline, moment))).collect();
            Some(Line { name: (*system).into(), style, points })
        };
        Plot {
            title: format!("{name}: {what}"),
            x: Axis::from_zero("s"),
            y,
            lines: SYSTEMS.iter().take(2).enumerate().filter_map(line).collect(),
        }
    };
    names
        .iter()
        .flat_map(|name| {
            [
                plot(name, "goodput", Axis::up_to("answers in time / capacity", 1.3), &|timeline, moment| {
                    f64::from(moment.ok) * 10.0 / timeline.capacity
                }),
                plot(name, "requests in flight", Axis::from_zero("requests"), &|_, moment| {
                    f64::from(moment.in_flight)
                }),
            ]
        })
        .collect()
}
