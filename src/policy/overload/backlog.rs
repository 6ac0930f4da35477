//! Retry-After: when what was put off could be served.
//!
//! Clients that were told to wait come back. Telling each the same short time makes them come back together, into an
//! upstream that still has little to spare. So what was shed is kept as a queue that drains at the spare capacity, more
//! important classes first, and each shed is told when its turn would be.

use super::average::gain;
use super::record::CLASSES;

/// The spare capacity is never taken for less than this part: it is what the next calm period will offer.
const SPARE_LEAST: f64 = 0.1;
/// Those who come back may fill the upstream up to this part, beyond which classes would be refused again.
const BUSY: f64 = 0.9;
/// Not everybody comes back; what did not within this time is forgotten, seconds.
const FORGET_S: f64 = 30.0;

/// Sheds that have not come back.
#[derive(Clone, Debug, Default)]
pub(super) struct Backlog {
    put_off: [f64; CLASSES],
}

impl Backlog {
    /// Adds what was shed in a tick and takes out what the spare capacity could have served.
    pub(super) fn update(
        &mut self,
        shed: &[f64; CLASSES],
        capacity: f64,
        demand: f64,
        elapsed_s: f64,
    ) -> [f64; CLASSES] {
        let spare = (BUSY * capacity - demand).max(SPARE_LEAST * capacity);
        let kept = 1.0 - gain(elapsed_s, FORGET_S);
        let mut drain = spare * elapsed_s;
        let mut ahead = 0.0;
        let mut waits = [0.0; CLASSES];
        for ((put_off, shed), wait) in self.put_off.iter_mut().zip(shed).zip(&mut waits) {
            let drained = put_off.min(drain);
            drain -= drained;
            *put_off = (*put_off - drained) * kept + shed;
            ahead += *put_off;
            *wait = if 0.0 < spare { ahead / spare } else { 0.0 };
        }
        waits
    }
}

/// The `Retry-After` of one shed, whole seconds, 1 to `max_s`: its turn, spread over half of the wait so that those
/// who were shed together do not return together. `random` is 64 uniform bits.
pub(super) fn retry_after_s(backlog_s: f64, max_s: u32, random: u64) -> u32 {
    let max = f64::from(max_s.max(1));
    let backlog_s = backlog_s.max(0.0);
    let latest = (1.25 * backlog_s).min(max);
    // A backlog beyond the longest wait can only be spread: the deeper it is, the wider.
    let earliest = 0.6 * latest * (latest / (1.25 * backlog_s).max(1e-9));
    let uniform = (random >> 11) as f64 / (1_u64 << 53) as f64;
    let seconds = 1.0 + earliest + (latest - earliest + 1.0) * uniform;
    // Truncation is the rounding wanted here, and the value is within 1 to max.
    seconds.min(max) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_class_waits_behind_the_higher_ones() {
        let mut backlog = Backlog::default();
        let waits = backlog.update(&[0.0, 0.0, 80.0, 80.0, 80.0], 800.0, 1_600.0, 0.1);
        assert_eq!(waits, [0.0, 0.0, 1.0, 2.0, 3.0]);
        let later = backlog.update(&[0.0; CLASSES], 800.0, 640.0, 1.0);
        assert!((1.8..2.0).contains(&later[4]), "80 of 240 have drained: {later:?}");
    }

    #[test]
    fn stays_within_its_bounds() {
        for random in [0, 1 << 40, u64::MAX] {
            assert_eq!(retry_after_s(0.0, 60, random).max(2), 2);
            assert!((1..=60).contains(&retry_after_s(1e9, 60, random)));
            assert_eq!(retry_after_s(f64::NAN, 1, random), 1);
        }
    }
}
