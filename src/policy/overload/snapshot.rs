//! What the leader tells all workers: thresholds, so that a worker need not know any law.

use super::codec::{Reader, Writer};
use super::record::{CLASSES, TenantRate, decode_tenants, encode_tenants};

/// Tenants a snapshot names for each upstream.
pub(super) const TENANTS: usize = 32;
const UPSTREAMS: usize = 64;
const MAGIC: u64 = 0x3130_5041_4e53_4753;

/// The leader's word.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Who leads.
    pub owner: u64,
    /// When it was written, microseconds.
    pub written_us: u64,
    /// One entry for each protected upstream.
    pub entries: Vec<Guidance>,
}

/// What a worker needs to judge requests to one upstream. Counts are requests in flight in the whole Envoy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Guidance {
    /// Hash of the cluster's name.
    pub cluster: u64,
    /// Shedding by class.
    pub engaged: bool,
    /// Latency sets the limit, not the connection bound.
    pub latency_mode: bool,
    /// Stats are being had.
    pub polled_us: u64,
    /// Requests that wait for a connection.
    pub pending: f64,
    /// Requests that the upstream works on without queueing.
    pub limit: f64,
    /// Admit below this, by class, while engaged.
    pub open: [f64; CLASSES],
    /// Admit requests that were not selected below this, while engaged.
    pub closed: f64,
    /// Admit below this, by class, while not engaged.
    pub hard: [f64; CLASSES],
    /// Share of a class to select, 0 to 1.
    pub select: [f64; CLASSES],
    /// Most that one unit of weight may ask for a second before its tenant is thinned; infinite when 0.
    pub fair_rate: [f64; CLASSES],
    /// Time until what was shed so far could be served, seconds, by class.
    pub backlog_s: [f64; CLASSES],
    /// Requests a second that the upstream finishes when busy; 0 when unknown.
    pub capacity: f64,
    /// Time to response headers without queueing, microseconds; 0 when unknown.
    pub base_us: f64,
    /// The connection bound in use; 0 when none is known.
    pub bound: f64,
    /// Largest limit that latency has vouched for.
    pub proven: f64,
    /// The heaviest tenants of all workers.
    pub tenants: Vec<TenantRate>,
}

impl Snapshot {
    /// Fixed layout, little endian.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u64s(&[MAGIC, self.owner, self.written_us, self.entries.len() as u64]);
        for entry in &self.entries {
            writer.u64s(&[
                entry.cluster,
                u64::from(entry.engaged),
                u64::from(entry.latency_mode),
                entry.polled_us,
            ]);
            writer.amounts(&[entry.pending, entry.limit, entry.closed]);
            writer.amounts(&entry.open);
            writer.amounts(&entry.hard);
            writer.amounts(&entry.select);
            writer.amounts(&entry.fair_rate);
            writer.amounts(&entry.backlog_s);
            writer.amounts(&[entry.capacity, entry.base_us, entry.bound, entry.proven]);
            encode_tenants(&mut writer, &entry.tenants);
        }
        writer.into_bytes()
    }

    /// The snapshot in these bytes; `None` when they are not one.
    pub fn decode(bytes: &[u8]) -> Option<Snapshot> {
        let mut reader = Reader::new(bytes);
        let [magic, owner, written_us] = reader.u64s()?;
        if magic != MAGIC {
            return None;
        }
        let mut entries = Vec::new();
        for _ in 0..reader.count(UPSTREAMS)? {
            let [cluster, engaged, latency_mode, polled_us] = reader.u64s()?;
            let [pending, limit, closed] = reader.amounts()?;
            let (open, hard, select) = (reader.amounts()?, reader.amounts()?, reader.amounts()?);
            let (fair_rate, backlog_s) = (reader.amounts()?, reader.amounts()?);
            let [capacity, base_us, bound, proven] = reader.amounts()?;
            let tenants = decode_tenants(&mut reader, TENANTS)?;
            entries.push(Guidance {
                cluster,
                engaged: engaged != 0,
                latency_mode: latency_mode != 0,
                polled_us,
                pending,
                limit,
                open,
                closed,
                hard,
                select,
                fair_rate,
                backlog_s,
                capacity,
                base_us,
                bound,
                proven,
                tenants,
            });
        }
        Some(Snapshot { owner, written_us, entries })
    }

    /// Written within this time.
    pub fn fresh(&self, now_us: u64, age_max_us: u64) -> bool {
        now_us.abs_diff(self.written_us) <= age_max_us
    }
}
