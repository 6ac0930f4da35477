//! `report.json`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

use super::bar::{self, Bar, Figures};
use super::memory::ShimMemory;
use super::noise::Noise;
use super::ratio::{self, Added, Cost};
use super::redis::{ByBatch, RedisRound};
use super::round::{CONNECTIONS, Round};
use super::scale::Scaled;
use super::system::System;
use super::view;
use crate::date;
use crate::machine::Machine;
use crate::rig::artifact;
use crate::stats::median;

/// Everything that a benchmark has found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) made_at: String,
    pub(crate) machine: Machine,
    pub(crate) envoy: String,
    /// The client: a closed loop of our own, see `closed_loop.rs`.
    pub(crate) client: &'static str,
    pub(crate) quick: bool,
    pub(crate) seconds: f64,
    pub(crate) noise: Noise,
    /// What the project promises, and what this run shows.
    pub(crate) bars: Vec<Bar>,
    /// Medians over rounds; throughput with 32 connections unless the name says otherwise.
    pub(crate) ratios: BTreeMap<&'static str, f64>,
    /// Added to plain Envoy with one connection.
    pub(crate) latency_us: BTreeMap<&'static str, Added>,
    /// With 32 connections, for each request.
    pub(crate) cpu_us: BTreeMap<&'static str, Cost>,
    /// Requests a second by system, in the order of `connections`.
    pub(crate) rps: BTreeMap<&'static str, Vec<f64>>,
    pub(crate) connections: [usize; 3],
    /// Medians over rounds.
    pub(crate) redis: Option<RedisRound>,
    pub(crate) by_batch: Vec<ByBatch>,
    pub(crate) by_keys: Vec<Scaled>,
    pub(crate) by_limits: Vec<Scaled>,
    pub(crate) shim_memory: Option<ShimMemory>,
    /// Size of the filter, bytes.
    pub(crate) wasm_bytes: u64,
    /// From the start of Envoy to readiness by system, milliseconds, medians.
    pub(crate) start_ms: BTreeMap<&'static str, f64>,
    /// What the filter adds to that of plain Envoy, milliseconds, median: compiling it and starting its VMs.
    pub(crate) vm_start_ms: Option<f64>,
    /// Requests that were answered with neither 2xx nor 429; there should be none.
    pub(crate) other_answers: u64,
    /// Every round.
    pub(crate) rounds: Vec<Vec<Round>>,
    pub(crate) redis_rounds: Vec<RedisRound>,
}

/// What was measured.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) envoy: String,
    pub(crate) quick: bool,
    pub(crate) seconds: f64,
    pub(crate) rounds: Vec<Vec<Round>>,
    pub(crate) redis: Vec<RedisRound>,
    pub(crate) by_batch: Vec<ByBatch>,
    pub(crate) by_keys: Vec<Scaled>,
    pub(crate) by_limits: Vec<Scaled>,
    pub(crate) shim_memory: Option<ShimMemory>,
}

impl Report {
    pub(crate) fn new(found: Findings) -> anyhow::Result<Report> {
        let rounds = found.rounds;
        let mut ratios = ratio::ratios(&rounds);
        let batched = found.redis.iter().map(|one| one.batched_per_s / one.pipelined_per_s);
        ratios.extend(median(&batched.collect::<Vec<_>>()).map(|one| ("redis_batched_vs_pipelined", one)));
        let latency_us = ratio::added(&rounds);
        let wasm_bytes = fs::metadata(artifact::filter()?)?.len();
        let bars = bar::bars(&Figures {
            ratios: &ratios,
            latency_us: &latency_us,
            rounds: &rounds,
            redis: &found.redis,
            by_keys: &found.by_keys,
            wasm_bytes,
        });
        let rps = |system| -> Vec<f64> {
            (0..CONNECTIONS.len())
                .filter_map(|at| ratio::typical(&rounds, at, system, |one| one.rps))
                .collect()
        };
        let start_ms = |system: System| {
            let mine = rounds.iter().flatten().filter(|round| round.system == system.name());
            median(&mine.map(|round| round.start_ms).collect::<Vec<_>>())
        };
        let systems = System::ALL;
        Ok(Report {
            made_at: date::now(),
            machine: Machine::read(),
            envoy: found.envoy,
            client: "closed loop of our own, HTTP/1.1",
            quick: found.quick,
            seconds: found.seconds,
            noise: Noise::of(&rounds),
            bars,
            ratios,
            latency_us,
            cpu_us: ratio::costs(&rounds),
            rps: systems.into_iter().map(|system| (system.name(), rps(system))).collect(),
            connections: CONNECTIONS,
            redis: RedisRound::typical(&found.redis),
            by_batch: found.by_batch,
            by_keys: found.by_keys,
            by_limits: found.by_limits,
            shim_memory: found.shim_memory,
            wasm_bytes,
            vm_start_ms: ratio::vm_start_ms(&rounds),
            start_ms: systems.into_iter().filter_map(|one| Some((one.name(), start_ms(one)?))).collect(),
            other_answers: rounds.iter().flatten().flat_map(|one| &one.points).map(|point| point.other).sum(),
            rounds,
            redis_rounds: found.redis,
        })
    }

    /// Writes `report.json` and `report.html` to `folder`.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub(crate) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        fs::write(folder.join("report.json"), serde_json::to_string_pretty(self)?)?;
        fs::write(folder.join("report.html"), view::page(self).html())?;
        Ok(())
    }

    /// What the reader has to know before the figures.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self.noise.warning.iter().cloned().collect();
        if self.quick {
            warnings.push("a quick run: its figures scatter".into());
        }
        if self.other_answers > 0 {
            let points = || self.rounds.iter().flatten().flat_map(|round| &round.points);
            let oddity = points().find_map(|point| point.oddity.as_deref()).unwrap_or_default();
            warnings.push(format!(
                "{} requests were answered with neither 2xx nor 429, such as: {oddity}",
                self.other_answers
            ));
        }
        warnings
    }
}
