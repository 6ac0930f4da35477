//! What Envoy has counted.

use std::collections::BTreeMap;

/// Metrics of one moment, by Prometheus name and labels as they are written: `name{label="value"}`.
#[derive(Clone, Debug)]
pub struct Metrics(BTreeMap<String, f64>);

// === impl Metrics ===

impl Metrics {
    /// Reads the text format of Prometheus.
    pub(crate) fn parse(text: &str) -> Metrics {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let entries = lines.filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        Metrics(entries.collect())
    }

    /// The metric of this name with exactly these labels, 0 if it is not there.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let labels: Vec<_> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        let key = format!("{name}{{{}}}", labels.join(","));
        self.0.get(&key).copied().unwrap_or(0.0)
    }

    /// The sum over all metrics of this name that have these labels, whatever others they have.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let of_name = self.0.iter().filter(|(key, _)| key.split('{').next() == Some(name));
        let has_all = |key: &str| labels.iter().all(|(l, v)| key.contains(&format!("{l}=\"{v}\"")));
        of_name.filter(|(key, _)| has_all(key)).map(|(_, value)| value).sum()
    }

    /// Every name with its labels that begins with `prefix`, for messages.
    pub fn list(&self, prefix: &str) -> String {
        let lines = self.0.iter().filter(|(key, _)| key.starts_with(prefix));
        lines.map(|(key, value)| format!("{key} {value}\n")).collect()
    }
}
