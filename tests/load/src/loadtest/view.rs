//! The report as a page with plots.

use sluicegate_policy::class::Class;

use super::report::Report;
use super::scenario::Scenario;
use super::summary::Summary;
use super::system::System;
use super::terminal::number;
use super::timeline::{Slice, Timeline};
use crate::page::Page;
use crate::plot::{Axis, Line, Plot};

const LOAD: &str = "offered load / capacity";

/// The page.
pub(crate) fn page(report: &Report) -> Page {
    let mut page = Page::new("Sluicegate under overload", &report.made_at, &report.machine);
    if report.quick {
        page.warning("A quick run: it shows that everything works; its figures scatter by several points.");
    }
    for fault in &report.faults {
        page.warning(fault);
    }
    about(&mut page, report);
    page.heading("Over offered load");
    let mut plots = over_load(report);
    plots.extend(by_class(report));
    page.plots(&plots);
    let over_time = over_time(report);
    if !over_time.is_empty() {
        page.heading("Over time");
        page.plots(&over_time);
    }
    page.heading("Figures");
    figures(&mut page, report);
    page
}

fn about(page: &mut Page, report: &Report) {
    let upstream = &report.upstream;
    page.paragraph(&format!(
        "An upstream that works on {} requests at once, {} ms each ({}), can do {:.0} a second; measured: {:.0}. \
         Arrivals are a Poisson process that waits for nobody; latency counts from when a request was due; every \
         caller leaves after 250 ms. Critical 10 %, high 20 %, normal 40 %, low 20 %, sheddable 10 % of the arrivals. \
         {} runs of {} s each, medians; goodput is corrected for the service times really drawn.",
        upstream.servers,
        upstream.service_ms,
        upstream.law,
        upstream.capacity.nominal_rps,
        upstream.capacity.measured_rps,
        report.repeats,
        report.hold_s,
    ));
    let void: usize = report.summary.iter().map(|one| one.runs_void).sum();
    if void > 0 {
        page.warning(&format!("{void} measurements do not count: generator or machine were saturated."));
    }
}

fn over_load(report: &Report) -> Vec<Plot> {
    let plot = |title: &str, y: Axis, figure: &dyn Fn(&Summary) -> Option<f64>| Plot {
        title: title.into(),
        x: Axis::from_zero(LOAD),
        y,
        lines: System::ALL.into_iter().filter_map(|system| steps(report, system, figure)).collect(),
    };
    vec![
        plot("Goodput", Axis::up_to("answers in time / capacity", 1.1), &|one| one.goodput_over_capacity),
        plot("Critical requests answered in time", Axis::up_to("share", 1.1), &|one| one.critical_success),
        plot("p99 of the admitted", Axis::up_to("ms", 300.0), &|one| one.p99_ms),
        plot("Processor time of Envoy", Axis::from_zero("us for each request"), &|one| {
            one.envoy_us_per_request
        }),
    ]
}

fn steps(report: &Report, system: System, figure: &dyn Fn(&Summary) -> Option<f64>) -> Option<Line> {
    let of_system =
        report.summary.iter().filter(|one| one.scenario == "steps" && one.system == system.name());
    let points: Vec<_> = of_system.filter_map(|one| Some((one.load, figure(one)?))).collect();
    (!points.is_empty()).then(|| Line { name: system.title().into(), style: system as usize, points })
}

fn by_class(report: &Report) -> Vec<Plot> {
    let plot = |system: System| {
        let line = |class: Class| {
            let figure = |one: &Summary| one.goodput_by_class.get(class.name()).copied();
            let style = class.index() - 1;
            Some(Line { name: class.name().into(), style, ..steps(report, system, &figure)? })
        };
        let lines: Vec<Line> = Class::SHEDDABLE.into_iter().filter_map(line).collect();
        (!lines.is_empty()).then(|| Plot {
            title: format!("Goodput by class: {}", system.title()),
            x: Axis::from_zero(LOAD),
            y: Axis::up_to("answers in time / capacity", 1.0),
            lines,
        })
    };
    [System::SluicegatePool, System::SluicegateLatency, System::Breaker]
        .into_iter()
        .filter_map(plot)
        .collect()
}

fn over_time(report: &Report) -> Vec<Plot> {
    let plot = |scenario: &str, title: &str, y: &str, figure: &dyn Fn(&Slice) -> Option<f64>| {
        let line = |timeline: &Timeline| Line {
            name: timeline.system.title().into(),
            style: timeline.system as usize,
            points: timeline.slices.iter().filter_map(|slice| Some((slice.at_s, figure(slice)?))).collect(),
        };
        let of_scenario = report.timelines.iter().filter(|timeline| timeline.scenario == scenario);
        let lines: Vec<Line> = of_scenario.map(line).collect();
        (!lines.is_empty()).then(|| Plot {
            title: title.into(),
            x: Axis::from_zero("s"),
            y: Axis::up_to(y, 1.3),
            lines,
        })
    };
    const GOODPUT: &str = "answers in time / capacity";
    const CRITICAL: &str = "share answered in time";
    [
        plot("spike", "A spike to 5x: goodput", GOODPUT, &|slice| Some(slice.goodput)),
        plot("spike", "A spike to 5x: critical", CRITICAL, &|slice| slice.critical),
        plot("capacity_halved", "Capacity halved at 2x: goodput", GOODPUT, &|slice| Some(slice.goodput)),
        plot("capacity_halved", "Capacity halved at 2x: critical", CRITICAL, &|slice| slice.critical),
        plot("retry_storm", "A retry storm at 2x, then 0.8x: goodput", GOODPUT, &|slice| Some(slice.goodput)),
        plot("retry_after", "The same with Retry-After honoured: goodput", GOODPUT, &|slice| {
            Some(slice.goodput)
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn figures(page: &mut Page, report: &Report) {
    const HEAD: [&str; 13] = [
        "scenario",
        "system",
        "goodput %",
        "critical %",
        "critical offered",
        "p50 ms",
        "p99 ms",
        "onset s",
        "recovery s",
        "Jain",
        "false sheds %",
        "wasted %",
        "runs (void)",
    ];
    let percent = |share: Option<f64>| number(share.map(|share| 100.0 * share), 2);
    let rows: Vec<Vec<String>> = report
        .summary
        .iter()
        .map(|one| {
            let critical = one.classes.get(Class::Critical.name()).map_or(0, |tally| tally.offered);
            vec![
                format!("{} {}", one.scenario, one.segment),
                one.system.to_owned(),
                percent(one.goodput_over_capacity),
                percent(one.critical_success),
                critical.to_string(),
                number(one.p50_ms, 1),
                number(one.p99_ms, 1),
                number(one.onset_s, 1),
                number(one.recovery_s, 1),
                number(one.jain, 3),
                percent(one.false_sheds),
                percent(one.wasted),
                format!("{} ({})", one.runs, one.runs_void),
            ]
        })
        .collect();
    page.table(&HEAD, &rows);
}

impl Scenario {
    /// The load of its heaviest part, for people.
    pub(crate) fn label(&self) -> String {
        let heaviest = self.segments.iter().map(|segment| segment.load).fold(0.0, f64::max);
        format!("{heaviest}x")
    }
}
