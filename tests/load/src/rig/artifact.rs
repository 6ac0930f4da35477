//! Where the things under test are.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// The filter, built by `make wasm`.
pub(crate) fn filter() -> anyhow::Result<PathBuf> {
    existing("SLUICEGATE_WASM", "target/wasm32-unknown-unknown/release/sluicegate_filter.wasm", "make wasm")
}

/// The filter that does nothing, built by `make bench`.
pub(crate) fn noop() -> anyhow::Result<PathBuf> {
    let built = "target/wasm32-unknown-unknown/release/sluicegate_noop.wasm";
    existing("SLUICEGATE_NOOP_WASM", built, "make bench")
}

/// The shim, built by `make native`.
pub(crate) fn shim() -> anyhow::Result<PathBuf> {
    existing("SLUICEGATE_BIN", "target/native/sluicegate", "make native")
}

/// Envoy: `$ENVOY`, what `make envoy` has made, or the one on the PATH.
pub(crate) fn envoy() -> anyhow::Result<PathBuf> {
    if let Some(path) = env::var_os("ENVOY").filter(|path| !path.is_empty()) {
        return on_path(Path::new(&path)).context("ENVOY names no program");
    }
    on_path(Path::new("target/tools/envoy"))
        .or_else(|| on_path(Path::new("envoy")))
        .context("there is no Envoy; run `make envoy`")
}

/// A program of the machine.
pub(crate) fn program(name: &str) -> anyhow::Result<PathBuf> {
    on_path(Path::new(name)).with_context(|| format!("{name} is not on the PATH; run `make redis`"))
}

fn existing(variable: &str, default: &str, remedy: &str) -> anyhow::Result<PathBuf> {
    let path = env::var_os(variable).map_or_else(|| PathBuf::from(default), PathBuf::from);
    if !path.is_file() {
        bail!("{} is missing; run `{remedy}`", path.display());
    }
    // Children run elsewhere.
    path.canonicalize().with_context(|| path.display().to_string())
}

fn on_path(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 {
        return name.is_file().then(|| name.canonicalize().ok())?;
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}
