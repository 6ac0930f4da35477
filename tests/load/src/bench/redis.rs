//! The shim and Redis without Envoy: decisions a second, against the same script called by `redis-benchmark`.

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

/// Takes in one batch, in the curve.
const BATCHES: [usize; 5] = [1, 8, 32, 128, 256];

/// The batch whose rate is compared.
const BATCH: usize = 32;

/// Connections to the shim: as many batches are under way.
const CONNECTIONS: usize = 16;

/// Different keys.
const KEYS: u64 = 10_000;

/// What `redis-benchmark` replaces by a random number.
const RANDOM: &str = "__rand_int__";

/// Redis and shim by themselves.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RedisFigures {
    /// `redis-benchmark -c 1`, the script for one take: median round trip, microseconds.
    pub(crate) roundtrip_us: f64,
    /// `redis-benchmark -P 16`, the script for one take: calls a second.
    pub(crate) pipelined_per_s: f64,
    /// Decisions a second through the shim, in batches of 32.
    pub(crate) batched_per_s: f64,
    /// The same by size of the batch.
    pub(crate) by_batch: Vec<ByBatch>,
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

/// Measures all of it on one shim and one Redis.
///
/// # Errors
///
/// Something could not be started, or did not answer as expected.
pub(crate) async fn measure(folder: &Path, length: Duration) -> anyhow::Result<RedisFigures> {
    let shim = Shim::start(folder).await?;
    let mut by_batch = Vec::new();
    for takes in BATCHES {
        by_batch.push(batched(&shim, takes, length).await?);
    }
    let port = shim.redis().port().to_string();
    let hash = load_script(&port).await?;
    // Long enough to be out of the start, short enough for a benchmark of minutes.
    let calls = |per_s: f64| ((per_s * length.as_secs_f64()) as u64).to_string();
    let one = script(&port, &hash, &["-c", "1", "-n", &calls(15_000.0)]).await?;
    let many = script(&port, &hash, &["-c", "50", "-P", "16", "-n", &calls(120_000.0)]).await?;
    Ok(RedisFigures {
        roundtrip_us: one.p50_ms * 1_000.0,
        pipelined_per_s: many.per_second,
        batched_per_s: by_batch.iter().find(|one| one.takes == BATCH).map_or(0.0, |one| one.decisions_per_s),
        by_batch,
    })
}

async fn batched(shim: &Shim, takes: usize, length: Duration) -> anyhow::Result<ByBatch> {
    // All takes of a batch have keys of their own: the counter and their place in it.
    let keys = (0..takes).map(|i| format!("{KEY}-{i:03}-AAAAAAAAA"));
    let body = serde_json::to_string(&batch(keys))?;
    let address = shim.address();
    let warm = Load::new(address, CONNECTIONS, every_key(&body), KEYS / takes as u64);
    closed_loop::run(&warm, Duration::from_millis(200)).await?;
    let (shim_before, redis_before) = (shim.usage().cpu_ns, shim.redis().usage().cpu_ns);
    let answers = closed_loop::run(&warm, length).await?;
    ensure!(answers.ok == answers.total(), "the shim refused {} batches", answers.total() - answers.ok);
    let decisions = (answers.total() * takes as u64).max(1) as f64;
    let us = |before: u64, after: u64| after.saturating_sub(before) as f64 / 1_000.0 / decisions;
    Ok(ByBatch {
        takes,
        decisions_per_s: decisions / answers.seconds,
        shim_us: us(shim_before, shim.usage().cpu_ns),
        redis_us: us(redis_before, shim.redis().usage().cpu_ns),
    })
}

fn every_key(body: &str) -> Vec<u8> {
    closed_loop::post(TAKE_PATH, body)
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

/// What `redis-benchmark` has found.
struct Found {
    per_second: f64,
    p50_ms: f64,
}

/// Calls the script for one take with a random key, as `redis-benchmark` does it.
async fn script(port: &str, hash: &str, options: &[&str]) -> anyhow::Result<Found> {
    let one = batch(std::iter::once(RANDOM.to_owned()));
    let plan = Plan::new("sluicegate", &one, Layout::Single).map_err(|fault| anyhow::anyhow!("{fault:?}"))?;
    let call = plan.calls().first().context("a batch of one take is one call")?;
    let key = call.keys().first().context("a call has a key")?;
    let mut command = Command::new(artifact::program("redis-benchmark")?);
    command.args(["-p", port, "--csv", "-r", &KEYS.to_string()]).args(options);
    // The argument is binary; the last one may come from standard input.
    command.args(["-x", "EVALSHA", hash, "1", key]);
    let output = feed(command, call.argument()).await?;
    parse(&String::from_utf8_lossy(&output.stdout))
        .with_context(|| format!("redis-benchmark: {}", String::from_utf8_lossy(&output.stderr)))
}

/// The last line of the CSV: name, requests a second, then latencies: mean, least, p50, p95, p99, most.
fn parse(csv: &str) -> Option<Found> {
    let line = csv.lines().rfind(|line| !line.is_empty() && !line.starts_with("\"test\""))?;
    // The name is the command, which may hold commas: count from the end.
    let numbers: Vec<f64> =
        line.rsplit(',').map_while(|n| n.trim_matches('"').parse().ok()).take(7).collect();
    Some(Found { per_second: *numbers.get(6)?, p50_ms: *numbers.get(3)? })
}

async fn load_script(port: &str) -> anyhow::Result<String> {
    let mut command = Command::new(artifact::program("redis-cli")?);
    command.args(["-p", port, "-x", "SCRIPT", "LOAD"]);
    let output = feed(command, TAKE.as_bytes()).await?;
    let hash = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    ensure!(hash.len() == 40, "redis-cli did not load the script: {hash}");
    Ok(hash)
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
