//! A Redis of our own.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::bail;
use tokio::net::TcpStream;

use super::process::{Process, Usage};
use super::{START, artifact, port};

/// A running `redis-server` without persistence; ends with its handle.
#[derive(Debug)]
pub(crate) struct Redis {
    process: Process,
    port: u16,
}

// === impl Redis ===

impl Redis {
    /// Starts it and waits until it accepts connections.
    ///
    /// # Errors
    ///
    /// There is no `redis-server`, or it does not come up.
    pub(crate) async fn start(folder: &Path) -> anyhow::Result<Redis> {
        let port = port::free()?;
        let mut command = Command::new(artifact::program("redis-server")?);
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--save", "", "--appendonly", "no"]);
        let mut process = Process::start("redis", folder, command)?;
        let give_up_at = tokio::time::Instant::now() + START;
        while TcpStream::connect(port::local(port)).await.is_err() {
            if process.has_ended() || tokio::time::Instant::now() > give_up_at {
                bail!("redis did not come up:\n{}", process.log_end());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(Redis { process, port })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn usage(&self) -> Usage {
        self.process.usage()
    }
}
