//! The report in a terminal.

use super::report::Report;
use super::summary::Summary;

/// Prints one line for each system, scenario and segment.
pub(crate) fn print(report: &Report) {
    println!(
        "capacity {:.0}/s, measured {:.0}/s; goodput and critical in % (of capacity, of critical offered)\n",
        report.upstream.capacity.nominal_rps, report.upstream.capacity.measured_rps
    );
    println!(
        "{:<20} {:<8} {:<20} {:>7} {:>8} {:>7} {:>7} {:>6} {:>8} {:>5} {:>6}",
        "scenario",
        "segment",
        "system",
        "goodput",
        "critical",
        "p50 ms",
        "p99 ms",
        "onset",
        "recovery",
        "Jain",
        "refused"
    );
    report.summary.iter().for_each(line);
    if report.runs.iter().any(|run| run.validity.void.is_some()) {
        println!("\nruns marked void do not count: generator or machine were saturated themselves");
    }
}

fn line(one: &Summary) {
    let percent = |share: Option<f64>| number(share.map(|share| 100.0 * share), 2);
    let void = match (&one.void, one.runs) {
        (Some(reason), 0) => format!("  VOID: {reason}"),
        (Some(_), _) => format!("  {} void", one.runs_void),
        (None, _) => String::new(),
    };
    println!(
        "{:<20} {:<8} {:<20} {:>7} {:>8} {:>7} {:>7} {:>6} {:>8} {:>5} {:>6}{void}",
        one.scenario,
        one.segment,
        one.system,
        percent(one.goodput_over_capacity),
        percent(one.critical_success),
        number(one.p50_ms, 1),
        number(one.p99_ms, 1),
        number(one.onset_s, 1),
        number(one.recovery_s, 1),
        number(one.jain, 2),
        percent(one.false_sheds),
    );
}

/// A number, or a dash.
pub(crate) fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.digits$}"))
}
