//! Numbers people write as text: durations, rates, percentages. Exact, or refused.

use crate::algorithm::PERIOD_MAX_US;
use crate::limit::Rate;

const SECOND_US: u64 = 1_000_000;
const DAY_US: u64 = 86_400 * SECOND_US;

/// Microseconds of a duration such as `50ms`, `1.5s` or `30d`; `None` unless it is a whole number of them.
pub(super) fn duration_us(text: &str) -> Option<u64> {
    let (number, unit_us) = split_unit(text)?;
    let (digits, scale) = decimal(number)?;
    let scaled = digits.checked_mul(unit_us)?;
    (scaled % scale == 0).then_some(scaled / scale)
}

/// Why a text is no rate.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RateError {
    /// Not of the form `10/s`.
    Form,
    /// Faster than 1,000,000 a second.
    Fast,
    /// Slower than one in 30 days, zero included.
    Slow,
    /// Its period in lowest terms is longer than 30 days.
    Fine,
}

/// A rate such as `10/s`, `100/1m`, `0.5/s` or `1/30d`, in lowest terms.
pub(super) fn rate(text: &str) -> Result<Rate, RateError> {
    let (tokens, period) = text.split_once('/').ok_or(RateError::Form)?;
    let (tokens, scale) = decimal(tokens.trim()).ok_or(RateError::Form)?;
    let period = period.trim();
    let period_us = match period.starts_with(|c: char| c.is_ascii_digit()) {
        true => duration_us(period),
        false => unit_us(period),
    };
    let (tokens, period_us) = (u128::from(tokens), u128::from(period_us.ok_or(RateError::Form)?));
    // tokens / scale per period_us = tokens per (scale x period_us).
    let period_us = period_us * u128::from(scale);
    if period_us == 0 {
        return Err(RateError::Form);
    }
    if period_us < tokens {
        return Err(RateError::Fast);
    }
    if tokens * u128::from(PERIOD_MAX_US) < period_us {
        return Err(RateError::Slow);
    }
    let divisor = gcd(tokens, period_us);
    let narrow = |number: u128| u64::try_from(number / divisor).ok().filter(|&n| n <= PERIOD_MAX_US);
    match (narrow(tokens), narrow(period_us)) {
        (Some(tokens), Some(period_us)) => Ok(Rate { tokens, period_us }),
        _ => Err(RateError::Fine),
    }
}

/// `value` times `10^decimals`, if that is whole: 12.5 with two decimals gives 1250.
///
/// Exact for what people write: a literal with that many decimals is the double nearest to some n / 10^decimals, and
/// division rounds to the nearest double too, so it is found again.
pub(super) fn hundredths(value: f64, decimals: u32) -> Option<u64> {
    let scale = f64::from(10_u32.checked_pow(decimals)?);
    let scaled = (value * scale).round();
    // NaN fails the first test; beyond 1e9 no field goes.
    let fits = (0.0..=1e9).contains(&scaled) && scaled / scale == value;
    fits.then_some(scaled as u64)
}

fn split_unit(text: &str) -> Option<(&str, u64)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at_checked(end)?;
    Some((number, unit_us(unit)?))
}

fn unit_us(unit: &str) -> Option<u64> {
    match unit {
        "us" => Some(1),
        "ms" => Some(1_000),
        "s" => Some(SECOND_US),
        "m" => Some(60 * SECOND_US),
        "h" => Some(3_600 * SECOND_US),
        "d" => Some(DAY_US),
        _ => None,
    }
}

/// A decimal as a fraction of a power of ten: `0.5` is (5, 10). At most twelve digits on either side.
fn decimal(text: &str) -> Option<(u64, u64)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let plain = digits(whole) && digits(fraction) && !whole.is_empty() && !text.ends_with('.');
    if !plain || 12 < whole.len() || 12 < fraction.len() {
        return None;
    }
    let scale = 10_u64.checked_pow(fraction.len().try_into().ok()?)?;
    let fraction = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let number = whole.parse::<u64>().ok()?.checked_mul(scale)?.checked_add(fraction)?;
    Some((number, scale))
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact() {
        for (text, expected) in [
            ("50ms", Some(50_000)),
            ("1500us", Some(1_500)),
            ("1.5s", Some(1_500_000)),
            ("1m", Some(60_000_000)),
            ("30d", Some(PERIOD_MAX_US)),
            ("0.000001s", Some(1)),
            ("0.0000001s", None),
            ("0s", Some(0)),
            ("", None),
            ("5", None),
            ("s", None),
            ("-5s", None),
            ("5 s", None),
            ("1.s", None),
            (".5s", None),
            ("1.2.3s", None),
            ("1e3s", None),
            ("5S", None),
            ("1h30m", None),
            ("999999999999d", None),
            ("9999999999999s", None),
        ] {
            assert_eq!(duration_us(text), expected, "{text}");
        }
    }

    #[test]
    fn rates_are_reduced_fractions() {
        let good = |tokens, period_us| Ok(Rate { tokens, period_us });
        for (text, expected) in [
            ("10/s", good(1, 100_000)),
            ("100/1m", good(1, 600_000)),
            ("0.5/s", good(1, 2_000_000)),
            ("1/30d", good(1, PERIOD_MAX_US)),
            ("1000000/s", good(1, 1)),
            ("3 / 7s", good(3, 7_000_000)),
            ("2000/s", good(1, 500)),
            ("1/1.5s", good(1, 1_500_000)),
            ("1000001/s", Err(RateError::Fast)),
            ("1/31d", Err(RateError::Slow)),
            ("0/s", Err(RateError::Slow)),
            ("0.000000000001/d", Err(RateError::Slow)),
            ("1.000000000001/30d", Err(RateError::Fine)),
            ("1/0s", Err(RateError::Form)),
            ("-1/s", Err(RateError::Form)),
            ("ten/s", Err(RateError::Form)),
            ("10", Err(RateError::Form)),
            ("10/", Err(RateError::Form)),
            ("/s", Err(RateError::Form)),
            ("NaN/s", Err(RateError::Form)),
            ("1e400/s", Err(RateError::Form)),
            ("999999999999999999999/s", Err(RateError::Form)),
        ] {
            assert_eq!(rate(text), expected, "{text}");
        }
    }

    #[test]
    fn percentages_are_found_again() {
        for n in 0..=10_000_u32 {
            let literal = format!("{}.{:02}", n / 100, n % 100);
            assert_eq!(hundredths(literal.parse().unwrap(), 2), Some(u64::from(n)), "{literal}");
        }
        for value in [f64::NAN, f64::INFINITY, -0.01, 0.001, 33.333, 1e300] {
            assert_eq!(hundredths(value, 2), None, "{value}");
        }
    }
}
