//! `sluicegate check FILE...`: judges policy files with the code of the filter.

use std::io::{self, Write};
use std::path::PathBuf;

use sluicegate_policy::policy::Policy;

use crate::describe::{amount, fallback, place, shown};
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
            Err(error) => code = code.max(refuse(&file.to_string(), &error, errors)?),
        }
    }
    Ok(code)
}

/// Tells every fault of a file, one a line, and gives the exit code.
pub(crate) fn refuse(file: &str, error: &DocumentError, errors: &mut impl Write) -> io::Result<u8> {
    for line in error.to_string().lines() {
        writeln!(errors, "{file}: {line}")?;
    }
    Ok(match error {
        DocumentError::Read(_) => EXIT_UNREADABLE,
        DocumentError::Yaml(_) | DocumentError::Faults(_) => EXIT_FAULTS,
    })
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
