//! A real Envoy with the shipped filter.

mod metrics;
mod setup;
mod template;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::client::get;

pub use metrics::Metrics;
pub use setup::Setup;
pub use template::shipped_policy;

/// An Envoy: ends when dropped, or when the thread that started it ends (Envoy watches its parent thread).
#[derive(Debug)]
pub struct Envoy {
    child: Child,
    address: SocketAddr,
    admin: SocketAddr,
    folder: TempDir,
    setup: Setup,
}

// === impl Envoy ===

impl Envoy {
    /// Where the gateway listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the admin listens.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Its log so far, access log included.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.folder.path().join("envoy.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Its metrics now.
    pub fn metrics(&self) -> Metrics {
        let (_, body) = get(self.admin, "/stats/prometheus").expect("the admin of Envoy answers");
        Metrics::parse(&body)
    }

    /// A stat by Envoy's own name, 0 if there is none yet.
    pub fn stat(&self, name: &str) -> u64 {
        let (_, body) = get(self.admin, "/stats").expect("the admin of Envoy answers");
        let value = body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.map_or(0, |value| value.trim().parse().unwrap())
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        // One that ended by itself has crashed, which explains whatever else the test says.
        if let Ok(Some(status)) = self.child.try_wait() {
            eprintln!("Envoy ended by itself, {status}:\n{}", self.log());
        }
        // Ended already, or about to be: either way the wait below collects it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The shipped module.
///
/// # Panics
///
/// It has not been built.
pub fn wasm() -> PathBuf {
    let path = match std::env::var_os("SLUICEGATE_WASM") {
        Some(path) => path.into(),
        None => root().join("target/wasm32-unknown-unknown/release/sluicegate_filter.wasm"),
    };
    assert!(path.exists(), "{} is missing; build it: make build", path.display());
    path
}

/// The Envoy binary: `ENVOY`, what `make envoy` has put under target/, or the PATH.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("ENVOY").filter(|path| !path.is_empty()) {
        return path.into();
    }
    let installed = root().join("target/tools/envoy");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join("envoy"));
    std::iter::once(installed)
        .chain(on_path)
        .find(|path| path.exists())
        .expect("there is no Envoy on this machine; get it: make envoy")
}

/// Checks a configuration as `envoy --mode validate` does.
///
/// # Errors
///
/// It is not valid; what Envoy says.
pub fn validate(config: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("envoy.yaml");
    std::fs::write(&path, config).unwrap();
    let output = Command::new(binary())
        .args(["--mode", "validate", "--log-level", "error", "-c"])
        .arg(&path)
        .current_dir(root())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
