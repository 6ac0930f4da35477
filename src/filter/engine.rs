//! What the root context and the requests of one plugin in one VM share.

use std::cell::RefCell;
use std::rc::Rc;

use sluicegate_policy::batch::BatchId;
use sluicegate_policy::gate::Gate;
use sluicegate_policy::policy::Policy;

use crate::clock::Clock;
use crate::host;
use crate::metrics::Metrics;
use crate::random::Random;

/// An engine, once there is a configuration.
///
/// Borrows are short: never held across a host call that leads back into the filter.
pub(crate) type Shared = Rc<RefCell<Option<Engine>>>;

/// The decisions of one plugin in one VM, and what carries them out.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) gate: Gate,
    pub(crate) random: Random,
    pub(crate) metrics: Metrics,
    /// Callouts under way: token and what for. There are two or three at once.
    calls: Vec<(u32, Call)>,
    clock: Clock,
    /// Wakes the root context; `None` if the host has no queues: then ticks do.
    queue: Option<u32>,
    woken: bool,
}

/// A callout under way.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    /// A batch of takes.
    Take(BatchId),
    /// A look at Envoy's own stats.
    Poll,
}

// === impl Engine ===

impl Engine {
    /// An engine for this policy.
    pub(crate) fn new(policy: Policy, context: u32) -> Self {
        let mut clock = Clock::default();
        let now_us = clock.read(host::system_us());
        let mut random = Random::new(now_us ^ u64::from(context) << 48);
        let seed = [random.next(), random.next()];
        // Each VM has a queue of its own: of several readers of one queue only the last is woken.
        let name = format!("sluicegate.{:016x}", random.next());
        let queue = policy.shim.as_ref().and_then(|_| host::register_queue(&name).ok());
        let metrics = Metrics::define(&policy);
        let gate = Gate::new(policy, seed, now_us);
        Engine { gate, random, metrics, calls: Vec::new(), clock, queue, woken: false }
    }

    /// Microseconds; never goes back.
    pub(crate) fn now_us(&mut self) -> u64 {
        self.clock.read(host::system_us())
    }

    /// The gate, and a clock for what may want to know the time: each look is a host call.
    pub(crate) fn gate_and_clock(&mut self) -> (&mut Gate, impl FnOnce() -> u64) {
        let Engine { gate, clock, .. } = self;
        (gate, || clock.read(host::system_us()))
    }

    /// Notes a callout.
    pub(crate) fn called(&mut self, token: u32, call: Call) {
        self.calls.push((token, call));
    }

    /// What a callout that came back was for.
    pub(crate) fn came_back(&mut self, token: u32) -> Option<Call> {
        let place = self.calls.iter().position(|(known, _)| *known == token)?;
        Some(self.calls.swap_remove(place).1)
    }

    /// Whether the root context has to be woken, and through which queue.
    pub(crate) fn wake(&mut self) -> Option<u32> {
        if self.woken || !self.gate.wants_callout() {
            return None;
        }
        self.woken = self.queue.is_some();
        self.queue
    }

    /// The root context is awake.
    pub(crate) fn awake(&mut self) {
        self.woken = false;
    }
}
