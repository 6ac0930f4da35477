//! A running Envoy.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::config::Config;
use super::process::{Process, Usage};
use super::{artifact, port, ready};
use crate::generate::transport;

/// Envoy, ready to serve; ends with its handle.
#[derive(Debug)]
pub(crate) struct Envoy {
    process: Process,
    port: u16,
    admin_port: u16,
    start_took: Duration,
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
        let bootstrap = config.bootstrap(port, admin_port);
        fs::write(&file, format!("{bootstrap:#}")).with_context(|| file.display().to_string())?;
        let mut command = Command::new(artifact::envoy()?);
        command.arg("-c").arg(&file);
        command.args(["--use-dynamic-base-id", "--log-level", "warning", "--concurrency"]);
        command.arg(config.workers.to_string());
        let started = Instant::now();
        let mut process = Process::start(name, folder, command)?;
        ready(&mut process, admin_port, "/ready").await?;
        Ok(Envoy { process, port, admin_port, start_took: started.elapsed() })
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

    /// Its version, as `/server_info` tells it.
    pub(crate) async fn version(&self) -> anyhow::Result<String> {
        let answer = transport::ask(port::local(self.admin_port), "GET", "/server_info").await?;
        let info: serde_json::Value = serde_json::from_slice(&answer.body)?;
        let version = info.get("version").and_then(|version| version.as_str()).unwrap_or_default();
        // <commit>/<version>/<state>/<build>/<tls>
        Ok(version.split('/').nth(1).unwrap_or(version).to_owned())
    }
}
