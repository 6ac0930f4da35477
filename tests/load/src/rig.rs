//! The processes of a measurement: sample upstream, Redis, shim and Envoy, each with its own handle.

pub(crate) mod artifact;
pub(crate) mod config;
pub(crate) mod envoy;
pub(crate) mod filter;
pub(crate) mod port;
pub(crate) mod process;
pub(crate) mod redis;
pub(crate) mod shim;
pub(crate) mod upstream;

use std::time::Duration;

use anyhow::bail;

use crate::generate::transport;
use process::Process;

/// Longest start of anything here.
const START: Duration = Duration::from_secs(20);

/// How often it is looked whether something is ready; reports tell how long starts take.
const LOOK: Duration = Duration::from_millis(5);

/// Waits until `GET path` on the port is answered with 200.
///
/// # Errors
///
/// The process ended, or did not answer within 20 s; the message has the end of its log.
async fn ready(process: &mut Process, port: u16, path: &str) -> anyhow::Result<()> {
    let give_up_at = tokio::time::Instant::now() + START;
    loop {
        let asked = transport::ask(port::local(port), "GET", path);
        let answer = tokio::time::timeout(Duration::from_secs(1), asked).await;
        if answer.is_ok_and(|answer| answer.is_ok_and(|answer| answer.status == 200)) {
            return Ok(());
        }
        if process.has_ended() || tokio::time::Instant::now() > give_up_at {
            bail!("{} did not come up on port {port}:\n{}", process.name(), process.log_end());
        }
        tokio::time::sleep(LOOK).await;
    }
}
