//! The arithmetic of the reports.

/// The value at `share` (0 to 1) of `sorted`, by nearest rank; `None` of nothing.
pub(crate) fn percentile<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    let rank = (share.clamp(0.0, 1.0) * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// The middle of `values`, the mean of both middles when there are two; `None` of nothing.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let low = percentile(&sorted, 0.5)?;
    let high = sorted.get(sorted.len() / 2).copied()?;
    Some((low + high) / 2.0)
}

/// Jain's index: 1 when all get the same, 1/n when one gets everything; 1 of nothing.
pub(crate) fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

/// What a max-min fair division of `total` gives to each demand: nobody more than it asks, the rest alike.
pub(crate) fn fair_shares(demands: &[f64], total: f64) -> Vec<f64> {
    let mut sorted = demands.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (mut left, mut waiting) = (total.max(0.0), sorted.len());
    let mut level = f64::INFINITY;
    for demand in sorted {
        let even = left / waiting as f64;
        if demand > even {
            level = even;
            break;
        }
        left -= demand;
        waiting -= 1;
    }
    demands.iter().map(|demand| demand.min(level)).collect()
}

/// Jain's index of what each got over its max-min fair share of what all got together.
pub(crate) fn fairness(demands: &[f64], got: &[f64]) -> f64 {
    let fair = fair_shares(demands, got.iter().sum());
    let ratios: Vec<f64> =
        got.iter().zip(fair).filter(|(_, fair)| *fair > 0.0).map(|(got, fair)| got / fair).collect();
    jain(&ratios)
}

/// Start of the first second-long window, on a grid of 100 ms from `from_us`, for which `holds`; seconds after
/// `from_us`. The window ends by `to_us`.
pub(crate) fn first_second(from_us: u64, to_us: u64, holds: impl Fn(u64, u64) -> bool) -> Option<f64> {
    (0..)
        .map(|step| (step, from_us + step * 100_000))
        .take_while(|(_, start_us)| start_us + 1_000_000 <= to_us)
        .find(|(_, start_us)| holds(*start_us, start_us + 1_000_000))
        .map(|(step, _)| step as f64 / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<u32> = (1..=100).collect();
        assert_eq!(percentile(&values, 0.5), Some(50));
        assert_eq!(percentile(&values, 0.99), Some(99));
        assert_eq!(percentile(&values, 1.0), Some(100));
        assert_eq!(percentile(&values, 0.0), Some(1));
        assert_eq!(percentile::<u32>(&[], 0.5), None);
    }

    #[test]
    fn medians_ignore_order_and_what_is_no_number() {
        assert_eq!(median(&[3.0, f64::NAN, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn jain_is_one_for_equals_and_one_nth_for_one_taker() {
        assert_eq!(jain(&[2.0, 2.0, 2.0]), 1.0);
        assert_eq!(jain(&[8.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!(jain(&[]), 1.0);
    }

    #[test]
    fn fair_shares_fill_the_small_demands_first() {
        assert_eq!(fair_shares(&[10.0, 1.0, 10.0], 9.0), vec![4.0, 1.0, 4.0]);
        assert_eq!(fair_shares(&[1.0, 2.0], 100.0), vec![1.0, 2.0]);
        assert_eq!(fair_shares(&[], 5.0), Vec::<f64>::new());
    }

    #[test]
    fn an_elephant_that_takes_what_it_asks_is_unfair_and_one_that_is_cut_is_fair() {
        let demands = [90.0, 10.0, 10.0, 10.0];
        assert!((fairness(&demands, &[45.0, 5.0, 5.0, 5.0]) - 0.75).abs() < 1e-9);
        assert!(fairness(&demands, &[30.0, 10.0, 10.0, 10.0]) > 0.999);
    }

    #[test]
    fn the_first_good_second_is_found_on_the_grid() {
        let times: Vec<u64> = (0..30).map(|i| 2_000_000 + i * 100_000).collect();
        let busy = |from, to| times.iter().filter(|time| (from..to).contains(*time)).count() >= 9;
        assert_eq!(first_second(0, 10_000_000, busy), Some(1.9));
        assert_eq!(first_second(2_000_000, 10_000_000, busy), Some(0.0));
        assert_eq!(first_second(0, 2_500_000, busy), None);
    }
}
