//! From the workers' counters to rates: what flowed through one upstream since the last tick.

use super::record::{CLASSES, Entry};

/// What happened in the whole Envoy during one tick.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    /// Length of the tick, seconds.
    pub(super) elapsed_s: f64,
    /// Requests in flight now.
    pub(super) in_flight: f64,
    /// Requests offered a second, by class.
    pub(super) offered: [f64; CLASSES],
    /// Requests shed, by class.
    pub(super) shed: [f64; CLASSES],
    /// Requests that the upstream finished, a second.
    pub(super) ended: f64,
    /// Requests answered.
    pub(super) answered: f64,
    /// Time until response headers, request-microseconds; what ended in this tick may have begun before it.
    pub(super) waited_us: f64,
    /// Time after response headers, request-microseconds.
    pub(super) trailed_us: f64,
    /// Workers that take traffic, at least 1.
    pub(super) workers: usize,
}

/// Remembers the last counters of each worker.
#[derive(Debug, Default)]
pub(super) struct Tally {
    previous: Vec<Seen>,
}

#[derive(Debug)]
struct Seen {
    owner: u64,
    written_us: u64,
    entry: Entry,
    /// Rates of its last period, kept while it has not published anew.
    offered: [f64; CLASSES],
    ended: f64,
}

impl Tally {
    /// Adds up what is new in these records: (owner, written, entry). A worker seen first only sets the base line.
    pub(super) fn update(&mut self, records: &[(u64, u64, &Entry)], elapsed_s: f64) -> Flow {
        let mut flow = Flow { elapsed_s, ..Flow::default() };
        self.previous.retain(|seen| records.iter().any(|(owner, ..)| *owner == seen.owner));
        for (owner, written_us, entry) in records {
            flow.in_flight += entry.in_flight as f64;
            flow.workers += usize::from(0.0 < entry.demand);
            match self.previous.iter_mut().find(|seen| seen.owner == *owner) {
                Some(seen) => seen.advance(*written_us, entry, &mut flow),
                None => self.previous.push(Seen {
                    owner: *owner,
                    written_us: *written_us,
                    entry: (*entry).clone(),
                    offered: [0.0; CLASSES],
                    ended: 0.0,
                }),
            }
        }
        flow.workers = flow.workers.max(1);
        flow
    }
}

impl Seen {
    fn advance(&mut self, written_us: u64, entry: &Entry, flow: &mut Flow) {
        let seconds = written_us.saturating_sub(self.written_us) as f64 / 1e6;
        if 0.0 < seconds {
            self.offered =
                std::array::from_fn(|class| grown(&entry.offered, &self.entry.offered, class) / seconds);
            self.ended = difference(entry.ended, self.entry.ended) / seconds;
        }
        for (class, shed) in flow.shed.iter_mut().enumerate() {
            *shed += grown(&entry.shed, &self.entry.shed, class);
        }
        for (sum, rate) in flow.offered.iter_mut().zip(self.offered) {
            *sum += rate;
        }
        flow.ended += self.ended;
        flow.answered += difference(entry.answered, self.entry.answered);
        let trailed_us = difference(entry.trailed_us, self.entry.trailed_us);
        let excused_us = difference(entry.excused_us, self.entry.excused_us);
        flow.waited_us += difference(entry.area_us, self.entry.area_us) - trailed_us - excused_us;
        flow.trailed_us += trailed_us;
        self.written_us = written_us;
        self.entry.clone_from(entry);
    }
}

fn grown(new: &[u64; CLASSES], old: &[u64; CLASSES], class: usize) -> f64 {
    match (new.get(class), old.get(class)) {
        (Some(new), Some(old)) => difference(*new, *old),
        _ => 0.0,
    }
}

fn difference(new: u64, old: u64) -> f64 {
    new.saturating_sub(old) as f64
}
