//! The report as a page with plots.

use super::report::Report;
use super::scale::Scaled;
use super::system::System;
use crate::page::Page;
use crate::plot::{Axis, Line, Plot, number};

/// The page.
pub(crate) fn page(report: &Report) -> Page {
    let mut page = Page::new("What a decision costs", &report.made_at, &report.machine);
    for warning in report.warnings() {
        page.warning(&warning);
    }
    page.paragraph(&format!(
        "Envoy {} with one worker; client, upstream, shim and Redis share the machine with it. {} rounds, the order \
         of the systems drawn anew in each; figures are medians over rounds, ratios are made within a round. Client: \
         {}; {} s for each measurement. The filter is {} KiB.",
        report.envoy,
        report.rounds.len(),
        report.client,
        report.seconds,
        report.wasm_bytes / 1_024,
    ));
    page.heading("Ratios");
    let ratios = report.ratios.iter().map(|(name, ratio)| vec![(*name).to_owned(), format!("{ratio:.3}")]);
    page.table(&["ratio", "median"], &ratios.collect::<Vec<_>>());
    page.heading("Systems");
    page.table(&HEAD, &System::ALL.into_iter().map(|system| row(report, system)).collect::<Vec<_>>());
    page.heading("How cost grows");
    page.plots(&plots(report));
    page
}

const HEAD: [&str; 11] = [
    "system",
    "",
    "1 conn, /s",
    "32 conn, /s",
    "256 conn, /s",
    "added p50 us",
    "added p99 us",
    "Envoy us",
    "shim us",
    "Redis us",
    "start ms",
];

fn row(report: &Report, system: System) -> Vec<String> {
    let name = system.name();
    let mut row = vec![name.to_owned(), String::new()];
    row.extend(report.rps.get(name).into_iter().flatten().map(|rate| format!("{rate:.0}")));
    row.resize(5, "-".into());
    let added = report.latency_us.get(name);
    let cost = report.cpu_us.get(name);
    let figures = [
        added.map(|added| added.p50),
        added.map(|added| added.p99),
        cost.map(|cost| cost.envoy),
        cost.map(|cost| cost.shim),
        cost.map(|cost| cost.redis),
        report.start_ms.get(name).copied(),
    ];
    row.extend(figures.map(|figure| figure.map_or_else(|| "-".into(), |figure| format!("{figure:.1}"))));
    row
}

fn plots(report: &Report) -> Vec<Plot> {
    let line = |name: &str, style, points| Line { name: name.into(), style, points };
    let batches = |figure: &dyn Fn(&super::redis::ByBatch) -> f64| {
        report.redis.by_batch.iter().map(|one| (one.takes as f64, figure(one))).collect()
    };
    let shown =
        [System::Plain, System::Noop, System::LocalRatelimit, System::Local, System::Leased, System::Shared];
    let over_connections = |(style, system): (usize, System)| {
        let rates = report.rps.get(system.name()).into_iter().flatten();
        let points = report.connections.iter().map(|n| *n as f64).zip(rates.copied()).collect();
        line(system.name(), style, points)
    };
    let plot = |title: &str, x: &str, y: &str, lines| Plot {
        title: title.into(),
        x: Axis::log(x),
        y: Axis::from_zero(y),
        lines,
    };
    vec![
        plot(
            "Throughput over connections",
            "connections",
            "requests/s",
            shown.into_iter().enumerate().map(over_connections).collect(),
        ),
        plot("Throughput over keys", "keys", "requests/s", curves(&report.by_keys, |one| one.point.rps)),
        plot(
            "Memory that keys add to Envoy",
            "keys",
            "MiB",
            curves(&report.by_keys, |one| grown(one) / 1_048_576.0),
        ),
        plot(
            "Processor time of Envoy over configured limits",
            "limits",
            "us for each request",
            curves(&report.by_limits, |one| one.point.envoy_us),
        ),
        plot(
            "Decisions of shim and Redis over the size of a batch",
            "takes in a batch",
            "decisions/s",
            vec![
                line("through the shim", 0, batches(&|one| one.decisions_per_s)),
                line(
                    &format!("redis-benchmark -P 16: {}", number(report.redis.pipelined_per_s)),
                    5,
                    batches(&|_| report.redis.pipelined_per_s),
                ),
            ],
        ),
        plot(
            "Processor time over the size of a batch",
            "takes in a batch",
            "us for each decision",
            vec![
                line("shim", 0, batches(&|one| one.shim_us)),
                line("Redis", 1, batches(&|one| one.redis_us)),
            ],
        ),
    ]
}

fn grown(one: &Scaled) -> f64 {
    one.point.envoy_rss.saturating_sub(one.envoy_rss_before) as f64
}

fn curves(scaled: &[Scaled], figure: impl Fn(&Scaled) -> f64) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for one in scaled {
        let point = (one.n as f64, figure(one));
        match lines.iter_mut().find(|line| line.name == one.system) {
            Some(line) => line.points.push(point),
            None => lines.push(Line { name: one.system.into(), style: lines.len(), points: vec![point] }),
        }
    }
    lines
}
