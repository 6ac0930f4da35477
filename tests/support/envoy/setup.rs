//! What an Envoy is to run with, and its start.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::template::Template;
use super::{Envoy, binary, wasm};
use crate::client::get;

/// How long an Envoy may take until it serves, or until it gives up.
const START: Duration = Duration::from_secs(30);

/// What an Envoy is to run with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// `None` is the shipped one.
    policy: Option<String>,
    workers: u32,
    shim: Door,
    upstream: SocketAddr,
    edits: Vec<(String, String)>,
    is_dynamic: bool,
}

/// Where the shim listens.
#[derive(Clone, Debug)]
enum Door {
    Port(SocketAddr),
    Socket(PathBuf),
}

/// Where the shipped configuration expects it.
const SHIPPED_DOOR: &str = "pipe: {path: /run/sluicegate/shim.sock}";

// === impl Setup ===

impl Setup {
    /// The shipped configuration in front of `upstream`, with `policy` (JSON) and two workers.
    ///
    /// The shim is where nobody listens, until [`Setup::shim`] says otherwise.
    pub fn new(policy: &Value, upstream: SocketAddr) -> Setup {
        Setup::shipped(upstream).raw_policy(&policy.to_string())
    }

    /// The shipped configuration with the shipped policy.
    pub fn shipped(upstream: SocketAddr) -> Setup {
        let nobody = Door::Port(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
        Setup { policy: None, workers: 2, shim: nobody, upstream, edits: Vec::new(), is_dynamic: false }
    }

    /// Where the shim listens.
    #[must_use]
    pub fn shim(mut self, address: SocketAddr) -> Setup {
        self.shim = Door::Port(address);
        self
    }

    /// The socket file that the shim listens on.
    #[must_use]
    pub fn shim_socket(mut self, path: PathBuf) -> Setup {
        self.shim = Door::Socket(path);
        self
    }

    /// Number of worker threads.
    #[must_use]
    pub fn workers(mut self, n: u32) -> Setup {
        self.workers = n;
        self
    }

    /// Replaces a text of the configuration, which must be there.
    #[must_use]
    pub fn edit(mut self, from: &str, to: &str) -> Setup {
        self.edits.push((from.into(), to.into()));
        self
    }

    /// Takes the policy as it is, JSON or not.
    #[must_use]
    pub fn raw_policy(mut self, text: &str) -> Setup {
        self.policy = Some(text.into());
        self
    }

    /// Serves the listener from a file that [`Envoy::replace_policy`] can change while Envoy runs.
    #[must_use]
    pub fn dynamic(mut self) -> Setup {
        self.is_dynamic = true;
        self
    }

    /// Starts it and waits until it serves.
    ///
    /// # Panics
    ///
    /// It does not; the message holds its log.
    pub fn start(self) -> Envoy {
        self.try_start().unwrap_or_else(|log| panic!("Envoy did not start:\n{log}"))
    }

    /// Starts it and waits until it serves.
    ///
    /// # Errors
    ///
    /// It ended by itself; its log.
    pub fn try_start(self) -> Result<Envoy, String> {
        loop {
            match self.clone().launch() {
                // Somebody took the port between our look and Envoy's.
                Err(log) if log.contains("Address already in use") => {}
                ended => return ended,
            }
        }
    }

    fn launch(self) -> Result<Envoy, String> {
        let folder = tempfile::tempdir().unwrap();
        let [address, admin] = free_ports();
        let config = folder.path().join("envoy.yaml");
        std::fs::write(&config, self.render(folder.path(), address, admin)).unwrap();
        let log = std::fs::File::create(folder.path().join("envoy.log")).unwrap();
        let child = Command::new(binary())
            .args([
                "--concurrency",
                &self.workers.to_string(),
                "--use-dynamic-base-id",
                "--drain-time-s",
                "1",
            ])
            .args(["--log-level", "warning", "--component-log-level", "wasm:info,config:info", "-c"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut envoy = Envoy { child, address, admin, folder, setup: self };
        let deadline = Instant::now() + START;
        let is_ready = || get(admin, "/ready").is_some_and(|(status, _)| status == 200);
        while !(is_ready() && TcpStream::connect(address).is_ok()) {
            if envoy.child.try_wait().unwrap().is_some() {
                return Err(envoy.log());
            }
            assert!(Instant::now() < deadline, "Envoy was not ready within {START:?}:\n{}", envoy.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(envoy)
    }

    /// The whole configuration; a dynamic listener is written to `folder`.
    fn render(&self, folder: &Path, address: SocketAddr, admin: SocketAddr) -> String {
        let ports = [(10_000, address.port()), (9_901, admin.port()), (8_080, self.upstream.port())];
        let shipped = Template::shipped().edit(SHIPPED_DOOR, &self.shim.address());
        let edited = self.edits.iter().fold(shipped, |template, (from, to)| template.edit(from, to));
        let template = edited.ports(&ports).module(&wasm());
        let template = match &self.policy {
            Some(policy) => template.policy(policy),
            None => template,
        };
        if !self.is_dynamic {
            return template.into_string();
        }
        let file = folder.join("lds.yaml");
        let (template, listener) = template.split(&file);
        // Envoy watches for the move.
        let new = folder.join("lds.new");
        std::fs::write(&new, listener).unwrap();
        std::fs::rename(&new, &file).unwrap();
        template.into_string()
    }
}

// === impl Door ===

impl Door {
    /// As Envoy writes it.
    fn address(&self) -> String {
        match self {
            Door::Port(address) => {
                format!("socket_address: {{address: {}, port_value: {}}}", address.ip(), address.port())
            }
            Door::Socket(path) => format!("pipe: {{path: {}}}", path.display()),
        }
    }
}

// === impl Envoy ===

impl Envoy {
    /// Gives a [`Setup::dynamic`] Envoy another policy; whether it is taken shows in the log and the stats.
    pub fn replace_policy(&mut self, text: &str) {
        self.setup.policy = Some(text.to_owned());
        self.setup.render(self.folder.path(), self.address, self.admin);
    }
}

/// Two ports that nobody listens on.
fn free_ports() -> [SocketAddr; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    listeners.map(|listener| listener.local_addr().unwrap())
}
