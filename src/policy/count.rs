//! The accounts: what became of every request.
//!
//! Two equations hold at all times, because their left sides are never stored but summed from what is:
//!
//! ```text
//! offered  = admitted + quota_rejected + saturation_rejected{reason}
//! admitted = ok + failed + deadline_missed + outstanding
//! ```
//!
//! A request whose client leaves before a decision was had is in neither: it is counted as `abandoned`.

use crate::class::Class;
use crate::policy::Policy;
use crate::verdict::ShedReason;

/// What was decided about a request. Every request gets one, except those abandoned before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Sent on.
    Admit,
    /// Refused with 429.
    QuotaReject,
    /// Refused with 503.
    SaturationReject(ShedReason),
}

/// How an admitted request ended. Every admitted request gets exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Answered in time.
    Ok,
    /// Answered with a status of 500 or more, or not at all.
    Failed,
    /// Answered, but later than its caller was going to wait.
    DeadlineMissed,
}

/// What a limit did to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitEvent {
    /// Let it pass (leased ones too).
    Allowed,
    /// Refused it (known denials too).
    Limited,
    /// Would have refused it, in shadow mode.
    WouldLimit,
    /// No decision could be had: let it pass.
    FallbackAllow,
    /// No decision could be had: refused with 503.
    FallbackDeny,
    /// No decision could be had: the emergency allowance decided.
    FallbackLocal,
    /// Allowed from a lease, with no callout.
    Leased,
    /// Refused from memory, with no callout.
    KnownDenied,
}

/// All accounts of one worker.
#[derive(Debug)]
pub struct Counts {
    classes: [ClassCounts; Class::ALL.len()],
    limits: Vec<[u64; LimitEvent::ALL.len()]>,
    callout: CalloutCounts,
}

/// The accounts of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// Requests sent on.
    pub admitted: u64,
    /// Refused with 429.
    pub quota_rejected: u64,
    /// Refused with 503, by [`ShedReason::index`].
    pub saturation_rejected: [u64; ShedReason::ALL.len()],
    /// Admitted and answered in time.
    pub ok: u64,
    /// Admitted and failed.
    pub failed: u64,
    /// Admitted and answered too late.
    pub deadline_missed: u64,
    /// Admitted although saturation would have refused them, in shadow mode.
    pub would_shed: u64,
    /// Left before a decision.
    pub abandoned: u64,
}

/// The accounts of the way to the shim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CalloutCounts {
    /// Callouts sent.
    pub batches: u64,
    /// Takes in them.
    pub takes: u64,
    /// Callouts that brought no usable answer.
    pub failures: u64,
}

// === impl LimitEvent ===

impl LimitEvent {
    /// All events; `ALL[event.index()] == event`.
    pub const ALL: [LimitEvent; 8] = [
        LimitEvent::Allowed,
        LimitEvent::Limited,
        LimitEvent::WouldLimit,
        LimitEvent::FallbackAllow,
        LimitEvent::FallbackDeny,
        LimitEvent::FallbackLocal,
        LimitEvent::Leased,
        LimitEvent::KnownDenied,
    ];

    /// Position in [`LimitEvent::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// The name used in metrics.
    pub fn name(self) -> &'static str {
        match self {
            LimitEvent::Allowed => "allowed",
            LimitEvent::Limited => "limited",
            LimitEvent::WouldLimit => "would_limit",
            LimitEvent::FallbackAllow => "fallback_allow",
            LimitEvent::FallbackDeny => "fallback_deny",
            LimitEvent::FallbackLocal => "fallback_local",
            LimitEvent::Leased => "leased",
            LimitEvent::KnownDenied => "known_denied",
        }
    }
}

// === impl ClassCounts ===

impl ClassCounts {
    /// Requests that were decided about.
    pub fn offered(&self) -> u64 {
        self.admitted + self.quota_rejected + self.saturation_rejected.iter().sum::<u64>()
    }

    /// Admitted requests that have not ended.
    pub fn outstanding(&self) -> u64 {
        self.admitted.saturating_sub(self.ok + self.failed + self.deadline_missed)
    }
}

// === impl Counts ===

impl Counts {
    /// Empty accounts for this many limits.
    pub fn new(limits: usize) -> Self {
        Counts {
            classes: [ClassCounts::default(); Class::ALL.len()],
            limits: vec![[0; LimitEvent::ALL.len()]; limits],
            callout: CalloutCounts::default(),
        }
    }

    /// Counts a decision.
    pub fn decide(&mut self, class: Class, decision: Decision) {
        let Some(counts) = self.classes.get_mut(class.index()) else { return };
        match decision {
            Decision::Admit => counts.admitted += 1,
            Decision::QuotaReject => counts.quota_rejected += 1,
            Decision::SaturationReject(reason) => {
                if let Some(count) = counts.saturation_rejected.get_mut(reason.index()) {
                    *count += 1;
                }
            }
        }
    }

    /// Counts the end of an admitted request.
    pub fn end(&mut self, class: Class, ending: Ending) {
        let Some(counts) = self.classes.get_mut(class.index()) else { return };
        match ending {
            Ending::Ok => counts.ok += 1,
            Ending::Failed => counts.failed += 1,
            Ending::DeadlineMissed => counts.deadline_missed += 1,
        }
    }

    /// Counts a request that left before a decision.
    pub fn abandon(&mut self, class: Class) {
        if let Some(counts) = self.classes.get_mut(class.index()) {
            counts.abandoned += 1;
        }
    }

    /// Counts a request that saturation would have refused.
    pub fn would_shed(&mut self, class: Class) {
        if let Some(counts) = self.classes.get_mut(class.index()) {
            counts.would_shed += 1;
        }
    }

    /// Counts what a limit did.
    pub fn limit(&mut self, limit: usize, event: LimitEvent) {
        if let Some(count) = self.limits.get_mut(limit).and_then(|events| events.get_mut(event.index())) {
            *count += 1;
        }
    }

    /// Counts a callout with so many takes.
    pub fn sent(&mut self, takes: usize) {
        self.callout.batches += 1;
        self.callout.takes += takes as u64;
    }

    /// Counts a callout that brought no usable answer.
    pub fn callout_failed(&mut self) {
        self.callout.failures += 1;
    }

    /// The accounts of a class.
    pub fn class(&self, class: Class) -> ClassCounts {
        self.classes.get(class.index()).copied().unwrap_or_default()
    }

    /// How often an event happened to a limit.
    pub fn limit_events(&self, limit: usize, event: LimitEvent) -> u64 {
        self.limits.get(limit).and_then(|events| events.get(event.index())).copied().unwrap_or(0)
    }

    /// The accounts of the way to the shim.
    pub fn callout(&self) -> CalloutCounts {
        self.callout
    }

    /// Names of all counters, in the order of [`Counts::counters`].
    pub fn counter_names(policy: &Policy) -> Vec<String> {
        let mut names = Vec::new();
        for class in Class::ALL {
            let class = class.name();
            for name in CLASS_COUNTERS {
                names.push(format!("sluicegate.class.{class}.{name}"));
            }
            for reason in ShedReason::ALL {
                names.push(format!("sluicegate.class.{class}.saturation_rejected.{}", reason.name()));
            }
        }
        for limit in &policy.limits {
            for event in LimitEvent::ALL {
                names.push(format!("sluicegate.limit.{}.{}", limit.name, event.name()));
            }
        }
        names.extend(["batches", "takes", "failures"].map(|name| format!("sluicegate.callout.{name}")));
        names
    }

    /// Totals of all counters since the beginning; each only grows.
    pub fn counters(&self) -> impl Iterator<Item = u64> + '_ {
        let classes = self.classes.iter().flat_map(|counts| {
            [
                counts.offered(),
                counts.admitted,
                counts.quota_rejected,
                counts.ok,
                counts.failed,
                counts.deadline_missed,
                counts.would_shed,
                counts.abandoned,
            ]
            .into_iter()
            .chain(counts.saturation_rejected)
        });
        let callout = [self.callout.batches, self.callout.takes, self.callout.failures];
        classes.chain(self.limits.iter().flatten().copied()).chain(callout)
    }
}

const CLASS_COUNTERS: [&str; 8] =
    ["offered", "admitted", "quota_rejected", "ok", "failed", "deadline_missed", "would_shed", "abandoned"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_equations_hold_after_every_step() {
        let mut counts = Counts::new(0);
        let decisions = [
            Decision::Admit,
            Decision::QuotaReject,
            Decision::Admit,
            Decision::SaturationReject(ShedReason::Deadline),
            Decision::Admit,
        ];
        let check = |counts: &Counts| {
            let c = counts.class(Class::Normal);
            let shed: u64 = c.saturation_rejected.iter().sum();
            assert_eq!(c.offered(), c.admitted + c.quota_rejected + shed);
            assert_eq!(c.admitted, c.ok + c.failed + c.deadline_missed + c.outstanding());
        };
        for decision in decisions {
            counts.decide(Class::Normal, decision);
            check(&counts);
        }
        for ending in [Ending::Ok, Ending::Failed, Ending::DeadlineMissed] {
            counts.end(Class::Normal, ending);
            check(&counts);
        }
        let c = counts.class(Class::Normal);
        assert_eq!((c.offered(), c.admitted, c.outstanding()), (5, 3, 0));
    }

    #[test]
    fn indices_match() {
        for (index, event) in LimitEvent::ALL.into_iter().enumerate() {
            assert_eq!(event.index(), index);
        }
    }
}
