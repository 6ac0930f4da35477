//! What became of the requests that reached the upstream.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Most paths counted apart; the rest are counted as `other`.
const PATHS_MAX: usize = 64;

/// Counters since the start or the last reset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// All paths together.
    pub(crate) total: Count,
    /// By path, without query.
    pub(crate) paths: BTreeMap<String, Count>,
}

/// Counters of one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Count {
    /// Requests that arrived.
    pub(crate) arrived: u64,
    /// Answers given.
    pub(crate) served: u64,
    /// Callers that left before the answer; their work was done all the same.
    pub(crate) abandoned: u64,
    /// Answers given after the caller's `x-deadline-ms`.
    pub(crate) late: u64,
    /// Sum of the service times drawn, microseconds: what the capacity really was.
    pub(crate) drawn_us: u64,
}

impl Counts {
    /// Adds `change` to the total and to the path's own counters.
    pub(crate) fn add(&mut self, path: &str, change: impl Fn(&mut Count)) {
        change(&mut self.total);
        let known = self.paths.len() < PATHS_MAX || self.paths.contains_key(path);
        let path = if known { path } else { "other" };
        match self.paths.get_mut(path) {
            Some(count) => change(count),
            None => change(self.paths.entry(path.to_owned()).or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_bounded_and_the_total_holds_all() {
        let mut counts = Counts::default();
        for i in 0..200 {
            counts.add(&format!("/{i}"), |count| count.served += 1);
        }
        assert_eq!(counts.paths.len(), PATHS_MAX + 1);
        assert_eq!(counts.total.served, 200);
        assert_eq!(counts.paths.values().map(|count| count.served).sum::<u64>(), 200);
    }
}
