//! What one worker tells the others, each tick.
//!
//! Counters only grow, so a record that was read late or not at all loses nothing; rates come from differences.

use super::codec::{Reader, Writer};

/// Classes that saturation can refuse.
pub(super) const CLASSES: usize = 5;
/// Tenants a record names for each upstream: the heaviest.
pub(super) const TENANTS: usize = 8;
const UPSTREAMS: usize = 64;
const MAGIC: u64 = 0x3130_4452_4543_4753;

/// One VM's numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Who wrote it: random, unique.
    pub owner: u64,
    /// When, microseconds.
    pub written_us: u64,
    /// One entry for each protected upstream.
    pub entries: Vec<Entry>,
}

/// One VM's numbers about one upstream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// Hash of the cluster's name.
    pub cluster: u64,
    /// Requests in flight, long-lived ones apart.
    pub in_flight: u64,
    /// Requests offered by class, counter.
    pub offered: [u64; CLASSES],
    /// Requests shed by class, counter.
    pub shed: [u64; CLASSES],
    /// Requests that the upstream finished, well or badly, counter; abandoned ones are not.
    pub ended: u64,
    /// Requests that were answered and say how long service takes, counter.
    pub answered: u64,
    /// Integral of requests in flight over time, request-microseconds, counter.
    pub area_us: u64,
    /// Part of it after response headers, counter.
    pub trailed_us: u64,
    /// Part of it that says nothing about service: failed or withdrawn requests, counter.
    pub excused_us: u64,
    /// Requests offered a second, smoothed; decides the worker's share.
    pub demand: f64,
    /// The heaviest tenants.
    pub tenants: Vec<TenantRate>,
}

/// How much one tenant asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TenantRate {
    /// Fingerprint.
    pub tenant: u64,
    /// Index in the classes that can be shed.
    pub class: usize,
    /// Weight, at least 1.
    pub weight: f64,
    /// Requests offered a second.
    pub rate: f64,
}

impl Record {
    /// Fixed layout, little endian.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u64s(&[MAGIC, self.owner, self.written_us, self.entries.len() as u64]);
        for entry in &self.entries {
            writer.u64s(&[entry.cluster, entry.in_flight]);
            writer.u64s(&entry.offered);
            writer.u64s(&entry.shed);
            writer.u64s(&[entry.ended, entry.answered]);
            writer.u64s(&[entry.area_us, entry.trailed_us, entry.excused_us]);
            writer.amount(entry.demand);
            encode_tenants(&mut writer, &entry.tenants);
        }
        writer.into_bytes()
    }

    /// The record in these bytes; `None` when they are not one.
    pub fn decode(bytes: &[u8]) -> Option<Record> {
        let mut reader = Reader::new(bytes);
        let [magic, owner, written_us] = reader.u64s()?;
        if magic != MAGIC {
            return None;
        }
        let mut entries = Vec::new();
        for _ in 0..reader.count(UPSTREAMS)? {
            let [cluster, in_flight] = reader.u64s()?;
            let (offered, shed) = (reader.u64s()?, reader.u64s()?);
            let [ended, answered, area_us, trailed_us, excused_us] = reader.u64s()?;
            let demand = reader.amount()?;
            let tenants = decode_tenants(&mut reader, TENANTS)?;
            entries.push(Entry {
                cluster,
                in_flight,
                offered,
                shed,
                ended,
                answered,
                area_us,
                trailed_us,
                excused_us,
                demand,
                tenants,
            });
        }
        Some(Record { owner, written_us, entries })
    }

    /// Written within this time. A clock that stepped back leaves records from the future: those are dead too.
    pub fn fresh(&self, now_us: u64, age_max_us: u64) -> bool {
        now_us.abs_diff(self.written_us) <= age_max_us
    }
}

pub(super) fn encode_tenants(writer: &mut Writer, tenants: &[TenantRate]) {
    writer.u64(tenants.len() as u64);
    for tenant in tenants {
        writer.u64s(&[tenant.tenant, tenant.class as u64]);
        writer.amounts(&[tenant.weight, tenant.rate]);
    }
}

pub(super) fn decode_tenants(reader: &mut Reader<'_>, max: usize) -> Option<Vec<TenantRate>> {
    let mut tenants = Vec::new();
    for _ in 0..reader.count(max)? {
        let (tenant, class) = (reader.u64()?, reader.count(CLASSES - 1)?);
        let [weight, rate] = reader.amounts()?;
        tenants.push(TenantRate { tenant, class, weight: weight.max(1.0), rate });
    }
    Some(tenants)
}
