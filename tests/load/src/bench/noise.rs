//! Whether the machine was quiet enough for the figures to mean something.

use serde::Serialize;

use super::round::Round;
use super::system::System;
use crate::stats::median;

/// Spread of the plain system over the rounds from which figures are doubtful: highest over lowest.
const SPREAD_MAX: f64 = 1.15;

/// Share of the machine that others may use, in the median measurement.
const FOREIGN_MAX: f64 = 0.05;

/// What differs between rounds although nothing should, and what others did meanwhile.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Noise {
    /// Throughput of plain Envoy with 32 connections, highest round over lowest.
    pub(crate) plain_spread: f64,
    /// Share of the machine that others used, median over all measurements, 0 to 1.
    pub(crate) foreign: f64,
    /// What to tell the reader, if anything.
    pub(crate) warning: Option<String>,
}

impl Noise {
    pub(crate) fn of(rounds: &[Vec<Round>]) -> Noise {
        let plain = rounds.iter().flatten().filter(|round| round.system == System::Plain.name());
        let rates: Vec<f64> = plain.filter_map(|round| Some(round.points.get(1)?.rps)).collect();
        let points = rounds.iter().flatten().flat_map(|round| &round.points);
        Noise::judge(&rates, median(&points.map(|point| point.foreign).collect::<Vec<_>>()).unwrap_or(0.0))
    }

    fn judge(rates: &[f64], foreign: f64) -> Noise {
        let high = rates.iter().copied().fold(f64::MIN, f64::max);
        let low = rates.iter().copied().fold(f64::MAX, f64::min);
        let plain_spread = if low > 0.0 && high >= low { high / low } else { 1.0 };
        let warning = if foreign > FOREIGN_MAX {
            Some(format!("the machine was noisy: others used {:.0} % of it", 100.0 * foreign))
        } else if plain_spread > SPREAD_MAX {
            let percent = 100.0 * (plain_spread - 1.0);
            Some(format!("the machine was noisy: plain Envoy itself varied by {percent:.0} % between rounds"))
        } else {
            None
        };
        Noise { plain_spread, foreign, warning }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_varies_or_works_for_others_is_noisy() {
        assert!(Noise::judge(&[100.0, 105.0, 98.0], 0.01).warning.is_none());
        assert!(Noise::judge(&[100.0, 140.0], 0.01).warning.unwrap().contains("40 %"));
        assert!(Noise::judge(&[100.0, 100.0], 0.3).warning.unwrap().contains("others used 30 %"));
        assert_eq!(Noise::judge(&[], 0.0).plain_spread, 1.0);
    }
}
