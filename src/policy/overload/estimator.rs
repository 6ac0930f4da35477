//! The leader's judgement of one upstream: from flow and stats to thresholds.

use super::backlog::Backlog;
use super::capacity::Capacity;
use super::delay::{Delay, Sample};
use super::knee::{Knee, Pressure};
use super::record::TenantRate;
use super::reserve;
use super::snapshot::Guidance;
use super::stats::ClusterStats;
use super::tally::Flow;
use super::tenant::fair_rate;
use super::thin::{Demand, thin};
use crate::policy::Law;

/// A request that is not selected still gets in below this part of the limit.
const CLOSED_POOL: f64 = 0.85;
const CLOSED_LATENCY: f64 = 0.9;
/// How much more than the fair rate is selected of a heavy tenant, since not all that is selected gets in.
const HEAVY_SLACK: f64 = 1.2;
/// The latency law must see a limit below this part of the connection bound to take over.
const HIDDEN: f64 = 0.8;

/// What a leader keeps about one upstream.
#[derive(Debug)]
pub(super) struct Estimator {
    law: Law,
    target_us: f64,
    tick_us: u64,
    knee: Knee,
    delay: Delay,
    capacity: Capacity,
    demand: Demand,
    backlog: Backlog,
    polled_us: u64,
    hidden: bool,
}

impl Estimator {
    /// Starts from what an earlier leader published, if anything.
    pub(super) fn new(
        law: Law,
        target_us: u64,
        tick_us: u64,
        max_connections: Option<u64>,
        earlier: Option<&Guidance>,
    ) -> Estimator {
        let known = |value: f64| (0.0 < value).then_some(value);
        let bound = earlier.and_then(|earlier| known(earlier.bound));
        let (base_us, proven) = earlier.map_or((0.0, 0.0), |earlier| (earlier.base_us, earlier.proven));
        let capacity = earlier.and_then(|earlier| known(earlier.capacity));
        let mut delay = Delay::new(target_us as f64, base_us, proven);
        if let Some(earlier) = earlier.filter(|earlier| earlier.latency_mode && earlier.engaged) {
            delay.resume(earlier.limit, earlier.capacity);
        }
        Estimator {
            law,
            target_us: target_us as f64,
            tick_us,
            knee: Knee::new(bound.or(max_connections.map(|bound| bound as f64))),
            delay,
            capacity: capacity.map_or_else(Capacity::default, Capacity::from_value),
            demand: Demand::default(),
            backlog: Backlog::default(),
            polled_us: 0,
            hidden: false,
        }
    }

    pub(super) fn on_poll(&mut self, stats: ClusterStats, now_us: u64) {
        self.knee.on_poll(stats, now_us);
        self.polled_us = now_us;
    }

    /// One tick.
    pub(super) fn update(&mut self, flow: &Flow, tenants: &[TenantRate], now_us: u64) -> Guidance {
        let elapsed_s = flow.elapsed_s;
        let reading = self.knee.read(flow.in_flight, now_us, self.tick_us);
        self.demand.update(&flow.offered, elapsed_s);
        let shed: f64 = flow.shed.iter().sum();
        let pool = self.pool_bound();
        let demand = self.demand.total();
        self.capacity.update(flow.ended, reading.busy, elapsed_s);
        let known = if pool.is_some() { &self.capacity } else { self.delay.capacity() };
        let fits = demand < 0.9 * known.value();
        let queue_least = (2.0 * flow.workers as f64).max(4.0);
        self.update_delay(flow, fits, queue_least);
        let known = if pool.is_some() { &self.capacity } else { self.delay.capacity() };
        let (capacity, tested) = (known.value(), known.tested());
        let queue = (capacity * self.target_us / 1e6).max(queue_least);
        let pressure = Pressure { queue, shed: shed / elapsed_s.max(1e-3), capacity, demand };
        self.knee.engage(&pressure, pool.is_some() && 0.0 < shed, elapsed_s);

        let offered = self.demand.by_class();
        let thinning = thin(&offered, if tested { capacity } else { 0.0 });
        let mut guidance = Guidance {
            polled_us: self.polled_us,
            select: thinning.select,
            backlog_s: self.backlog.update(&flow.shed, capacity, demand, elapsed_s),
            capacity,
            base_us: self.delay.base_us(),
            bound: self.knee.bound().unwrap_or(0.0),
            proven: self.delay.cap(),
            tenants: tenants.to_vec(),
            ..Guidance::default()
        };
        let classes =
            offered.iter().zip(thinning.room).zip(&mut guidance.select).zip(&mut guidance.fair_rate);
        for (class, (((offered, room), select), rate)) in classes.enumerate() {
            // The level is that of what is really left: slack on top of it would be the heavy ones' alone.
            if *select < 1.0
                && let Some(fair) = fair_rate(class, tenants, *offered, room)
            {
                *rate = (HEAVY_SLACK * fair.rate).max(1e-6);
                *select = (*select * offered / room.max(1e-3) * fair.share_below).min(1.0);
            }
        }
        match pool {
            Some(limit) => {
                guidance.engaged = self.knee.engaged();
                guidance.pending = reading.pending;
                guidance.limit = limit;
                guidance.open = reserve::pool(limit, queue, thinning.marginal);
                guidance.hard = reserve::pool_hard(limit, queue);
                guidance.closed = CLOSED_POOL * limit;
            }
            None => {
                let limit = self.delay.limit();
                guidance.latency_mode = true;
                guidance.engaged = self.delay.armed();
                guidance.pending = (flow.in_flight - self.delay.product()).max(0.0);
                guidance.limit = if self.delay.armed() { limit } else { self.delay.cap() };
                guidance.open =
                    reserve::latency(limit, self.delay.level(), self.delay.cap(), thinning.marginal);
                guidance.hard = reserve::latency_hard(self.delay.cap());
                guidance.closed = CLOSED_LATENCY * self.delay.product();
            }
        }
        guidance
    }

    /// The connection bound, where the pool law applies. By itself it applies where the latency law, which runs beside
    /// it, would let in more: a lower limit means that the bound is too high to show the queue, or not yet tried.
    fn pool_bound(&mut self) -> Option<f64> {
        let bound = self.knee.bound()?;
        match self.law {
            Law::Latency => None,
            Law::Pool => Some(bound),
            Law::Auto => {
                let ceiling = if self.delay.armed() { self.delay.level() } else { self.delay.cap() };
                self.hidden = ceiling < if self.hidden { bound } else { HIDDEN * bound };
                (!self.hidden).then_some(bound)
            }
        }
    }

    fn update_delay(&mut self, flow: &Flow, fits: bool, queue_least: f64) {
        let bound = self.knee.bound().filter(|_| self.law != Law::Latency).unwrap_or(f64::MAX);
        let active = flow.in_flight.min(bound);
        let inside = if 0.0 < flow.in_flight { active / flow.in_flight } else { 1.0 };
        let sample = Sample {
            elapsed_s: flow.elapsed_s,
            in_flight: active,
            answered: flow.answered,
            waited_us: flow.waited_us * inside,
            trailed_us: flow.trailed_us,
            ended: flow.ended,
            blocked: 0.0 < flow.shed.iter().sum(),
            fits,
        };
        self.delay.update(&sample, bound, queue_least);
    }
}
