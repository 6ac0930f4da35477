//! How busy the machine is, from the kernel's own accounts.

use std::fs;

use serde::Serialize;

/// Busy and idle time of every core since boot, in ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CoreTimes(Vec<(u64, u64)>);

/// Length of a tick: 10 ms on every Linux that runs Envoy.
const TICK_NS: f64 = 10_000_000.0;

/// The machine a report was made on.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) processor: String,
    pub(crate) kernel: String,
}

// === impl CoreTimes ===

impl CoreTimes {
    /// Now; nothing on a system without `/proc/stat`.
    pub(crate) fn read() -> CoreTimes {
        CoreTimes::parse(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    fn parse(stat: &str) -> CoreTimes {
        let cores = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
        let times = cores.map(|line| {
            let ticks: Vec<u64> = line.split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
            // user nice system idle iowait irq softirq steal; guest time is part of user.
            let idle = ticks.iter().skip(3).take(2).sum();
            (ticks.iter().take(8).sum::<u64>() - idle, idle)
        });
        CoreTimes(times.collect())
    }

    /// Idle share of the busiest core since `earlier`, 0 to 1.
    pub(crate) fn least_idle_since(&self, earlier: &CoreTimes) -> f64 {
        self.shares(earlier).fold(1.0, f64::min)
    }

    /// Share of all processor time since `earlier` that was spent, but not by those who spent `ours_ns`, 0 to 1.
    pub(crate) fn foreign_since(&self, earlier: &CoreTimes, ours_ns: u64) -> f64 {
        let sum = |times: &CoreTimes| {
            times.0.iter().fold((0, 0), |(busy, all), core| (busy + core.0, all + core.0 + core.1))
        };
        let ((busy, all), (busy_before, all_before)) = (sum(self), sum(earlier));
        let ours = ours_ns as f64 / TICK_NS;
        let foreign = (busy.saturating_sub(busy_before)) as f64 - ours;
        (foreign / all.saturating_sub(all_before).max(1) as f64).clamp(0.0, 1.0)
    }

    fn shares<'a>(&'a self, earlier: &'a CoreTimes) -> impl Iterator<Item = f64> + 'a {
        self.0.iter().zip(&earlier.0).map(|(now, before)| {
            let (busy, idle) = (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1));
            if busy + idle == 0 { 1.0 } else { idle as f64 / (busy + idle) as f64 }
        })
    }
}

// === impl Machine ===

impl Machine {
    pub(crate) fn read() -> Machine {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Machine {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.to_owned()),
            kernel: kernel.trim().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_core_decides() {
        let before = CoreTimes::parse("cpu 0 0 0 0\ncpu0 10 0 0 90 0 0 0 0\ncpu1 10 0 0 90 0 0 0 0\nintr 5");
        let after = CoreTimes::parse("cpu 0 0 0 0\ncpu0 100 0 0 100 0 0 0 0\ncpu1 20 0 0 180 0 0 0 0\n");
        assert!((after.least_idle_since(&before) - 0.1).abs() < 1e-9);
        // 100 of 200 ticks were busy, 40 of them ours.
        assert!((after.foreign_since(&before, 400_000_000) - 0.3).abs() < 1e-9);
        assert_eq!(CoreTimes::parse("").least_idle_since(&CoreTimes::parse("")), 1.0);
    }
}
