//! The open-loop load generator: arrivals do not wait for answers, and latency counts from when a request was due.

pub(crate) mod client;
pub(crate) mod drive;
pub(crate) mod mix;
pub(crate) mod plan;
pub(crate) mod record;
pub(crate) mod transport;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use anyhow::{Context, ensure};
use hyper::Uri;
use serde_json::{Value, json};
use sluicegate_policy::class::Class;

use crate::machine::CoreTimes;
use crate::progress;
use crate::tally::{self, Tallies};
use crate::validity::Validity;
use drive::Drive;
use mix::Mix;
use plan::{Patience, Phase, Plan, Retries, Tenants};
use transport::Transport;

/// Poisson arrivals at a fixed rate, whatever becomes of the answers.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The gateway; only scheme, host and port are used.
    #[arg(long, default_value = "http://127.0.0.1:10000")]
    url: Uri,
    /// Mean arrivals a second.
    #[arg(long, default_value_t = 600.0)]
    rate: f64,
    /// Length, seconds.
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    /// `default`, or `class=path:share[:deadline_ms],...`
    #[arg(long, default_value = "default")]
    mix: Mix,
    /// What a client does at its deadline.
    #[arg(long, value_enum, default_value_t = Patience::GiveUp)]
    patience: Patience,
    /// Attempts after a failed or refused one.
    #[arg(long, default_value_t = 0)]
    retries: u32,
    /// Pause before a retry, milliseconds.
    #[arg(long, default_value_t = 50)]
    backoff_ms: u64,
    /// Wait as long as Retry-After says.
    #[arg(long)]
    honour_retry_after: bool,
    /// HTTP/2 instead of HTTP/1.1.
    #[arg(long)]
    http2: bool,
    /// Connections; HTTP/1.1 opens more when all are busy.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Clients with an x-api-key of their own; 0 sends none.
    #[arg(long, default_value_t = 0)]
    tenants: u16,
    /// Share of the load that comes from the first of them, 0 to 1.
    #[arg(long, default_value_t = 0.0)]
    elephant: f64,
    /// Seed of the arrivals.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the result to this file as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Runs the load and prints what became of it.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    ensure!(args.rate > 0.0 && args.seconds > 0.0, "rate and seconds are above zero");
    let address = address(&args.url)?;
    let plan = plan(&args);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(measure(address, plan))?;
    print_summary(&report);
    if let Some(path) = &args.json {
        std::fs::write(path, format!("{report:#}\n")).with_context(|| format!("{}", path.display()))?;
    }
    Ok(())
}

fn plan(args: &Args) -> Plan {
    let connections = args.connections.max(1);
    Plan {
        phases: vec![Phase { rate: args.rate, us: (args.seconds * 1e6) as u64 }],
        mix: args.mix.clone(),
        patience: args.patience,
        retries: Retries {
            max: args.retries,
            backoff_ms: args.backoff_ms,
            honour_retry_after: args.honour_retry_after,
        },
        transport: match args.http2 {
            true => Transport::Http2 { connections },
            false => Transport::Http1 { connections },
        },
        tenants: Tenants { count: args.tenants, elephant: args.elephant },
        seed: args.seed,
    }
}

async fn measure(address: SocketAddr, plan: Plan) -> anyhow::Result<Value> {
    let seconds = plan.us() as f64 / 1e6;
    let bar = progress::seconds(plan.us());
    let drive = Drive::prepare(address, plan).await?;
    let before = CoreTimes::read();
    let mut tallies = tally::tallies([]);
    let records = drive
        .run(|record| {
            tallies.entry(record.class.name().to_owned()).or_default().add(record.outcome);
            let total = tally::total(&tallies);
            progress::show(&bar, record.done_us, &total);
        })
        .await;
    bar.finish_and_clear();
    let validity = Validity::judge(&records, &before);
    Ok(json!({
        "seconds": seconds,
        "offered_per_s": records.len() as f64 / seconds,
        "goodput_per_s": tally::total(&tallies).ok as f64 / seconds,
        "classes": tallies,
        "latency": tally::latency(&records),
        "validity": validity,
    }))
}

fn print_summary(report: &Value) {
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN);
    let classes = report.get("classes").cloned().unwrap_or_default();
    let classes: Tallies = serde_json::from_value(classes).unwrap_or_default();
    println!("class      offered  answered  429 quota  503 saturation  failed  too late  success");
    for class in Class::SHEDDABLE {
        let Some(t) = classes.get(class.name()).filter(|t| t.offered > 0) else { continue };
        println!(
            "{:<9} {:>8}  {:>8}  {:>9}  {:>14}  {:>6}  {:>8}  {:>6.2} %",
            class.name(),
            t.offered,
            t.ok,
            t.quota_rejected,
            t.saturation_rejected,
            t.failed,
            t.deadline_missed,
            100.0 * t.success()
        );
    }
    println!(
        "offered {:.0}/s, answered in time {:.0}/s; admitted: p50 {:.1} ms, p99 {:.1} ms",
        number("/offered_per_s"),
        number("/goodput_per_s"),
        number("/latency/p50_ms"),
        number("/latency/p99_ms")
    );
    if let Some(reason) = report.pointer("/validity/void").and_then(Value::as_str) {
        println!("VOID: {reason}; these figures say nothing about the gateway");
    }
}

/// The address that a URL names.
fn address(url: &Uri) -> anyhow::Result<SocketAddr> {
    ensure!(url.scheme_str().is_none_or(|scheme| scheme == "http"), "{url} is not an http URL");
    let host = url.host().with_context(|| format!("{url} names no host"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut found = (host, url.port_u16().unwrap_or(80)).to_socket_addrs()?;
    found.next().with_context(|| format!("{host} has no address"))
}
