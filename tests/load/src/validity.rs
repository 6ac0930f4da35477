//! Whether a run says anything about the gateway, or only about the machine.

use serde::Serialize;

use crate::generate::record::Record;
use crate::machine::CoreTimes;
use crate::tally::lag_p99_ms;

/// The generator must send 99 of 100 requests no later than this after they are due, milliseconds.
const LAG_P99_MS_MAX: f64 = 5.0;

/// The busiest core must be idle for this share of the run.
const IDLE_MIN: f64 = 0.15;

/// What was seen of generator and machine, and why the run does not count, if so.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Validity {
    /// Reason why the run is void.
    pub(crate) void: Option<String>,
    /// 99th percentile of the generator's own lag, milliseconds.
    pub(crate) lag_p99_ms: f64,
    /// Idle share of the busiest core, 0 to 1.
    pub(crate) least_idle: f64,
}

// === impl Validity ===

impl Validity {
    /// Judges a run that began at `before` and ends now.
    pub(crate) fn judge(records: &[Record], before: &CoreTimes) -> Validity {
        Validity::of(lag_p99_ms(records), CoreTimes::read().least_idle_since(before))
    }

    /// Judges by the numbers.
    pub(crate) fn of(lag_p99_ms: f64, least_idle: f64) -> Validity {
        let void = if lag_p99_ms > LAG_P99_MS_MAX {
            Some(format!("generator saturated: p99 of its lag {lag_p99_ms:.1} ms"))
        } else if least_idle < IDLE_MIN {
            Some(format!("machine saturated: busiest core {:.0} % idle", 100.0 * least_idle))
        } else {
            None
        };
        Validity { void, lag_p99_ms, least_idle }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_generator_or_a_busy_machine_voids_the_run() {
        assert_eq!(Validity::of(1.9, 0.5).void, None);
        assert!(Validity::of(9.0, 0.5).void.unwrap().contains("generator saturated"));
        assert!(Validity::of(1.0, 0.02).void.unwrap().contains("machine saturated"));
    }
}
