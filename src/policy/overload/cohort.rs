//! Cohorts: within a class, users go in an order that changes every hour (DAGOR, SoCC '18).
//!
//! A user's requests then tend to be refused or served together, which is worth more than serving each half of them;
//! and the same users are not always first to go.

const ROTATION_US: u64 = 3_600_000_000;
const COHORTS: u64 = 8;

/// Where this user stands in its class this hour: below 0 goes earlier, above 0 later, within -0.5 to 0.5.
pub(super) fn standing(tenant: u64, now_us: u64) -> f64 {
    if tenant == 0 {
        return 0.0;
    }
    let hour = now_us / ROTATION_US;
    let cohort = mix(tenant ^ mix(hour.wrapping_add(1))) % COHORTS;
    (cohort as f64 + 0.5) / COHORTS as f64 - 0.5
}

/// SplitMix64's finalizer: every bit of the input moves every bit of the output.
pub(super) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_gets_every_standing_over_the_hours() {
        let mut seen: Vec<i64> =
            (0..200).map(|hour| (standing(42, hour * ROTATION_US) * 16.0) as i64).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [-7, -5, -3, -1, 1, 3, 5, 7]);
        assert_eq!(standing(42, 5), standing(42, 6), "the same within the hour");
        assert_eq!(standing(0, 5), 0.0);
    }
}
