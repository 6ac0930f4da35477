//! The report in a terminal.

use super::bar::Wanted;
use super::report::Report;
use super::system::System;
use crate::plot::number;

/// Prints ratios and a line for each system.
pub(crate) fn print(report: &Report) {
    for warning in report.warnings() {
        println!("WARNING: {warning}");
    }
    println!(
        "\n{:<18} {:>9} {:>9} {:>9}  {:>9} {:>9}  {:>6} {:>6} {:>6}",
        "system", "1 conn/s", "32 conn/s", "256 conn/s", "+p50 us", "+p99 us", "Envoy", "shim", "Redis"
    );
    for system in System::ALL {
        let name = system.name();
        let rps: Vec<String> =
            report.rps.get(name).into_iter().flatten().map(|rate| format!("{rate:>9.0}")).collect();
        let added = report.latency_us.get(name);
        let cost = report.cpu_us.get(name);
        println!(
            "{name:<18} {}  {:>9} {:>9}  {:>6} {:>6} {:>6}",
            rps.join(" "),
            one(added.map(|added| added.p50)),
            one(added.map(|added| added.p99)),
            one(cost.map(|cost| cost.envoy)),
            one(cost.map(|cost| cost.shim)),
            one(cost.map(|cost| cost.redis)),
        );
    }
    println!("(the last three: microseconds of processor time for each request with 32 connections)\n");
    for (name, ratio) in &report.ratios {
        println!("{name:<32} {ratio:.3}");
    }
    if let Some(redis) = report.redis {
        println!(
            "\nRedis: round trip {:.0} us, pipelined {:.0}/s, through the shim in batches of 32 {:.0} decisions/s",
            redis.roundtrip_us, redis.pipelined_per_s, redis.batched_per_s
        );
    }
    if let Some(memory) = report.shim_memory {
        let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
        println!(
            "shim: {:.1} MiB idle, {:.1} MiB at {:.0} decisions/s",
            mib(memory.idle_bytes),
            mib(memory.busy_bytes),
            memory.decisions_per_s
        );
    }
    if let Some(ms) = report.vm_start_ms {
        println!("the filter adds {ms:.0} ms to the start of Envoy");
    }
    println!();
    for bar in &report.bars {
        let (side, bound) = match bar.wanted {
            Wanted::AtLeast(bound) => ("at least", bound),
            Wanted::AtMost(bound) => ("at most", bound),
        };
        let met = if bar.met { "met" } else { "MISSED" };
        println!("{met:<7} {:<32} {} ({side} {})", bar.measure, number(bar.is), number(bound));
    }
}

fn one(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.1}"))
}
