//! One VM's saturation control: what the filter holds and asks.

use super::arrival::{Arrival, Decision, Ending, Kind, Ticket};
use super::cohort;
use super::election::{Claim, Lease};
use super::estimator::Estimator;
use super::poll::{Change, Poll, Poller};
use super::record::{Entry, Record};
use super::shared::{Shared, Version};
use super::snapshot::{Guidance, Snapshot, TENANTS};
use super::station::{Bounds, Station};
use super::stats;
use super::tally::Tally;
use super::tenant;
use crate::mode::Mode;
use crate::policy::{Law, Overload, Upstream};

/// Workers of one Envoy that can take part; more share the traffic without being seen.
const SLOTS_MAX: usize = 128;
/// Records and snapshots live this many ticks.
const FRESH_TICKS: u64 = 5;
/// A lease lives this many ticks.
const LEASE_TICKS: u64 = 3;
/// A slot whose owner was silent for this long may be taken, microseconds.
const SLOT_FREE_US: u64 = 10_000_000;

/// The saturation control of one VM, for all protected upstreams.
#[derive(Debug)]
pub struct Control {
    lease: Lease,
    law: Law,
    mode: Mode,
    tick_us: u64,
    target_delay_us: u64,
    admin_cluster: Option<Box<str>>,
    upstreams: Vec<Upstream>,
    clusters: Vec<Box<str>>,
    poll_path: Box<str>,
    domain: u64,
    stations: Vec<Station>,
    slot: Option<usize>,
    leading: Option<Leading>,
    engaged: Vec<bool>,
    ticked_us: Option<u64>,
    poller: Poller,
}

/// What only the leader has.
#[derive(Debug)]
struct Leading {
    estimators: Vec<Estimator>,
    tallies: Vec<Tally>,
}

/// What the root context is to do after a tick.
#[derive(Debug, Default)]
pub struct Tick {
    /// Ask Envoy's admin endpoint, and hand the answer to [`Control::on_poll`].
    pub poll: Option<Poll>,
    /// Changes of state, each worth one log line.
    pub events: Vec<Event>,
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
    /// Requests that the upstream is let work on at once; 0 before the first tick.
    pub limit: u64,
    /// Requests that wait: for a connection, or, in latency mode, inside the upstream by estimate.
    pub pending: u64,
    /// Requests in flight in the whole Envoy, as this worker estimates it.
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
        let clusters: Vec<Box<str>> =
            overload.upstreams.iter().map(|upstream| upstream.cluster.clone()).collect();
        let bounds = |upstream: &Upstream| Bounds {
            max_in_flight: upstream.max_in_flight,
            streams_max: overload.streams_max,
            retry_after_max_s: overload.retry_after_max_s,
            floor: f64::from(overload.floor_percent) / 100.0,
            tenants: overload.tenant.is_some(),
        };
        Control {
            lease: Lease {
                owner: seed,
                born_us: now_us,
                generation: hash(format!("{overload:?}").as_bytes()),
                renewed_us: now_us,
            },
            law: overload.law,
            mode: overload.mode,
            tick_us: overload.tick_us,
            target_delay_us: overload.target_delay_us,
            admin_cluster: overload.admin_cluster.clone(),
            poll_path: stats::query_path(&clusters).into(),
            domain: clusters.iter().fold(0, |sum, name| cohort::mix(sum ^ hash(name.as_bytes()))),
            stations: overload
                .upstreams
                .iter()
                .map(|upstream| Station::new(hash(upstream.cluster.as_bytes()), bounds(upstream), now_us))
                .collect(),
            upstreams: overload.upstreams.clone(),
            engaged: vec![false; clusters.len()],
            clusters,
            slot: None,
            leading: None,
            ticked_us: None,
            poller: Poller::default(),
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
        let upstream = arrival.upstream;
        let enforced = match self.mode {
            Mode::Enforce => true,
            Mode::Shadow => false,
            Mode::Percent(share) => cohort::mix(!arrival.random) % 10_000 < u64::from(share),
        };
        let Some(station) = self.stations.get_mut(upstream) else {
            let ticket = Ticket { upstream, class: arrival.class, started_us: now_us, kind: Kind::Ghost };
            return Decision::Admit(ticket);
        };
        match station.judge(arrival, now_us) {
            Ok((class, kind)) => Decision::Admit(station.enter(upstream, class, kind, now_us)),
            Err(shed) if enforced => Decision::Shed(shed),
            Err(shed) => Decision::WouldShed(station.enter(upstream, shed.class, Kind::Ghost, now_us), shed),
        }
    }

    /// Takes a place back. Call it once for each ticket, from the last callback of the request.
    pub fn done(&mut self, ticket: Ticket, ending: Ending, now_us: u64) {
        if let Some(station) = self.stations.get_mut(ticket.upstream) {
            station.leave(&ticket, ending, now_us);
        }
    }

    /// Reads what others published, publishes its own, and, when leading, decides for all.
    pub fn tick(&mut self, shared: &mut dyn Shared, now_us: u64) -> Tick {
        let elapsed_us = match self.ticked_us {
            Some(last) => now_us.saturating_sub(last).clamp(1, 10 * self.tick_us),
            None => self.tick_us,
        };
        self.ticked_us = Some(now_us);
        let elapsed_s = elapsed_us as f64 / 1e6;
        let mut tick =
            Tick { poll: None, events: self.poller.change().map(Event::from).into_iter().collect() };

        let entries = self.stations.iter_mut().map(|station| station.publish(elapsed_s, now_us)).collect();
        let own = Record { owner: self.lease.owner, written_us: now_us, entries };
        let others = self.exchange(shared, &own, now_us);
        self.hear(&others);

        let snapshot_key = format!("overload.snapshot.{:016x}", self.domain);
        let mut snapshot = shared.read(&snapshot_key).and_then(|(bytes, _)| Snapshot::decode(&bytes));
        if self.lead(shared, now_us) {
            if self.leading.is_none() {
                self.leading = Some(self.start_leading(snapshot.as_ref()));
                tick.events.push(Event::Leading);
            }
            let decided = self.decide(&own, &others, elapsed_s, now_us);
            shared.write(&snapshot_key, &decided.encode(), None);
            snapshot = Some(decided);
            tick.poll = self.poll(now_us);
        } else {
            self.leading = None;
        }
        self.follow(snapshot.as_ref(), elapsed_s, now_us, &mut tick.events);
        tick
    }

    /// The answer to a [`Poll`]: the body of a 200, or `None` for anything else.
    pub fn on_poll(&mut self, body: Option<&[u8]>, now_us: u64) {
        let parsed = body.and_then(|body| stats::parse(body, &self.clusters));
        self.poller.answered(parsed.is_some(), self.tick_us, now_us);
        let (Some(found), Some(leading)) = (parsed, &mut self.leading) else { return };
        for (estimator, stats) in leading.estimators.iter_mut().zip(found) {
            if let Some(stats) = stats {
                estimator.on_poll(stats, now_us);
            }
        }
    }

    /// What metrics show, one for each upstream.
    pub fn gauges(&self, now_us: u64) -> impl Iterator<Item = Gauges<'_>> {
        self.clusters.iter().zip(&self.stations).map(move |(cluster, station)| {
            let guidance = station.guidance();
            let polled_us = guidance.map(|guidance| guidance.polled_us).filter(|at_us| *at_us != 0);
            Gauges {
                cluster,
                limit: guidance.map_or(0, |guidance| guidance.limit as u64),
                pending: guidance.map_or(0, |guidance| guidance.pending as u64),
                in_flight: station.estimate() as u64,
                engaged: guidance.is_some_and(|guidance| guidance.engaged),
                poll_age_ms: polled_us.map(|at_us| now_us.saturating_sub(at_us) / 1_000),
                latency_mode: guidance.is_some_and(|guidance| guidance.latency_mode),
            }
        })
    }

    /// Requests in flight through this VM, all kinds; 0 when nothing is going on.
    pub fn in_flight(&self) -> u64 {
        self.stations.iter().map(Station::in_flight).sum()
    }

    fn start_leading(&self, snapshot: Option<&Snapshot>) -> Leading {
        let earlier = |cluster: &str| {
            let hash = hash(cluster.as_bytes());
            snapshot?.entries.iter().find(|entry| entry.cluster == hash)
        };
        let estimators = self.upstreams.iter().map(|upstream| {
            Estimator::new(
                self.law,
                self.target_delay_us,
                self.tick_us,
                upstream.max_connections,
                earlier(&upstream.cluster),
            )
        });
        Leading {
            estimators: estimators.collect(),
            tallies: self.upstreams.iter().map(|_| Tally::default()).collect(),
        }
    }

    /// Publishes the own record in a slot of its own and reads all others that live.
    fn exchange(&mut self, shared: &mut dyn Shared, own: &Record, now_us: u64) -> Vec<Record> {
        let mut others = Vec::new();
        let mut free: Option<(usize, Option<Version>)> = None;
        let mut held = None;
        for slot in 0..SLOTS_MAX {
            let Some((bytes, version)) = shared.read(&slot_key(slot)) else {
                free = free.or(Some((slot, None)));
                break;
            };
            match Record::decode(&bytes) {
                Some(record) if record.owner == own.owner => held = Some(slot),
                Some(record) if record.fresh(now_us, FRESH_TICKS * self.tick_us) => others.push(record),
                Some(record) if record.fresh(now_us, SLOT_FREE_US) => {}
                Some(_) | None => free = free.or(Some((slot, Some(version)))),
            }
        }
        self.slot = held;
        match (held, free) {
            (Some(slot), _) => {
                shared.write(&slot_key(slot), &own.encode(), None);
            }
            (None, Some((slot, version))) => {
                shared.write(&slot_key(slot), &own.encode(), version);
            }
            (None, None) => {}
        }
        others
    }

    fn hear(&mut self, others: &[Record]) {
        for (station, cluster) in self.stations.iter_mut().zip(&self.clusters) {
            let (mut in_flight, mut demand, mut workers) = (0.0, 0.0, 0);
            for entry in entries_of(others, hash(cluster.as_bytes())).map(|(_, _, entry)| entry) {
                in_flight += entry.in_flight as f64;
                demand += entry.demand;
                workers += usize::from(0.0 < entry.demand);
            }
            // Before anybody has had a request, everybody may be about to.
            station.hear(in_flight, demand, if demand == 0.0 { others.len() } else { workers });
        }
    }

    /// Claims, renews or yields the lease; true while it is ours. What was written is read again, since two first
    /// writers both succeed; should both read before the other wrote, both lead for one tick, which does no harm.
    fn lead(&mut self, shared: &mut dyn Shared, now_us: u64) -> bool {
        let key = format!("overload.lease.{:016x}", self.domain);
        let read = shared.read(&key);
        let written = read.as_ref().and_then(|(bytes, _)| Lease::decode(bytes));
        let claim = self.lease.claim(written, now_us, LEASE_TICKS * self.tick_us);
        if claim == Claim::Follow {
            return false;
        }
        self.lease.renewed_us = now_us;
        let kept = shared.write(&key, &self.lease.encode(), read.map(|(_, version)| version));
        let holder = shared.read(&key).and_then(|(bytes, _)| Lease::decode(&bytes));
        kept && holder.is_some_and(|holder| holder.owner == self.lease.owner)
    }

    fn decide(&mut self, own: &Record, others: &[Record], elapsed_s: f64, now_us: u64) -> Snapshot {
        let mut entries = Vec::new();
        let Some(leading) = &mut self.leading else { return Snapshot::default() };
        let parts = leading.estimators.iter_mut().zip(&mut leading.tallies).zip(&self.clusters);
        for ((estimator, tally), cluster) in parts {
            let cluster = hash(cluster.as_bytes());
            let own = entries_of(std::slice::from_ref(own), cluster);
            let all: Vec<(u64, u64, &Entry)> = own.chain(entries_of(others, cluster)).collect();
            let flow = tally.update(&all, elapsed_s);
            let named = all.iter().flat_map(|(.., entry)| entry.tenants.iter().copied());
            let tenants = tenant::merge(named, TENANTS);
            entries.push(Guidance { cluster, ..estimator.update(&flow, &tenants, now_us) });
        }
        Snapshot { owner: self.lease.owner, written_us: now_us, entries }
    }

    fn follow(&mut self, snapshot: Option<&Snapshot>, elapsed_s: f64, now_us: u64, events: &mut Vec<Event>) {
        let fresh =
            snapshot.filter(|snapshot| snapshot.fresh(now_us, (FRESH_TICKS * self.tick_us).max(1_000_000)));
        let stations = self.stations.iter_mut().zip(&self.clusters).zip(&mut self.engaged).enumerate();
        for (upstream, ((station, cluster), engaged)) in stations {
            let hash = hash(cluster.as_bytes());
            let guidance =
                fresh.and_then(|snapshot| snapshot.entries.iter().find(|entry| entry.cluster == hash));
            station.follow(guidance, elapsed_s);
            let Some(guidance) = guidance else { continue };
            if guidance.engaged != *engaged {
                *engaged = guidance.engaged;
                // Every worker follows, one of them tells.
                if self.leading.is_some() {
                    events.push(if guidance.engaged {
                        Event::Engaged { upstream, limit: guidance.limit }
                    } else {
                        Event::Released { upstream }
                    });
                }
            }
        }
    }

    fn poll(&mut self, now_us: u64) -> Option<Poll> {
        let cluster = self.admin_cluster.clone()?;
        let timeout_us = (2 * self.tick_us).max(100_000);
        self.poller.due(now_us, timeout_us).then(|| Poll {
            cluster,
            path: self.poll_path.clone(),
            timeout_us,
        })
    }
}

impl From<Change> for Event {
    fn from(change: Change) -> Event {
        match change {
            Change::Lost => Event::PollLost,
            Change::Found => Event::PollFound,
        }
    }
}

fn entries_of(records: &[Record], cluster: u64) -> impl Iterator<Item = (u64, u64, &Entry)> {
    records.iter().filter_map(move |record| {
        let entry = record.entries.iter().find(|entry| entry.cluster == cluster)?;
        Some((record.owner, record.written_us, entry))
    })
}

fn slot_key(slot: usize) -> String {
    format!("overload.worker.{slot}")
}

/// FNV-1a: stable between builds, which `std`'s hashers do not promise.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
