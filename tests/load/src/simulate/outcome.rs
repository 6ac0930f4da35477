//! What came of a simulation.

use crate::system::Belief;
use serde::Serialize;
use sluicegate_policy::overload::control::Event;

/// Everything that was counted, by the phase in which an attempt was sent.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// Requests a second the upstream can finish, without slowdown.
    pub capacity: f64,
    /// By phase.
    pub phases: Vec<PhaseOutcome>,
    /// By tenth of a second.
    pub timeline: Vec<Moment>,
    /// Requests in flight by the controller's own count after everything has ended: 0, or it leaks.
    pub leaked: u64,
    /// What was told to the log, with its time, microseconds.
    #[serde(skip)]
    pub told: Vec<(u64, Event)>,
}

/// One phase.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PhaseOutcome {
    /// Start and length, seconds.
    pub start_s: f64,
    /// Length, seconds.
    pub seconds: f64,
    /// First attempts over the nominal capacity.
    pub load: f64,
    /// What the upstream could do in it over the nominal capacity.
    pub capacity: f64,
    /// By class, critical first.
    pub classes: [ClassOutcome; 5],
    /// Good answers by tenant: asked, served, of the class `normal`.
    pub tenants: Vec<(f64, f64)>,
    /// Sum and number of the service times drawn, to correct for chance.
    pub drawn_us: f64,
    /// Number of service times drawn.
    pub draws: u64,
    /// Requests the upstream finished for nobody.
    pub wasted: u64,
}

/// One class in one phase.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ClassOutcome {
    /// Attempts.
    pub offered: u64,
    /// Let in.
    pub admitted: u64,
    /// Refused.
    pub shed: u64,
    /// Answered in time.
    pub ok: u64,
    /// Answered late, or the client left.
    pub missed: u64,
    /// Time from the attempt to the answer, milliseconds, of those answered.
    #[serde(skip)]
    pub latencies_ms: Vec<f64>,
}

/// A tenth of a second.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Moment {
    /// Attempts.
    pub offered: u32,
    /// Answered in time, at the time of the answer.
    pub ok: u32,
    /// Refused.
    pub shed: u32,
    /// Refused of class normal and above.
    pub shed_upper: u32,
    /// Requests in flight.
    pub in_flight: u32,
    /// What the controller believes.
    pub belief: Belief,
}

impl PhaseOutcome {
    /// Good answers over what the upstream could have given, with the service times that were drawn.
    pub fn goodput(&self, capacity: f64, service_us: f64) -> f64 {
        let ok: u64 = self.classes.iter().map(|class| class.ok).sum();
        let drawn = if self.draws == 0 { 1.0 } else { self.drawn_us / self.draws as f64 / service_us };
        ok as f64 / (capacity * self.capacity * self.seconds) * drawn
    }

    /// Share of a class that was answered in time.
    pub fn success(&self, class: usize) -> f64 {
        let class = &self.classes[class];
        if class.offered == 0 { 1.0 } else { class.ok as f64 / class.offered as f64 }
    }

    /// Share of attempts that was refused, of the first so many classes.
    pub fn shed(&self, classes: usize) -> f64 {
        let classes = &self.classes[..classes];
        let offered: u64 = classes.iter().map(|class| class.offered).sum();
        let shed: u64 = classes.iter().map(|class| class.shed).sum();
        if offered == 0 { 0.0 } else { shed as f64 / offered as f64 }
    }

    /// A percentile of the time that answered requests took, milliseconds; 0 of nothing.
    pub fn latency_ms(&self, share: f64) -> f64 {
        let mut all: Vec<f64> =
            self.classes.iter().flat_map(|class| class.latencies_ms.iter().copied()).collect();
        all.sort_by(f64::total_cmp);
        let rank = (share * all.len() as f64).ceil() as usize;
        all.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
    }

    /// Jain's index over what each tenant got of its max-min fair share.
    pub fn fairness(&self) -> f64 {
        let mut demands: Vec<f64> = self.tenants.iter().map(|(asked, _)| *asked).collect();
        demands.sort_by(f64::total_cmp);
        let mut left: f64 = self.tenants.iter().map(|(_, served)| *served).sum();
        let mut level = f64::INFINITY;
        for (index, demand) in demands.iter().enumerate() {
            let even = left / (demands.len() - index) as f64;
            if even < *demand {
                level = even;
                break;
            }
            left -= demand;
        }
        let ratios: Vec<f64> = self
            .tenants
            .iter()
            .map(|(asked, served)| served / asked.min(level).max(f64::MIN_POSITIVE))
            .collect();
        let (sum, squares) = ratios.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
        if squares == 0.0 { 1.0 } else { sum * sum / (ratios.len() as f64 * squares) }
    }
}

impl Outcome {
    fn window(&self, from_s: f64, to_s: f64) -> impl Iterator<Item = &Moment> {
        let from = (from_s * 10.0).round() as usize;
        let to = ((to_s * 10.0).round() as usize).min(self.timeline.len());
        self.timeline[from.min(to)..to].iter()
    }

    /// Seconds into a phase until the next second brings nine tenths of the capacity.
    pub fn onset_s(&self, phase: usize) -> Option<f64> {
        let PhaseOutcome { start_s, seconds, capacity, .. } = self.phases[phase];
        let steps = ((seconds - 1.0) * 10.0).max(0.0) as usize;
        (0..=steps).map(|step| step as f64 / 10.0).find(|after| {
            let ok: u32 = self.window(start_s + after, start_s + after + 1.0).map(|moment| moment.ok).sum();
            0.9 * self.capacity * capacity <= f64::from(ok)
        })
    }

    /// Seconds into a phase until the last half second in which more than one in a thousand was refused.
    pub fn recovery_s(&self, phase: usize) -> f64 {
        let PhaseOutcome { start_s, seconds, .. } = self.phases[phase];
        let steps = ((seconds - 0.5) * 10.0).max(0.0) as usize;
        let bad = (0..=steps).rev().map(|step| step as f64 / 10.0).find(|after| {
            let (offered, shed) = self
                .window(start_s + after, start_s + after + 0.5)
                .fold((0, 0), |(offered, shed), moment| (offered + moment.offered, shed + moment.shed));
            f64::from(offered) < f64::from(shed) * 1_000.0
        });
        bad.map_or(0.0, |after| after + 0.5)
    }

    /// Seconds into a phase at which the last of class normal or above was refused.
    pub fn last_upper_shed_s(&self, phase: usize) -> f64 {
        let PhaseOutcome { start_s, seconds, .. } = self.phases[phase];
        let moments: Vec<&Moment> = self.window(start_s, start_s + seconds).collect();
        moments
            .iter()
            .rposition(|moment| 0 < moment.shed_upper)
            .map_or(0.0, |index| (index + 1) as f64 / 10.0)
    }
}
