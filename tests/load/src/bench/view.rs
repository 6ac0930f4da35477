//! The report as a page with plots.

use super::bar::{Bar, Wanted};
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
    page.heading("Promises");
    page.table(&["measure", "", "here", "wanted"], &report.bars.iter().map(promise).collect::<Vec<_>>());
    page.heading("Ratios");
    let ratios = report
        .ratios
        .iter()
        .map(|(name, ratio)| vec![(*name).to_owned(), String::new(), format!("{ratio:.3}")]);
    page.table(&["ratio", "", "median"], &ratios.collect::<Vec<_>>());
    page.heading("Systems");
    page.table(&HEAD, &System::ALL.into_iter().map(|system| row(report, system)).collect::<Vec<_>>());
    page.heading("Start and memory");
    page.paragraph(&start_and_memory(report));
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

fn start_and_memory(report: &Report) -> String {
    let mut text = String::new();
    if let Some(ms) = report.vm_start_ms {
        text += &format!("The filter adds {ms:.0} ms to the start of Envoy. ");
    }
    if let Some(memory) = report.shim_memory {
        let mib = |bytes: u64| number(bytes as f64 / 1_048_576.0);
        text += &format!(
            "The shim takes {} MiB when idle, {} MiB after some seconds of {:.0} decisions/s, for which it uses \
             {:.0} % of a core.",
            mib(memory.idle_bytes),
            mib(memory.busy_bytes),
            memory.decisions_per_s,
            100.0 * memory.core,
        );
    }
    text
}

fn promise(bar: &Bar) -> Vec<String> {
    let wanted = match bar.wanted {
        Wanted::AtLeast(bound) => format!("at least {}", number(bound)),
        Wanted::AtMost(bound) => format!("at most {}", number(bound)),
    };
    let met = if bar.met { "met" } else { "MISSED" };
    vec![bar.measure.into(), met.into(), number(bar.is), wanted]
}

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
        report.by_batch.iter().map(|one| (one.takes as f64, figure(one))).collect()
    };
    let pipelined = report.redis.map_or(0.0, |redis| redis.pipelined_per_s);
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
            curves(&report.by_keys, |one| one.grown_bytes() / 1_048_576.0),
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
                line(&format!("redis-benchmark -P 16: {}", number(pipelined)), 5, batches(&|_| pipelined)),
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
