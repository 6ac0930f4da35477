//! What is simulated.

use sluicegate_policy::policy::Law;

/// One simulation.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Seed of everything random.
    pub seed: u64,
    /// Requests the upstream works on at once.
    pub servers: usize,
    /// Mean service time, microseconds.
    pub service_us: f64,
    /// How service times scatter.
    pub scatter: Scatter,
    /// Worker threads of Envoy.
    pub workers: usize,
    /// Share of requests that arrive at the first worker; `None` spreads them evenly.
    pub pinned: Option<f64>,
    /// Connection bound of the upstream's cluster; `None` is HTTP/2 or no bound: no request waits in Envoy.
    pub connections: Option<usize>,
    /// Who decides.
    pub controller: Controller,
    /// Poll and publishing period, microseconds.
    pub tick_us: u64,
    /// Load over time.
    pub phases: Vec<Phase>,
    /// Share of requests by class, critical first.
    pub mix: [f64; 5],
    /// Time a client waits, microseconds.
    pub deadline_us: u64,
    /// The filter is told the deadline (`x-envoy-expected-rq-timeout-ms`).
    pub deadline_told: bool,
    /// Clients close the connection at their deadline; otherwise they wait for the late answer.
    pub give_up: bool,
    /// What clients do when they are shed.
    pub retry: Retry,
    /// Share of the load that one tenant makes, the rest is made by nine; `None` means no tenants.
    pub elephant: Option<f64>,
    /// What happens to polls of the admin endpoint.
    pub polls: Polls,
    /// The leader's VM dies at this moment, microseconds.
    pub leader_dies_us: Option<u64>,
}

/// How service times scatter around their mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scatter {
    /// Not at all.
    Fixed,
    /// Exponential.
    Exponential,
    /// Log-normal, squared coefficient of variation 2.
    LogNormal,
    /// Nine in ten take half the mean, one in ten takes five and a half times the mean.
    Bimodal,
}

/// Who decides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Controller {
    /// Sluicegate by this law.
    Sluicegate(Law),
    /// Nobody.
    Nothing,
    /// Envoy's own breakers: this many requests pending, or this many in flight without a connection bound.
    Breaker(usize),
    /// All is refused while the polled queue is above this, checked each tick.
    Threshold(f64),
    /// Envoy's `adaptive_concurrency`: gradient of the 90th percentile.
    Gradient,
}

/// A stretch of constant load.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    /// Length, seconds.
    pub seconds: f64,
    /// First attempts offered over the nominal capacity.
    pub load: f64,
    /// Service times are multiplied by this.
    pub slowdown: f64,
    /// Share of the servers that work.
    pub servers: f64,
}

/// What clients do when they are shed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Nothing.
    Never,
    /// They come back so often, after 50 ms with jitter each time, whatever they were told.
    Soon(u32),
    /// They come back so often, each time after the `Retry-After` they were given.
    WhenTold(u32),
}

/// What happens to polls of the admin endpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Polls {
    /// Answered.
    Answered,
    /// This share is lost.
    Lost(f64),
    /// The answer stays what it was at this moment, microseconds.
    Frozen(u64),
}

impl Scenario {
    /// The rig of the live test: 16 servers of 20 ms, 800 requests a second, two workers.
    pub fn rig(controller: Controller) -> Scenario {
        Scenario {
            seed: 1,
            servers: 16,
            service_us: 20_000.0,
            scatter: Scatter::Exponential,
            workers: 2,
            pinned: None,
            connections: Some(20),
            controller,
            tick_us: 100_000,
            phases: vec![Phase::new(10.0, 0.5)],
            mix: [0.1, 0.2, 0.4, 0.2, 0.1],
            deadline_us: 250_000,
            deadline_told: false,
            give_up: true,
            retry: Retry::Never,
            elephant: None,
            polls: Polls::Answered,
            leader_dies_us: None,
        }
    }

    /// The phase in which a moment lies.
    pub fn phase_at(&self, at_us: u64) -> usize {
        let mut end_s = 0.0;
        let ended = |phase: &&Phase| {
            end_s += phase.seconds;
            end_s * 1e6 <= at_us as f64
        };
        self.phases.iter().take_while(ended).count()
    }

    /// Requests a second the upstream can finish, without slowdown.
    pub fn capacity(&self) -> f64 {
        self.servers as f64 * 1e6 / self.service_us
    }
}

impl Phase {
    /// A stretch with service as it should be.
    pub fn new(seconds: f64, load: f64) -> Phase {
        Phase { seconds, load, slowdown: 1.0, servers: 1.0 }
    }
}
