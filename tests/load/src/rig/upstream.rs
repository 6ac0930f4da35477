//! The sample upstream as a process of its own.

use std::path::Path;
use std::process::Command;

use anyhow::ensure;
use serde::Deserialize;

use super::process::Process;
use super::{port, ready};
use crate::generate::transport;
use crate::upstream::count::Count;

/// A running sample upstream; ends with its handle.
#[derive(Debug)]
pub(crate) struct Upstream {
    _process: Process,
    port: u16,
}

#[derive(Debug, Deserialize)]
struct Stats {
    total: Count,
}

// === impl Upstream ===

impl Upstream {
    /// Starts it with `args` and waits until it is ready.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub(crate) async fn start(folder: &Path, args: &[String]) -> anyhow::Result<Upstream> {
        let port = port::free()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["upstream", "--listen", &format!("127.0.0.1:{port}")]).args(args);
        let mut process = Process::start("upstream", folder, command)?;
        ready(&mut process, port, "/healthz").await?;
        Ok(Upstream { _process: process, port })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Changes settings, `name=value&name=value`.
    ///
    /// # Errors
    ///
    /// It refuses, or cannot be reached.
    pub(crate) async fn control(&self, query: &str) -> anyhow::Result<()> {
        let answer = transport::ask(port::local(self.port), "POST", &format!("/_control?{query}")).await?;
        ensure!(answer.status == 200, "{}", String::from_utf8_lossy(&answer.body));
        Ok(())
    }

    /// What it has counted.
    ///
    /// # Errors
    ///
    /// It cannot be reached.
    pub(crate) async fn count(&self) -> anyhow::Result<Count> {
        let answer = transport::ask(port::local(self.port), "GET", "/_stats").await?;
        Ok(serde_json::from_slice::<Stats>(&answer.body)?.total)
    }
}
