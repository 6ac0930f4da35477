//! A running Envoy.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;

use super::config::Config;
use super::process::{Process, Usage};
use super::{artifact, port, ready};

/// Envoy, ready to serve; ends with its handle.
#[derive(Debug)]
pub(crate) struct Envoy {
    process: Process,
    port: u16,
    start_took: Duration,
    config: Config,
    aside: PathBuf,
}

// === impl Envoy ===

impl Envoy {
    /// Starts Envoy and waits until it is ready.
    ///
    /// # Errors
    ///
    /// There is no Envoy, or it refuses the configuration; the message has the end of its log.
    pub(crate) async fn start(name: &str, folder: &Path, config: &Config) -> anyhow::Result<Envoy> {
        let (port, admin_port) = (port::free()?, port::free()?);
        fs::create_dir_all(folder)?;
        let file = folder.join(format!("{name}.json"));
        let aside = std::path::absolute(folder.join(format!("{name}.aside.json")))?;
        place(&aside, &config.listeners(true))?;
        let bootstrap = config.bootstrap(port, admin_port, &aside);
        fs::write(&file, format!("{bootstrap:#}")).with_context(|| file.display().to_string())?;
        let mut command = Command::new(artifact::envoy()?);
        command.arg("-c").arg(&file);
        // What is taken away goes as soon as it can.
        command.args(["--use-dynamic-base-id", "--drain-time-s", "1"]);
        command.args(["--log-level", "warning", "--component-log-level", "wasm:info", "--concurrency"]);
        command.arg(config.workers.to_string());
        let started = Instant::now();
        let mut process = Process::start(name, folder, command)?;
        ready(&mut process, admin_port, "/ready").await?;
        Ok(Envoy { process, port, start_took: started.elapsed(), config: config.clone(), aside })
    }

    /// Where it serves.
    pub(crate) fn address(&self) -> SocketAddr {
        port::local(self.port)
    }

    /// From the start of the process to the first `200` of `/ready`.
    pub(crate) fn start_took(&self) -> Duration {
        self.start_took
    }

    pub(crate) fn usage(&self) -> Usage {
        self.process.usage()
    }

    /// Takes the filter away that stands aside: a second later its VMs are gone.
    ///
    /// # Errors
    ///
    /// The watched file cannot be written.
    pub(crate) fn take_aside_away(&self) -> anyhow::Result<()> {
        place(&self.aside, &self.config.listeners(false))
    }

    /// The log so far.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub(crate) fn log(&self) -> std::io::Result<String> {
        self.process.log()
    }
}

/// Envoy looks at a watched file when it is moved to its place.
fn place(file: &Path, document: &Value) -> anyhow::Result<()> {
    let new = file.with_extension("new");
    fs::write(&new, format!("{document:#}")).with_context(|| new.display().to_string())?;
    fs::rename(&new, file).with_context(|| file.display().to_string())
}

/// The version of the Envoy that would be started.
///
/// # Errors
///
/// There is none, or it does not run.
pub(crate) fn version() -> anyhow::Result<String> {
    let envoy = artifact::envoy()?;
    let output = Command::new(&envoy).arg("--version").stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {}", envoy.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = parse_version(&text).map(str::to_owned);
    version.with_context(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        format!("{} does not tell its version: {}{}", envoy.display(), text.trim(), errors.trim())
    })
}

/// `... version: <commit>/<version>/<state>/<build>/<tls>`
fn parse_version(text: &str) -> Option<&str> {
    text.rsplit_once("version: ")?.1.split('/').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_from_what_envoy_prints() {
        let text = "\nenvoy  version: 9e5580933739775e/1.40.0/Clean/RELEASE/BoringSSL\n\n";
        assert_eq!(parse_version(text), Some("1.40.0"));
        assert_eq!(parse_version("func-e version: 1.6.0"), None);
    }
}
