//! Integer arithmetic that neither drifts nor overflows.

/// The longest time that is told apart, microseconds (285 years), and the answer of "never".
///
/// Longer times are cut to it, in Rust and in Lua alike: it is the largest integer that a double counts to.
pub const NEVER_US: u64 = (1 << 53) - 1;

/// Quotient and remainder of `a * b / m`, exact; the quotient stops at [`NEVER_US`]. An `m` of 0 counts as 1.
pub(crate) fn mul_div(a: u64, b: u64, m: u64) -> (u64, u64) {
    let m = m.max(1);
    // Nearly every product fits; a division of 128 bits costs ten times as much, and more in wasm.
    match a.checked_mul(b) {
        Some(product) => ((product / m).min(NEVER_US), product % m),
        None => {
            let (product, m) = (u128::from(a) * u128::from(b), u128::from(m));
            (narrow(product / m).min(NEVER_US), narrow(product % m))
        }
    }
}

/// The number, or the largest `u64` when it does not fit.
pub(crate) fn narrow(n: u128) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// Greatest common divisor; that of 0 and `b` is `b`.
pub(crate) fn gcd(a: u128, b: u128) -> u128 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
