//! Who asks for what: the classes of requests and their shares.

use std::str::FromStr;

use sluicegate_policy::class::Class;

/// One kind of request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kind {
    /// Its class, by the policy of the gateway under test.
    pub(crate) class: Class,
    /// Path and query.
    pub(crate) path: String,
    /// Share of the arrivals, relative to the sum of all shares.
    pub(crate) share: f64,
    /// How long its caller waits, milliseconds.
    pub(crate) deadline_ms: u64,
}

/// All kinds; at least one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mix(Vec<Kind>);

/// Share by class, percent, and path.
const DEFAULT: [(Class, &str, f64); 5] = [
    (Class::Critical, "/checkout", 10.0),
    (Class::High, "/cart", 20.0),
    (Class::Normal, "/", 40.0),
    (Class::Low, "/sync", 20.0),
    (Class::Sheddable, "/beacon", 10.0),
];

const DEADLINE_MS: u64 = 250;

// === impl Mix ===

impl Mix {
    /// The kinds, in the order given.
    pub(crate) fn kinds(&self) -> &[Kind] {
        &self.0
    }

    /// The kind at `point` of 0 to 1 along the shares.
    pub(crate) fn pick(&self, point: f64) -> usize {
        let sum: f64 = self.0.iter().map(|kind| kind.share).sum();
        let mut left = point * sum;
        for (i, kind) in self.0.iter().enumerate() {
            left -= kind.share;
            if left < 0.0 {
                return i;
            }
        }
        self.0.len().saturating_sub(1)
    }
}

impl Default for Mix {
    /// A shop: checkout, cart, pages, synchronisation, beacons; everybody waits 250 ms.
    fn default() -> Self {
        let kinds = DEFAULT.into_iter().map(|(class, path, share)| Kind {
            class,
            path: path.into(),
            share,
            deadline_ms: DEADLINE_MS,
        });
        Mix(kinds.collect())
    }
}

impl FromStr for Mix {
    type Err = String;

    /// `default`, or `critical=/checkout:10:250,normal=/:90` (path, share, deadline in milliseconds).
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "default" {
            return Ok(Mix::default());
        }
        text.split(',').map(kind).collect::<Result<_, _>>().map(Mix)
    }
}

fn kind(text: &str) -> Result<Kind, String> {
    let fault = || format!("{text} is not class=path:share[:deadline_ms]");
    let (class, rest) = text.split_once('=').ok_or_else(fault)?;
    let mut parts = rest.split(':');
    let path = parts.next().filter(|path| path.starts_with('/')).ok_or_else(fault)?;
    let share: f64 = parts.next().and_then(|share| share.parse().ok()).ok_or_else(fault)?;
    let deadline_ms = match parts.next() {
        Some(deadline) => deadline.parse().map_err(|_| fault())?,
        None => DEADLINE_MS,
    };
    if share <= 0.0 || parts.next().is_some() {
        return Err(fault());
    }
    Ok(Kind { class: Class::from_name(class).ok_or_else(fault)?, path: path.into(), share, deadline_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_decide_who_is_picked() {
        let mix = Mix::default();
        let classes = [0.0, 0.099, 0.1, 0.299, 0.3, 0.699, 0.7, 0.9, 0.999].map(|point| mix.pick(point));
        assert_eq!(classes, [0, 0, 1, 1, 2, 2, 3, 4, 4]);
    }

    #[test]
    fn a_mix_reads_back_and_faults_are_told() {
        let mix: Mix = "critical=/pay:1:100,low=/feed?x=1:3".parse().unwrap();
        assert_eq!(mix.kinds()[0].deadline_ms, 100);
        assert_eq!((mix.kinds()[1].class, mix.kinds()[1].deadline_ms), (Class::Low, 250));
        for bad in ["", "critical", "odd=/:1", "low=x:1", "low=/:0", "low=/:1:2:3", "low=/:1:x"] {
            assert!(bad.parse::<Mix>().is_err(), "{bad}");
        }
    }
}
