//! What can be changed while the upstream runs: `POST /_control?service_ms=40&concurrency=8&law=exp&cost=3`.

use clap::ValueEnum;
use serde_json::{Value, json};

use super::law::Law;
use crate::query;

/// How the upstream serves.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    /// Requests served at once, 1 to 100,000; the others wait in one FIFO queue.
    pub(crate) concurrency: usize,
    /// Mean service time, milliseconds, 0 to 60,000.
    pub(crate) service_ms: f64,
    /// How service times scatter.
    pub(crate) law: Law,
    /// Value of the cost header.
    pub(crate) cost: u64,
}

impl Settings {
    /// Takes over what `query` names; `reset` is the caller's.
    ///
    /// # Errors
    ///
    /// A sentence that names the first setting that is unknown or out of range; nothing is changed then.
    pub(crate) fn change(&mut self, query: Option<&str>) -> Result<(), String> {
        let mut next = self.clone();
        for (name, value) in query::pairs(query) {
            let taken = match name {
                "concurrency" => within(value, 1, 100_000).map(|n| next.concurrency = n),
                "service_ms" => within(value, 0.0, 60_000.0).map(|ms| next.service_ms = ms),
                "law" => Law::from_str(value, true).ok().map(|law| next.law = law),
                "cost" => value.parse().ok().map(|cost| next.cost = cost),
                "reset" => Some(()),
                _ => return Err(format!("{name} is not a setting")),
            };
            taken.ok_or_else(|| format!("{value} is no value of {name}"))?;
        }
        *self = next;
        Ok(())
    }

    /// Requests a second that can be served; infinite when service takes no time.
    pub(crate) fn capacity(&self) -> f64 {
        self.concurrency as f64 * 1_000.0 / self.service_ms
    }

    pub(crate) fn to_json(&self) -> Value {
        let law = self.law.to_possible_value().map(|value| value.get_name().to_owned());
        json!({"concurrency": self.concurrency, "service_ms": self.service_ms, "law": law, "cost": self.cost})
    }
}

fn within<T: std::str::FromStr + PartialOrd>(value: &str, low: T, high: T) -> Option<T> {
    value.parse().ok().filter(|n| *n >= low && *n <= high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_setting_is_named_and_changes_nothing() {
        let mut settings = Settings { concurrency: 16, service_ms: 20.0, law: Law::Exp, cost: 1 };
        let before = settings.clone();
        for bad in ["concurrency=0", "service_ms=-1", "service_ms=4&law=odd", "servers=3"] {
            assert!(settings.change(Some(bad)).is_err(), "{bad}");
            assert_eq!(settings, before);
        }
        settings.change(Some("service_ms=40&concurrency=8&law=det")).unwrap();
        assert_eq!(settings, Settings { concurrency: 8, service_ms: 40.0, law: Law::Det, cost: 1 });
        assert_eq!(settings.capacity(), 200.0);
    }
}
