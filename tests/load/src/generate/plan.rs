//! What a generator does: phases of load, and the behaviour of the clients.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Exp1};

use super::mix::Mix;
use super::transport::Transport;

/// A load from beginning to end.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// One after the other.
    pub(crate) phases: Vec<Phase>,
    /// Kinds of requests.
    pub(crate) mix: Mix,
    /// What a client does at its deadline.
    pub(crate) patience: Patience,
    /// What a client does with a failure.
    pub(crate) retries: Retries,
    /// How the requests travel.
    pub(crate) transport: Transport,
    /// Who sends them.
    pub(crate) tenants: Tenants,
    /// Seed of arrivals, kinds and tenants.
    pub(crate) seed: u64,
}

/// A stretch of constant load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Phase {
    /// Mean arrivals a second.
    pub(crate) rate: f64,
    /// Length, microseconds.
    pub(crate) us: u64,
}

/// What a client does when its deadline is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Patience {
    /// Closes the connection (HTTP/1.1) or resets the stream (HTTP/2).
    GiveUp,
    /// Waits for the answer, at most 60 times the deadline, and has no use for it.
    Wait,
}

/// How failures are repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retries {
    /// Attempts after the first.
    pub(crate) max: u32,
    /// Pause before an attempt, milliseconds, drawn from half to one and a half times this.
    pub(crate) backoff_ms: u64,
    /// Waits at least as long as `Retry-After` says.
    pub(crate) honour_retry_after: bool,
}

/// The clients, told apart by `x-api-key`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tenants {
    /// How many; 0 sends no key.
    pub(crate) count: u16,
    /// Share of the load that comes from the first, on top of its even share of the rest.
    pub(crate) elephant: f64,
}

/// One arrival.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Arrival {
    /// When, microseconds from the start of the plan.
    pub(crate) at_us: u64,
    /// Index of the kind in the mix.
    pub(crate) kind: usize,
    /// Which tenant.
    pub(crate) tenant: u16,
}

// === impl Plan ===

impl Plan {
    /// Length, microseconds.
    pub(crate) fn us(&self) -> u64 {
        self.phases.iter().map(|phase| phase.us).sum()
    }

    /// Start and end of each phase, microseconds.
    pub(crate) fn bounds(&self) -> Vec<(u64, u64)> {
        let mut from_us = 0;
        self.phases
            .iter()
            .map(|phase| {
                let start_us = from_us;
                from_us += phase.us;
                (start_us, from_us)
            })
            .collect()
    }

    /// The arrivals in order: a Poisson process in each phase.
    pub(crate) fn arrivals(&self) -> impl Iterator<Item = Arrival> + '_ {
        let mut random = StdRng::seed_from_u64(self.seed);
        self.phases.iter().zip(self.bounds()).flat_map(move |(phase, (from_us, to_us))| {
            let mut arrivals = Vec::with_capacity((phase.rate * phase.us as f64 / 1e6 * 1.1) as usize);
            let mut at_us = from_us as f64;
            loop {
                let gap: f64 = Exp1.sample(&mut random);
                at_us += gap * 1e6 / phase.rate;
                if at_us >= to_us as f64 || !at_us.is_finite() {
                    break arrivals;
                }
                let kind = self.mix.pick(random.random());
                let tenant = self.tenants.pick(&mut random);
                arrivals.push(Arrival { at_us: at_us as u64, kind, tenant });
            }
        })
    }
}

// === impl Tenants ===

impl Tenants {
    /// Nobody in particular.
    pub(crate) const NONE: Tenants = Tenants { count: 0, elephant: 0.0 };

    fn pick(self, random: &mut impl Rng) -> u16 {
        match self.count {
            0 => 0,
            _ if random.random_bool(self.elephant.clamp(0.0, 1.0)) => 0,
            count => random.random_range(0..count),
        }
    }
}

// === impl Retries ===

impl Retries {
    /// Failures are final.
    pub(crate) const NONE: Retries = Retries { max: 0, backoff_ms: 0, honour_retry_after: false };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(phases: &[(f64, u64)], tenants: Tenants) -> Plan {
        Plan {
            phases: phases.iter().map(|(rate, s)| Phase { rate: *rate, us: s * 1_000_000 }).collect(),
            mix: Mix::default(),
            patience: Patience::GiveUp,
            retries: Retries::NONE,
            transport: Transport::Http1 { connections: 1 },
            tenants,
            seed: 3,
        }
    }

    #[test]
    fn arrivals_are_a_poisson_process_in_each_phase() {
        let plan = plan(&[(1_000.0, 20), (0.0, 5), (4_000.0, 10)], Tenants::NONE);
        let times: Vec<u64> = plan.arrivals().map(|arrival| arrival.at_us).collect();
        assert!(times.is_sorted());
        let within = |from_s: u64, to_s: u64| {
            times.iter().filter(|at_us| (from_s * 1_000_000..to_s * 1_000_000).contains(*at_us)).count()
        };
        assert!((19_400..20_600).contains(&within(0, 20)));
        assert_eq!(within(20, 25), 0);
        assert!((39_000..41_000).contains(&within(25, 35)));
        let gaps: Vec<f64> = times[..19_000].windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "gaps are exponential");
    }

    #[test]
    fn the_same_seed_gives_the_same_arrivals() {
        let plan = plan(&[(500.0, 2)], Tenants { count: 10, elephant: 0.5 });
        let first: Vec<Arrival> = plan.arrivals().collect();
        assert!(plan.arrivals().eq(first.iter().copied()));
        let elephant = first.iter().filter(|arrival| arrival.tenant == 0).count() as f64;
        assert!((elephant / first.len() as f64 - 0.55).abs() < 0.06);
    }
}
