//! The distribution of service times.

use clap::ValueEnum;
use rand::Rng;
use rand_distr::{Distribution, Exp1, StandardNormal};

/// How service times scatter around their mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Law {
    /// Always the mean.
    Det,
    /// Exponential: squared coefficient of variation 1.
    Exp,
    /// Lognormal with squared coefficient of variation 2.
    Lognormal,
    /// Nine in ten take half the mean, one in ten 5.5 times the mean.
    Bimodal,
}

impl Law {
    /// Draws a time with the given mean, in the unit of the mean.
    pub(crate) fn draw(self, mean: f64, random: &mut impl Rng) -> f64 {
        match self {
            Law::Det => mean,
            Law::Exp => mean * Distribution::<f64>::sample(&Exp1, random),
            Law::Lognormal => {
                let variance = 3.0_f64.ln();
                let normal: f64 = StandardNormal.sample(random);
                mean * (normal * variance.sqrt() - variance / 2.0).exp()
            }
            Law::Bimodal if random.random_bool(0.9) => 0.5 * mean,
            Law::Bimodal => 5.5 * mean,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    #[test]
    fn every_law_keeps_its_mean() {
        for law in [Law::Det, Law::Exp, Law::Lognormal, Law::Bimodal] {
            let mut random = StdRng::seed_from_u64(7);
            let n = 200_000;
            let sum: f64 = (0..n).map(|_| law.draw(20.0, &mut random)).sum();
            let mean = sum / f64::from(n);
            assert!((mean - 20.0).abs() < 0.25, "{law:?} has mean {mean}");
        }
    }
}
