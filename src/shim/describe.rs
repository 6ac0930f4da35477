//! A policy's numbers in words, for the commands that show them.

use sluicegate_policy::limit::{Algorithm, Enforce, WhenUnavailable};
use sluicegate_policy::mode::Mode;

/// How much a limit admits.
pub(crate) fn amount(algorithm: &Algorithm) -> String {
    match algorithm {
        Algorithm::TokenBucket(b) => {
            format!("{} at once, then {}", b.burst, rate(b.rate.tokens, b.rate.period_us))
        }
        Algorithm::LeakyBucket(b) => format!(
            "{}, {} at once, {} more waiting up to {}",
            rate(b.rate.tokens, b.rate.period_us),
            b.burst,
            b.waiting,
            duration(b.wait_up_to_us)
        ),
        Algorithm::FixedWindow(w) => format!("{} in each window of {}", w.limit, duration(w.per_us)),
        Algorithm::SlidingWindow(w) => format!("{} in any {}", w.limit, duration(w.per_us)),
        Algorithm::SlidingLog(w) => format!("exactly {} in any {}", w.limit, duration(w.per_us)),
        Algorithm::Concurrency(c) => format!("{} in progress", c.max),
    }
}

/// Where a limit is counted.
pub(crate) fn place(enforce: &Enforce) -> String {
    match enforce {
        Enforce::Shared => "shared".into(),
        Enforce::Leased { size, for_us } => format!("leased by {size} for {}", duration(*for_us)),
        Enforce::Local { shares } => format!("local, divided by {shares}"),
    }
}

/// What happens when no decision can be had.
pub(crate) fn fallback(when: WhenUnavailable) -> String {
    match when {
        WhenUnavailable::Allow => "allow".into(),
        WhenUnavailable::Deny => "deny".into(),
        WhenUnavailable::Local { shares } => format!("local, divided by {shares}"),
    }
}

/// Whether refusals are carried out: nothing, if they are.
pub(crate) fn shown(mode: Mode) -> String {
    match mode {
        Mode::Enforce => String::new(),
        Mode::Shadow => " (shadow)".into(),
        Mode::Percent(e2) => format!(" ({}.{:02} % enforced)", e2 / 100, e2 % 100),
    }
}

fn rate(tokens: u64, period_us: u64) -> String {
    match (tokens, 1_000_000 % period_us) {
        (1, 0) => format!("{} a second", 1_000_000 / period_us),
        _ => format!("{tokens} every {}", duration(period_us)),
    }
}

fn duration(us: u64) -> String {
    const UNITS: [(u64, &str); 5] =
        [(86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "m"), (1_000_000, "s"), (1_000, "ms")];
    let unit = UNITS.into_iter().find(|(unit, _)| us != 0 && us.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{us}us"), |(unit, name)| format!("{}{name}", us / unit))
}
