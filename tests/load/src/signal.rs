//! Being told to stop.

use std::future::Future;

use anyhow::bail;
use tokio::signal::unix::{SignalKind, signal};

/// Waits for SIGTERM or Ctrl-C.
pub(crate) async fn stopped() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// Runs `work`; when the process is told to stop, drops it, and with it the processes that it holds.
pub(crate) async fn unless_stopped<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::select! {
        done = work => done,
        told = stopped() => {
            told?;
            bail!("stopped");
        }
    }
}
