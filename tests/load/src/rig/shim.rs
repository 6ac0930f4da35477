//! A shim with a Redis behind it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use super::config::{SHIM, Service};
use super::process::{Process, Usage};
use super::redis::Redis;
use super::{artifact, port, ready};

/// A running shim on its own Redis; both end with the handle.
#[derive(Debug)]
pub(crate) struct Shim {
    process: Process,
    port: u16,
    redis: Redis,
}

// === impl Shim ===

impl Shim {
    /// Starts Redis and shim and waits until the shim is ready.
    ///
    /// # Errors
    ///
    /// One of them cannot be started.
    pub(crate) async fn start(folder: &Path) -> anyhow::Result<Shim> {
        let redis = Redis::start(folder).await?;
        let (port, admin_port) = (port::free()?, port::free()?);
        let mut command = Command::new(artifact::shim()?);
        command.args(["serve", "--listen", &format!("127.0.0.1:{port}")]);
        command.args(["--admin-listen", &format!("127.0.0.1:{admin_port}")]);
        command.args(["--store", &format!("redis://127.0.0.1:{}", redis.port())]);
        let mut process = Process::start("shim", folder, command)?;
        ready(&mut process, admin_port, "/readyz").await?;
        Ok(Shim { process, port, redis })
    }

    /// The cluster that leads to it.
    pub(crate) fn service(&self) -> Service {
        Service { name: SHIM, port: self.port }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        port::local(self.port)
    }

    pub(crate) fn redis(&self) -> &Redis {
        &self.redis
    }

    pub(crate) fn usage(&self) -> Usage {
        self.process.usage()
    }
}
