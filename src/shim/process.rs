//! What the process and the system say to each other: file descriptors and signals.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::warn;

use crate::settings::Settings;

/// Descriptors for everything but connections of filters and operators: the store's, the log, the runtime.
const OTHERS: u64 = 128;

/// Takes all file descriptors that the system grants, and says so if they are too few for the connections that may come.
pub fn raise_descriptors(settings: &Settings) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // The most that is granted; what is refused leaves the limit as it was.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let Some(descriptors) = getrlimit(Resource::Nofile).current else { return };
    let max_connections = settings.max_connections as u64;
    if descriptors < max_connections + OTHERS {
        warn!(
            descriptors,
            max_connections, "fewer file descriptors than connections may need: raise `ulimit -n`"
        );
    }
}

/// SIGTERM and SIGINT. Each listener of its own hears all of them.
#[derive(Debug)]
pub struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

// === impl Stop ===

impl Stop {
    /// Listens from now on; needs a runtime.
    ///
    /// # Errors
    /// The system refuses.
    pub fn listen() -> io::Result<Stop> {
        Ok(Stop { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next one.
    pub async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
