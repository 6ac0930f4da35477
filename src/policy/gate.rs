//! One request's way through all decisions.
//!
//! ```text
//! exempt? -> match limits, keys, class -> deadline, saturation -> known denial -> lease, local -> take -> upstream
//! ```
//!
//! A state machine without I/O: the filter tells what happens ([`Gate::begin`], [`Gate::answer`], [`Gate::tick`],
//! [`Gate::response`], [`Gate::end`]) and carries out what comes back: a [`Step`] at once, more of them from
//! [`Gate::next_step`], and callouts from [`Gate::callout`]. Every request that begins must end, once; whatever it
//! holds (a place in flight, slots, leased tokens) is given back then.

mod aftermath;
mod allowance;
mod answer;
mod fallback;
mod hit;
mod local;
mod numbers;
mod reply;
mod saturation;
mod stream;
mod streams;
mod take;

pub use reply::ResponseFields;

use std::collections::{BTreeSet, VecDeque};

use crate::batch::{BatchId, Batcher};
use crate::breaker::Breaker;
use crate::class::Class;
use crate::count::{Counts, Decision};
use crate::denial::Denials;
use crate::lease::Leases;
use crate::matcher::{Matcher, Scratch};
use crate::overload::control::{Control, Tick};
use crate::overload::shared::Shared;
use crate::policy::Policy;
use crate::request::Request;
use crate::response::Response;
use allowance::Allowance;
use answer::Deciding;
use local::Local;
use numbers::Numbers;
use stream::{Phase, Stream};
use streams::Streams;

/// All decisions of one worker.
#[derive(Debug)]
pub struct Gate {
    policy: Policy,
    matcher: Matcher,
    scratch: Scratch,
    numbers: Numbers,
    exempt: Allowance,
    saturation: Option<Control>,
    /// When saturation control looked around last, microseconds.
    saturated_us: u64,
    shim: Option<Way>,
    denials: Denials,
    leases: Leases,
    local: Local,
    streams: Streams,
    /// Streams that wait their turn in a leaky bucket: (when, which).
    delayed: BTreeSet<(u64, u32)>,
    counts: Counts,
    steps: VecDeque<(u32, Step)>,
    notices: VecDeque<Notice>,
    samples: Vec<Sample>,
}

/// The way to the shim.
#[derive(Debug)]
struct Way {
    batcher: Batcher,
    breaker: Breaker,
    deciding: Deciding,
    timeout_us: u64,
}

/// What to do with a request now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Let it go on to the upstream.
    Pass,
    /// Answer it.
    Refuse(Response),
    /// Hold it: [`Gate::next_step`] will tell.
    Wait,
}

/// A callout to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Callout {
    /// What to name in [`Gate::answer`].
    pub batch: BatchId,
    /// How long to wait for the response, microseconds.
    pub timeout_us: u64,
}

/// A change of state that an operator wants to read in the log, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// No decisions can be had: requests follow `when_unavailable`.
    DecisionsLost(&'static str),
    /// Decisions can be had again.
    DecisionsFound,
    /// Callouts have stopped.
    BreakerOpened,
    /// Callouts go out again.
    BreakerClosed,
}

/// A callout that came back, for histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// From sending to answer, microseconds.
    pub latency_us: u64,
    /// Takes in it.
    pub takes: usize,
}

// === impl Gate ===

impl Gate {
    /// A gate for this policy. `seed` is random and differs between VMs.
    pub fn new(policy: Policy, seed: [u64; 2], now_us: u64) -> Self {
        let matcher = Matcher::new(&policy, seed);
        let shim = policy.shim.as_ref().map(|shim| Way {
            batcher: Batcher::new(&policy.namespace, shim),
            breaker: Breaker::new(shim.breaker_failures, shim.breaker_open_us),
            deciding: Deciding::default(),
            timeout_us: shim.timeout_us,
        });
        Gate {
            numbers: Numbers::new(matcher.variants().count()),
            matcher,
            scratch: Scratch::default(),
            exempt: Allowance::new(policy.exempt_rate, now_us),
            saturation: policy.overload.as_ref().map(|overload| {
                let [a, b] = seed;
                Control::new(overload, a ^ b.rotate_left(32), now_us)
            }),
            saturated_us: 0,
            shim,
            denials: Denials::default(),
            leases: Leases::default(),
            local: Local::new(seed.iter().fold(0, |mixed, part| mixed ^ part)),
            streams: Streams::default(),
            delayed: BTreeSet::new(),
            counts: Counts::new(policy.limits.len()),
            steps: VecDeque::new(),
            notices: VecDeque::new(),
            samples: Vec::new(),
            policy,
        }
    }

    /// A request has begun. `random` is 64 uniform bits, for shares, jitter and slots.
    pub fn begin(&mut self, request: &dyn Request, id: u32, now_us: u64, random: u64) -> Step {
        let mut class = self.matcher.classify(request, random, &mut self.scratch);
        if class == Class::Exempt && !self.exempt.take(now_us) {
            class = Class::Normal;
        }
        let mut stream = self.streams.begin(class, random);
        stream.hear(request);
        stream.deadline_us = self.deadline_us(request, now_us);
        if let Err(shed) = self.saturate(request, &mut stream, now_us) {
            return self.shed(stream, shed.reason, shed.retry_after_s.into(), now_us);
        }
        if class == Class::Exempt {
            return self.admit(id, stream);
        }
        self.matcher.meet(request, &mut self.scratch);
        self.decide(request, id, stream, now_us)
    }

    /// Steps for requests that waited, in fair order.
    pub fn next_step(&mut self) -> Option<(u32, Step)> {
        self.steps.pop_front()
    }

    /// Whether a callout may leave now.
    pub fn wants_callout(&self) -> bool {
        let wants = |way: &Way| way.batcher.is_ready() && (way.batcher.has_takes() || !way.breaker.is_open());
        self.shim.as_ref().is_some_and(wants)
    }

    /// Writes the body of the next callout, if one may leave.
    pub fn callout(&mut self, body: &mut Vec<u8>, now_us: u64) -> Option<Callout> {
        let way = self.shim.as_mut()?;
        // What only tells the shim something waits until the shim is there; after a while it may try.
        if !way.batcher.is_ready() || !(way.batcher.has_takes() || way.breaker.admit(now_us)) {
            return None;
        }
        let streams = &self.streams;
        let waits = |id: u32| streams.get(id).is_some_and(|stream| stream.phase == Phase::Waiting);
        let batch = way.batcher.next(waits, body, now_us)?;
        self.counts.sent(way.batcher.takes_in(batch));
        Some(Callout { batch, timeout_us: way.timeout_us })
    }

    /// Time passes: own deadlines, lost callouts, turns in leaky buckets.
    pub fn tick(&mut self, now_us: u64) {
        if let Some(way) = &self.shim
            && !way.batcher.is_idle()
        {
            let expired: Vec<u32> = way.batcher.expired(now_us).collect();
            for id in expired {
                self.give_up(id, now_us);
            }
            while let Some(batch) = self.shim.as_ref().and_then(|way| way.batcher.lost(now_us)) {
                self.answer(batch, None, now_us);
            }
        }
        while let Some(&(until_us, id)) = self.delayed.first() {
            if until_us > now_us {
                break;
            }
            self.delayed.pop_first();
            if let Some(stream) = self.streams.remove(id) {
                let step = self.admit(id, stream);
                self.steps.push_back((id, step));
            }
        }
    }

    /// Whether the request is being held.
    pub fn is_holding(&self, id: u32) -> bool {
        self.streams.get(id).is_some_and(|stream| stream.phase != Phase::Admitted)
    }

    /// A change of state for the log.
    pub fn next_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// Callouts that came back since the last time.
    pub fn take_samples(&mut self) -> Vec<Sample> {
        std::mem::take(&mut self.samples)
    }

    /// The accounts.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The policy in force.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether callouts are stopped.
    pub fn is_breaker_open(&self) -> bool {
        self.shim.as_ref().is_some_and(|way| way.breaker.is_open())
    }

    /// Whether any limit can hold a request for its turn.
    pub fn has_queues(&self) -> bool {
        let leaky =
            |limit: &crate::limit::Limit| matches!(limit.algorithm, crate::limit::Algorithm::LeakyBucket(_));
        self.policy.limits.iter().any(leaky)
    }

    /// Lets saturation control look around, when it is time; shared data is that of the workers of one Envoy.
    pub fn saturation_tick(&mut self, shared: &mut dyn Shared, now_us: u64) -> Option<Tick> {
        let control = self.saturation.as_mut()?;
        let due_us = self.saturated_us.saturating_add(control.tick_us());
        // Ticks are late rather than early: what is nearly due is due.
        if now_us.saturating_add(control.tick_us() / 8) < due_us {
            return None;
        }
        self.saturated_us = now_us;
        Some(control.tick(shared, now_us))
    }

    /// Saturation control, for its ticks and polls.
    pub fn saturation_mut(&mut self) -> Option<&mut Control> {
        self.saturation.as_mut()
    }

    /// Saturation control, for its gauges.
    pub fn saturation(&self) -> Option<&Control> {
        self.saturation.as_ref()
    }

    /// Sends a request on.
    fn admit(&mut self, id: u32, mut stream: Box<Stream>) -> Step {
        self.counts.decide(stream.class, Decision::Admit);
        stream.phase = Phase::Admitted;
        self.streams.insert(id, stream);
        Step::Pass
    }
}
