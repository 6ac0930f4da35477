//! A test of the base: a dip of the limit, and whether throughput follows.
//!
//! Requests in flight at half of what should keep the upstream busy: if throughput falls by as much there was no queue
//! left, and the time seen is the base. If it holds, the time seen is an upper bound. A deep dip is short, since what it
//! costs grows with its depth and what it tells with the square; it ends as soon as one verdict is much likelier.

use super::sample::Sample;

/// How deep it dips, as a part of what should keep the upstream busy.
const DEPTH: f64 = 0.5;
/// It ends when one verdict is this much likelier than the other (logarithm), within these bounds, seconds.
const SURE: f64 = 4.0;
const DIP_S: std::ops::Range<f64> = 0.1..2.0;
/// Above this part of what should keep the upstream busy nothing was tried.
const TRIED: f64 = 0.85;
/// Fewer answers say nothing.
const BEFORE_LEAST: f64 = 10.0;
const SEEN_LEAST: f64 = 5.0;

/// A test under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probe {
    before: Sample,
    dip: Option<Dip>,
}

#[derive(Clone, Copy, Debug)]
struct Dip {
    limit: f64,
    /// Its first moments, in which what was let in before ends, seconds.
    settle_s: f64,
    /// Requests in flight that should keep the upstream busy.
    product: f64,
    seen: Sample,
}

/// What a test has come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Finding {
    /// Throughput before the dip is known; [`Probe::dip`] is to go on.
    Measured(f64),
    /// Throughput fell with the requests in flight: the base is this.
    Base(f64),
    /// It held: the base is no more than this.
    Queue(f64),
    /// The load fell away by itself, or nothing comes back.
    Nothing,
}

impl Probe {
    /// The limit during the dip.
    pub(super) fn limit(&self) -> Option<f64> {
        self.dip.map(|dip| dip.limit)
    }

    /// Starts a dip, or a further one.
    pub(super) fn dip(&mut self, product: f64, base_us: f64) {
        self.dip = Some(Dip {
            limit: (DEPTH * product).max(1.0),
            settle_s: (2.0 * base_us / 1e6).clamp(0.1, 1.0),
            product,
            seen: Sample::default(),
        });
    }

    /// Takes in a tick.
    pub(super) fn advance(&mut self, tick: &Sample) -> Option<Finding> {
        let Some(dip) = &mut self.dip else {
            self.before.add(tick);
            return self.before.is_comparable().then(|| Finding::Measured(self.before.rate()));
        };
        if 0.0 < dip.settle_s {
            dip.settle_s -= tick.elapsed_s;
            return None;
        }
        dip.seen.add(tick);
        let left = dip.left(self.before.mean_in_flight());
        let evidence = dip.evidence(self.before.rate(), left);
        let over =
            DIP_S.end <= dip.seen.elapsed_s || (DIP_S.start <= dip.seen.elapsed_s && SURE <= evidence.abs());
        if !over {
            return None;
        }
        let answered = SEEN_LEAST <= dip.seen.answered && BEFORE_LEAST <= self.before.answered;
        Some(match dip.seen.mean_us() {
            _ if !answered || TRIED < left => Finding::Nothing,
            mean_us if 0.0 < evidence => Finding::Base(mean_us),
            mean_us => Finding::Queue(mean_us),
        })
    }
}

impl Dip {
    /// Requests in flight, as a part of what should keep the upstream busy; or, if that was never left, as a part of those
    /// before: then the base may be too short for it.
    fn left(&self, before: f64) -> f64 {
        let seen = self.seen.mean_in_flight();
        if TRIED * self.product < seen { seen / before.max(1e-3) } else { seen / self.product.max(1e-3) }
    }

    /// How much likelier (logarithm) so many answers are if throughput fell with the requests in flight than if it held,
    /// for answers that come at random.
    fn evidence(&self, before: f64, left: f64) -> f64 {
        let left = left.clamp(0.05, 1.0);
        let held = before * self.seen.elapsed_s;
        self.seen.ended * left.ln() + held * (1.0 - left)
    }
}
