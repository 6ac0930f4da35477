//! Fair shares inside a class while it is contended.
//!
//! Each worker counts its heaviest tenants and publishes them; the leader adds them up and finds, by water-filling, the
//! rate per unit of weight at which the class's room is used up (max-min fairness). Tenants below it are served whole,
//! those above are thinned to it. Only the headroom shrinks: a thinned request still gets in when the upstream is not
//! full.

use super::cohort::mix;
use super::record::{CLASSES, TenantRate};
use super::thin::Selector;
use crate::order::sort;

const SLOTS: usize = 1_024;
const WAYS: usize = 4;
/// Share of the way an average moves each tick.
const GAIN: f64 = 0.4;
/// A tenant below this rate is forgotten, requests a second.
const IDLE: f64 = 0.05;

/// Demand by tenant in one worker: a hashed table of fixed size, in which the heavier stay.
#[derive(Debug, Default)]
pub(super) struct Tenants {
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    tenant: u64,
    class: usize,
    weight: f64,
    count: f64,
    rate: f64,
    selector: Selector,
}

impl Tenants {
    /// Counts a request and, given its share, says whether it is selected; `None` when the table has no place for it.
    pub(super) fn offer(&mut self, tenant: u64, class: usize, weight: u32, share: f64) -> Option<bool> {
        if self.slots.is_empty() {
            self.slots = vec![Slot::default(); SLOTS];
        }
        let ways = self.ways(tenant, class);
        let known = ways.iter().position(|slot| slot.tenant == tenant && slot.class == class);
        let index = match known {
            Some(index) => index,
            None => {
                let (index, lightest) =
                    ways.iter().enumerate().min_by(|(_, a), (_, b)| a.load().total_cmp(&b.load()))?;
                if 1.0 < lightest.load() && lightest.tenant != 0 {
                    return None;
                }
                index
            }
        };
        let slot = ways.get_mut(index)?;
        if known.is_none() {
            *slot = Slot { tenant, class, ..Slot::default() };
        }
        slot.weight = f64::from(weight.max(1));
        slot.count += 1.0;
        Some(slot.selector.select(share))
    }

    /// A request that was not selected got in all the same.
    pub(super) fn charge(&mut self, tenant: u64, class: usize) {
        let known = |slot: &&mut Slot| slot.tenant == tenant && slot.class == class;
        if let Some(slot) = self.ways(tenant, class).iter_mut().find(known) {
            slot.selector.charge();
        }
    }

    fn ways(&mut self, tenant: u64, class: usize) -> &mut [Slot] {
        let start = mix(tenant ^ mix(class as u64)) as usize % (SLOTS / WAYS) * WAYS;
        self.slots.get_mut(start..start + WAYS).unwrap_or_default()
    }

    /// Ends a tick: moves the averages and names the heaviest.
    pub(super) fn tick(&mut self, elapsed_s: f64, most: usize) -> Vec<TenantRate> {
        let mut heaviest: Vec<TenantRate> = Vec::new();
        for slot in self.slots.iter_mut().filter(|slot| slot.tenant != 0) {
            slot.rate += GAIN * (slot.count / elapsed_s.max(1e-3) - slot.rate);
            slot.count = 0.0;
            if slot.rate < IDLE {
                *slot = Slot::default();
                continue;
            }
            let Slot { tenant, class, weight, rate, .. } = *slot;
            heaviest.push(TenantRate { tenant, class, weight, rate });
        }
        sort(&mut heaviest, |a, b| b.rate.total_cmp(&a.rate));
        heaviest.truncate(most);
        heaviest
    }
}

impl Slot {
    fn load(&self) -> f64 {
        self.rate + self.count
    }
}

/// Adds up what the workers name.
pub(super) fn merge(named: impl Iterator<Item = TenantRate>, most: usize) -> Vec<TenantRate> {
    let mut merged: Vec<TenantRate> = Vec::new();
    for tenant in named {
        match merged.iter_mut().find(|known| known.tenant == tenant.tenant && known.class == tenant.class) {
            Some(known) => known.rate += tenant.rate,
            None => merged.push(tenant),
        }
    }
    sort(&mut merged, |a, b| b.rate.total_cmp(&a.rate));
    merged.truncate(most);
    merged
}

/// The rate per unit of weight at which a class's room is used up, and the share of what lies below it; `None` when
/// everything fits.
pub(super) fn fair_rate(class: usize, tenants: &[TenantRate], offered: f64, room: f64) -> Option<Fair> {
    if offered <= room || CLASSES <= class {
        return None;
    }
    let mut heavy: Vec<TenantRate> = tenants.iter().copied().filter(|tenant| tenant.class == class).collect();
    sort(&mut heavy, |a, b| (b.rate / b.weight).total_cmp(&(a.rate / a.weight)));
    // From the heaviest down: cap those above the level, leave the others whole, stop when it fits.
    let (mut capped_weight, mut below) = (0.0, offered);
    for (index, tenant) in heavy.iter().enumerate() {
        capped_weight += tenant.weight;
        below = (below - tenant.rate).max(0.0);
        let level = (room - below) / capped_weight;
        let next = heavy.get(index + 1).map_or(0.0, |next| next.rate / next.weight);
        if next <= level {
            return Some(Fair { rate: level, share_below: 1.0 });
        }
    }
    // Even without the named ones the rest does not fit: all are thinned alike, the named to the least of them.
    let least = heavy.last().map_or(f64::MAX, |tenant| tenant.rate / tenant.weight);
    let named: f64 = heavy.iter().map(|tenant| tenant.rate.min(least * tenant.weight)).sum();
    let total = (named + below).max(f64::MIN_POSITIVE);
    let share = (room / total).clamp(0.0, 1.0);
    Some(Fair { rate: least * share, share_below: share })
}

/// How a contended class is shared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fair {
    /// Requests a second for each unit of weight.
    pub(super) rate: f64,
    /// Share selected of tenants below that rate.
    pub(super) share_below: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(tenant: u64, weight: f64, rate: f64) -> TenantRate {
        TenantRate { tenant, class: 2, weight, rate }
    }

    #[test]
    fn the_elephant_is_cut_to_the_level_and_mice_are_whole() {
        let tenants: Vec<TenantRate> =
            (1..=10).map(|id| tenant(id, 1.0, if id == 1 { 500.0 } else { 20.0 })).collect();
        let fair = fair_rate(2, &tenants, 680.0, 300.0).unwrap();
        assert_eq!(fair, Fair { rate: 120.0, share_below: 1.0 });
        assert_eq!(fair_rate(2, &tenants, 680.0, 700.0), None);
    }

    #[test]
    fn equal_tenants_share_equally() {
        let tenants: Vec<TenantRate> = (1..=4).map(|id| tenant(id, 1.0, 100.0)).collect();
        assert_eq!(fair_rate(2, &tenants, 400.0, 200.0).unwrap().rate, 50.0);
    }

    #[test]
    fn weights_multiply_the_share() {
        let tenants = [tenant(1, 3.0, 300.0), tenant(2, 1.0, 300.0)];
        assert_eq!(fair_rate(2, &tenants, 600.0, 200.0).unwrap().rate, 50.0);
    }

    #[test]
    fn a_crowd_of_unnamed_tenants_is_thinned_alike() {
        let fair = fair_rate(2, &[tenant(1, 1.0, 100.0)], 1_100.0, 275.0).unwrap();
        assert!((fair.share_below - 0.25).abs() < 1e-9 && (fair.rate - 25.0).abs() < 1e-9, "{fair:?}");
    }

    #[test]
    fn the_table_keeps_the_heavy_ones() {
        let mut tenants = Tenants::default();
        for round in 0..50 {
            for id in 1..=5_000_u64 {
                tenants.offer(id, 2, 1, 1.0);
            }
            for _ in 0..1_000 {
                tenants.offer(9_999_999, 2, 1, 1.0);
            }
            let heaviest = tenants.tick(0.1, 1);
            if 10 < round {
                assert_eq!(heaviest[0].tenant, 9_999_999);
            }
        }
    }
}
