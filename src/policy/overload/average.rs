//! Exponential averages whose first value counts in full.

/// A running average; `None` before the first value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Average {
    value: Option<f64>,
}

impl Average {
    /// An average that already knows something.
    pub(super) fn from_value(value: f64) -> Average {
        Average { value: Some(value) }
    }

    /// Moves this share of the way to the new value.
    pub(super) fn add(&mut self, value: f64, gain: f64) {
        self.value = Some(match self.value {
            Some(old) => old + gain * (value - old),
            None => value,
        });
    }

    /// The average, 0 before the first value.
    pub(super) fn value(&self) -> f64 {
        self.value.unwrap_or(0.0)
    }

    pub(super) fn known(&self) -> Option<f64> {
        self.value
    }
}

/// The gain that forgets with this time constant when values come `elapsed` apart (same unit).
pub(super) fn gain(elapsed: f64, constant: f64) -> f64 {
    (elapsed / (elapsed + constant.max(f64::MIN_POSITIVE))).clamp(0.0, 1.0)
}
