//! The shim and Redis without Envoy: decisions a second, against the same script called by `redis-benchmark`.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Serialize;
use sluicegate_policy::wire::{Ask, Batch, TAKE_PATH, Take, VERSION, WireAlgorithm, WireLimit};
use sluicegate_shim::script::{Layout, Plan, TAKE};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::closed_loop::{self, KEY, Load};
use crate::rig::artifact;
use crate::rig::shim::Shim;
use crate::stats::median;

/// Takes in one batch, in the curve.
const BATCHES: [usize; 5] = [1, 8, 32, 128, 256];

/// The batch whose rate is compared.
const BATCH: usize = 32;

/// Most connections to the shim: as many batches are under way.
const CONNECTIONS: usize = 16;

/// Takes under way, if more than two batches. More would wait longer than a filter does.
const TAKES_UNDER_WAY: usize = 512;

/// Different keys.
const KEYS: u64 = 10_000;

/// A key of the usual length, of which `redis-benchmark` replaces the beginning by a random number.
const RANDOM: &str = "__rand_int__-AAAAAAAAA";

/// Redis and shim by themselves, once.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct RedisRound {
    /// `redis-benchmark -c 1`, the script for one take: median round trip, microseconds.
    pub(crate) roundtrip_us: f64,
    /// `redis-benchmark -P 16`, the script for one take: calls a second.
    pub(crate) pipelined_per_s: f64,
    /// Decisions a second through the shim, in batches of 32.
    pub(crate) batched_per_s: f64,
}

/// Batches of one size.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct ByBatch {
    pub(crate) takes: usize,
    pub(crate) decisions_per_s: f64,
    /// Processor time for each decision, microseconds.
    pub(crate) shim_us: f64,
    pub(crate) redis_us: f64,
}

// === impl RedisRound ===

impl RedisRound {
    /// The medians of some rounds.
    pub(crate) fn typical(rounds: &[RedisRound]) -> Option<RedisRound> {
        let of = |figure: fn(&RedisRound) -> f64| median(&rounds.iter().map(figure).collect::<Vec<_>>());
        Some(RedisRound {
            roundtrip_us: of(|one| one.roundtrip_us)?,
            pipelined_per_s: of(|one| one.pipelined_per_s)?,
            batched_per_s: of(|one| one.batched_per_s)?,
        })
    }
}

/// One round: the shim in batches, and the bare script.
///
/// # Errors
///
/// Something could not be started, or did not answer as expected.
pub(crate) async fn round(folder: &Path, length: Duration) -> anyhow::Result<RedisRound> {
    let shim = Shim::start(folder).await?;
    let batched = batched(&shim, BATCH, length).await?;
    let port = shim.redis().port().to_string();
    let call = OneTake::load(&port).await?;
    // Long enough to be out of the start, short enough for a benchmark of minutes.
    let calls = |per_s: f64| ((per_s * length.as_secs_f64()) as u64).to_string();
    let one = call.repeat(&["-c", "1", "-n", &calls(15_000.0)]).await?;
    let many = call.repeat(&["-c", "50", "-P", "16", "-n", &calls(120_000.0)]).await?;
    Ok(RedisRound {
        roundtrip_us: one.p50_ms * 1_000.0,
        pipelined_per_s: many.per_second,
        batched_per_s: batched.decisions_per_s,
    })
}

/// The shim over the size of a batch.
///
/// # Errors
///
/// As above.
pub(crate) async fn by_batch(folder: &Path, length: Duration) -> anyhow::Result<Vec<ByBatch>> {
    let shim = Shim::start(folder).await?;
    let mut curve = Vec::new();
    for takes in BATCHES {
        curve.push(batched(&shim, takes, length).await?);
    }
    Ok(curve)
}

async fn batched(shim: &Shim, takes: usize, length: Duration) -> anyhow::Result<ByBatch> {
    let load = load(shim.address(), takes)?;
    closed_loop::run(&load, Duration::from_millis(200)).await?;
    let (shim_before, redis_before) = (shim.usage().cpu_ns, shim.redis().usage().cpu_ns);
    let answers = closed_loop::run(&load, length).await?;
    ensure!(
        answers.other == 0,
        "the shim refused {} of {} batches of {takes}: {}",
        answers.other,
        answers.total(),
        answers.oddity.unwrap_or_default()
    );
    let decisions = (answers.total() * takes as u64).max(1) as f64;
    let us = |before: u64, after: u64| after.saturating_sub(before) as f64 / 1_000.0 / decisions;
    Ok(ByBatch {
        takes,
        decisions_per_s: decisions / answers.seconds,
        shim_us: us(shim_before, shim.usage().cpu_ns),
        redis_us: us(redis_before, shim.redis().usage().cpu_ns),
    })
}

/// Batches of so many takes, all with keys of their own: the counter and their place in the batch.
pub(crate) fn load(shim: SocketAddr, takes: usize) -> anyhow::Result<Load> {
    let keys = (0..takes).map(|i| format!("{KEY}-{i:03}-AAAAAAAAA"));
    let body = serde_json::to_string(&batch(keys))?;
    let connections = (TAKES_UNDER_WAY / takes).clamp(2, CONNECTIONS);
    Ok(Load::new(shim, connections, closed_loop::post(TAKE_PATH, &body), KEYS / takes as u64))
}

fn batch(keys: impl Iterator<Item = String>) -> Batch {
    let bucket = WireAlgorithm::TokenBucket { burst: 1_000_000_000, tokens: 1, period_us: 1 };
    let take = |key: String| Take { asks: vec![Ask(0, key.into(), 1, 1)], slot: None };
    Batch {
        version: VERSION,
        namespace: "bench".into(),
        limits: vec![WireLimit("shared".into(), bucket)],
        takes: keys.map(take).collect(),
        charges: Vec::new(),
        releases: Vec::new(),
    }
}

/// The script as `redis-benchmark` can call it, for one take with a random key.
///
/// It fills in random numbers up to the first zero byte only, and the argument of the script has some: here they
/// are part of the script.
struct OneTake<'a> {
    port: &'a str,
    hash: String,
    key: String,
}

/// What `redis-benchmark` has found.
struct Found {
    per_second: f64,
    p50_ms: f64,
}

/// Where the script reads its argument.
const ARGUMENT: &str = "cmsgpack.unpack(ARGV[1])";

// === impl OneTake ===

impl OneTake<'_> {
    async fn load(port: &str) -> anyhow::Result<OneTake<'_>> {
        let batch = batch(std::iter::once(RANDOM.to_owned()));
        let plan =
            Plan::new("sluicegate", &batch, Layout::Single).map_err(|fault| anyhow::anyhow!("{fault:?}"))?;
        let call = plan.calls().first().context("a batch of one take is one call")?;
        let key = call.keys().first().context("a call has a key")?.clone();
        let argument: String = call.argument().iter().map(|byte| format!("\\{byte:03}")).collect();
        let script = TAKE.replace(ARGUMENT, &format!("cmsgpack.unpack('{argument}')"));
        ensure!(script != TAKE, "the script does not read its argument by {ARGUMENT}");

        let mut command = Command::new(artifact::program("redis-cli")?);
        command.args(["-p", port, "-x", "SCRIPT", "LOAD"]);
        let output = feed(command, script.as_bytes()).await?;
        let hash = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        ensure!(hash.len() == 40, "redis-cli did not load the script: {hash}");
        Ok(OneTake { port, hash, key })
    }

    async fn repeat(&self, options: &[&str]) -> anyhow::Result<Found> {
        let mut command = Command::new(artifact::program("redis-benchmark")?);
        command.args(["-p", self.port, "--csv", "-r", &KEYS.to_string()]).args(options);
        command.args(["EVALSHA", &self.hash, "1", &self.key]);
        let output = feed(command, b"").await?;
        parse(&String::from_utf8_lossy(&output.stdout))
            .with_context(|| format!("redis-benchmark: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// The last line of the CSV: name, requests a second, then latencies: mean, least, p50, p95, p99, most.
fn parse(csv: &str) -> Option<Found> {
    let line = csv.lines().rfind(|line| !line.is_empty() && !line.starts_with("\"test\""))?;
    // The name is the command, which may hold commas: count from the end.
    let numbers: Vec<f64> =
        line.rsplit(',').map_while(|n| n.trim_matches('"').parse().ok()).take(7).collect();
    Some(Found { per_second: *numbers.get(6)?, p50_ms: *numbers.get(3)? })
}

async fn feed(mut command: Command, input: &[u8]) -> anyhow::Result<Output> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let mut stdin = child.stdin.take().context("the child has no input")?;
    stdin.write_all(input).await?;
    drop(stdin);
    let output = child.wait_with_output().await?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_csv_of_redis_benchmark_is_understood() {
        let csv = "\"test\",\"rps\",\"avg\",\"min\",\"p50\",\"p95\",\"p99\",\"max\"\n\
                   \"EVALSHA a, b 1 k\",\"123456.78\",\"0.5\",\"0.1\",\"0.4\",\"0.9\",\"1.2\",\"3\"\n";
        let found = parse(csv).unwrap();
        assert_eq!((found.per_second, found.p50_ms), (123_456.78, 0.4));
        assert!(parse("nothing").is_none());
    }
}
