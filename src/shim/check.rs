//! `sluicegate check FILE...`: judges policy files with the code of the filter.

use std::io::{self, Write};
use std::path::PathBuf;

use sluicegate_policy::limit::{Algorithm, Enforce, WhenUnavailable};
use sluicegate_policy::policy::{Mode, Policy};

use crate::document::{self, DocumentError};

/// All files are policies.
pub const EXIT_OK: u8 = 0;

/// At least one is not (`EX_USAGE` of sysexits).
pub const EXIT_FAULTS: u8 = 64;

/// At least one cannot be read (`EX_NOINPUT` of sysexits).
pub const EXIT_UNREADABLE: u8 = 66;

/// Judges each file: the faults go to `errors`, one a line, as `file: path: message`; of a good one, a summary goes
/// to `out`. Gives the exit code.
///
/// # Errors
///
/// Only those of writing.
pub fn run(paths: &[PathBuf], out: &mut impl Write, errors: &mut impl Write) -> io::Result<u8> {
    let mut code = EXIT_OK;
    for path in paths {
        let file = path.display();
        match document::policy(path) {
            Ok(policy) => summary(&file.to_string(), &policy, out)?,
            Err(error) => {
                code = code.max(match error {
                    DocumentError::Read(_) => EXIT_UNREADABLE,
                    DocumentError::Yaml(_) | DocumentError::Faults(_) => EXIT_FAULTS,
                });
                for line in error.to_string().lines() {
                    writeln!(errors, "{file}: {line}")?;
                }
            }
        }
    }
    Ok(code)
}

/// What the policy does, one line for each limit.
fn summary(file: &str, policy: &Policy, out: &mut impl Write) -> io::Result<()> {
    let count = |count: usize, one: &str, many: &str| match count {
        1 => format!("1 {one}"),
        n => format!("{n} {many}"),
    };
    writeln!(
        out,
        "{file}: good: {}, {}, {}, {}; hash {:08x}",
        count(policy.limits.len(), "limit", "limits"),
        count(policy.identities.len(), "identity", "identities"),
        count(policy.tiers.tiers.len(), "tier", "tiers"),
        count(policy.classes.len(), "class rule", "class rules"),
        policy.hash
    )?;
    for limit in &policy.limits {
        let key: Vec<&str> =
            limit.key.iter().filter_map(|id| policy.identities.get(id.0)).map(|i| &*i.name).collect();
        writeln!(
            out,
            "  {}: {} for each {}, {}, else {}{}",
            limit.name,
            amount(&limit.algorithm),
            key.join(" and "),
            place(&limit.enforce),
            fallback(limit.when_unavailable),
            shown(limit.mode)
        )?;
    }
    match &policy.overload {
        None => writeln!(out, "  saturation: not controlled"),
        Some(overload) => {
            let clusters: Vec<&str> = overload.upstreams.iter().map(|u| &*u.cluster).collect();
            writeln!(out, "  saturation: of {}{}", clusters.join(", "), shown(overload.mode))
        }
    }
}

fn amount(algorithm: &Algorithm) -> String {
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

fn place(enforce: &Enforce) -> String {
    match enforce {
        Enforce::Shared => "shared".into(),
        Enforce::Leased { size, for_us } => format!("leased by {size} for {}", duration(*for_us)),
        Enforce::Local { shares } => format!("local, divided by {shares}"),
    }
}

fn fallback(when: WhenUnavailable) -> String {
    match when {
        WhenUnavailable::Allow => "allow".into(),
        WhenUnavailable::Deny => "deny".into(),
        WhenUnavailable::Local { shares } => format!("local, divided by {shares}"),
    }
}

fn shown(mode: Mode) -> String {
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
