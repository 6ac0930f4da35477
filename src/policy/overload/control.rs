//! One VM's saturation control: what the filter holds and asks.

use crate::class::Class;
use crate::overload::arrival::{Arrival, Decision, Ending, Kind, Shed, Ticket};
use crate::overload::shared::Shared;
use crate::policy::{Mode, Overload};
use crate::verdict::ShedReason;

/// The saturation control of one VM, for all protected upstreams.
#[derive(Debug)]
pub struct Control {
    clusters: Vec<Box<str>>,
    max_in_flight: Vec<Option<u64>>,
    in_flight: Vec<u64>,
    tick_us: u64,
    mode: Mode,
}

/// What the root context is to do after a tick.
#[derive(Debug, Default)]
pub struct Tick {
    /// Ask Envoy's admin endpoint, and hand the answer to [`Control::on_poll`].
    pub poll: Option<Poll>,
    /// Changes of state, each worth one log line.
    pub events: Vec<Event>,
}

/// A GET to Envoy's admin endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poll {
    /// Envoy cluster to send it to.
    pub cluster: Box<str>,
    /// `:path`, with an anchored and encoded filter.
    pub path: Box<str>,
    /// Timeout of the callout, microseconds.
    pub timeout_us: u64,
}

/// A change of state.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Shedding by class began.
    Engaged {
        /// Index of the upstream.
        upstream: usize,
        /// Requests in flight that the upstream works on without queueing.
        limit: f64,
    },
    /// Shedding by class ended.
    Released {
        /// Index of the upstream.
        upstream: usize,
    },
    /// This VM polls from now on.
    Leading,
    /// Stats could not be had several times in a row; the filter's own counts are used.
    PollLost,
    /// Stats are there again.
    PollFound,
}

/// What metrics show of one upstream.
#[derive(Clone, Debug, PartialEq)]
pub struct Gauges<'a> {
    /// Envoy cluster name.
    pub cluster: &'a str,
    /// Requests in flight at which normal ones are refused.
    pub limit: u64,
    /// Requests that wait for a connection.
    pub pending: u64,
    /// Requests in flight in this Envoy.
    pub in_flight: u64,
    /// Shedding by class.
    pub engaged: bool,
    /// Age of the newest stats, milliseconds; `None` before the first.
    pub poll_age_ms: Option<u64>,
    /// True when latency sets the limit, false when the connection bound does.
    pub latency_mode: bool,
}

impl Control {
    /// A control for this configuration.
    ///
    /// `seed` must differ between VMs (64 random bits): it names this VM among the others.
    pub fn new(overload: &Overload, seed: u64, now_us: u64) -> Control {
        let _ = (seed, now_us);
        Control {
            clusters: overload.upstreams.iter().map(|upstream| upstream.cluster.clone()).collect(),
            max_in_flight: overload.upstreams.iter().map(|upstream| upstream.max_in_flight).collect(),
            in_flight: vec![0; overload.upstreams.len()],
            tick_us: overload.tick_us,
            mode: overload.mode,
        }
    }

    /// How often [`Control::tick`] wants to be called, microseconds.
    pub fn tick_us(&self) -> u64 {
        self.tick_us
    }

    /// The protected upstream of a request to this cluster; the only one, when one is configured.
    pub fn upstream(&self, cluster: &[u8]) -> Option<usize> {
        match self.clusters.len() {
            1 => Some(0),
            _ => self.clusters.iter().position(|name| name.as_bytes() == cluster),
        }
    }

    /// Decides about a request by numbers of this VM alone.
    pub fn admit(&mut self, arrival: &Arrival, now_us: u64) -> Decision {
        let mut ticket = Ticket {
            upstream: arrival.upstream,
            class: arrival.class,
            started_us: now_us,
            kind: match arrival.class {
                Class::Exempt => Kind::Exempt,
                _ if arrival.streaming => Kind::Streaming,
                _ => Kind::Ordinary,
            },
        };
        let bound = self.max_in_flight.get(arrival.upstream).copied().flatten();
        let Some(in_flight) = self.in_flight.get_mut(arrival.upstream) else {
            return Decision::Admit(ticket);
        };
        if ticket.kind == Kind::Ordinary && bound.is_some_and(|bound| bound <= *in_flight) {
            let shed = Shed { reason: ShedReason::HardCap, class: arrival.class, retry_after_s: 1 };
            return match self.mode {
                Mode::Shadow => {
                    ticket.kind = Kind::Ghost;
                    Decision::WouldShed(ticket, shed)
                }
                Mode::Enforce | Mode::Percent(_) => Decision::Shed(shed),
            };
        }
        if ticket.kind == Kind::Ordinary {
            *in_flight += 1;
        }
        Decision::Admit(ticket)
    }

    /// Takes a place back. Call it once for each ticket, from the last callback of the request.
    pub fn done(&mut self, ticket: Ticket, ending: Ending, now_us: u64) {
        let _ = (ending, now_us);
        if let Some(in_flight) = self.in_flight.get_mut(ticket.upstream)
            && ticket.kind == Kind::Ordinary
        {
            *in_flight = in_flight.saturating_sub(1);
        }
    }

    /// Reads what others published, publishes its own, and, when leading, decides for all.
    pub fn tick(&mut self, shared: &mut dyn Shared, now_us: u64) -> Tick {
        let _ = (shared, now_us);
        Tick::default()
    }

    /// The answer to a [`Poll`]: the body of a 200, or `None` for anything else.
    pub fn on_poll(&mut self, body: Option<&[u8]>, now_us: u64) {
        let _ = (body, now_us);
    }

    /// What metrics show, one for each upstream.
    pub fn gauges(&self, now_us: u64) -> impl Iterator<Item = Gauges<'_>> {
        let _ = now_us;
        self.clusters.iter().zip(&self.in_flight).map(|(cluster, in_flight)| Gauges {
            cluster,
            limit: 0,
            pending: 0,
            in_flight: *in_flight,
            engaged: false,
            poll_age_ms: None,
            latency_mode: false,
        })
    }
}
