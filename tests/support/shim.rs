//! The shim, as a process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::{Client, get};
use crate::clock::Clock;
use crate::envoy::Metrics;
use crate::redis::free_port;

/// Token of the admin functions of every shim started here.
pub const ADMIN_TOKEN: &str = "the-admin-token-of-tests";

/// What makes a shim patient.
const PATIENT: [&str; 4] = ["--store-timeout", "3s", "--request-timeout", "6s"];

/// Variable that bounds the file descriptors of a shim.
const DESCRIPTORS: &str = "SHIM_DESCRIPTORS";

/// How long a shim may take to answer, or to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The shim, as a process of its own; ended by its handle.
#[derive(Debug)]
pub struct Shim {
    child: Child,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    address: SocketAddr,
    admin: SocketAddr,
    folder: TempDir,
}

// === impl Shim ===

impl Shim {
    /// Starts one on this store and waits until it is alive; whether it is ready depends on the store.
    pub fn start(store: &str) -> Shim {
        Shim::with(store, &[])
    }

    /// Starts one that waits for its store for as long as a busy machine may take: for tests of what is decided, not of
    /// how soon.
    pub fn patient(store: &str) -> Shim {
        Shim::with(store, &PATIENT)
    }

    /// Starts one with further arguments; a `--listen` among them wins over a free port.
    pub fn with(store: &str, arguments: &[&str]) -> Shim {
        Shim::launch(folder(), store, arguments, Vec::new())
    }

    /// Starts a patient one that listens on a socket file.
    pub fn patient_on_socket(store: &str) -> Shim {
        let folder = folder();
        let listen = format!("unix:{}", socket_in(&folder).display());
        let arguments: Vec<&str> = PATIENT.into_iter().chain(["--listen", &listen]).collect();
        Shim::launch(folder, store, &arguments, Vec::new())
    }

    /// Starts one on the memory store that gets only so many file descriptors.
    pub fn with_descriptors(n: usize) -> Shim {
        Shim::launch(folder(), "memory", &[], vec![(DESCRIPTORS.into(), n.to_string())])
    }

    /// Starts a patient one that lives by this clock.
    pub fn with_clock(clock: &Clock, store: &str) -> Shim {
        Shim::launch(folder(), store, &PATIENT, clock.environment())
    }

    fn launch(folder: TempDir, store: &str, arguments: &[&str], environment: Vec<(String, String)>) -> Shim {
        let [address, admin] = [(); 2].map(|()| SocketAddr::from(([127, 0, 0, 1], free_port())));
        let mut all: Vec<String> =
            ["serve", "--store", store, "--admin-token", ADMIN_TOKEN].map(Into::into).into();
        all.extend(["--log-format", "json", "--admin-listen"].map(Into::into));
        all.push(admin.to_string());
        if !arguments.contains(&"--listen") {
            all.extend(["--listen".into(), address.to_string()]);
        }
        all.extend(arguments.iter().map(|&argument| argument.into()));
        let child = spawn(&all, &environment, folder.path());
        let mut shim = Shim { child, arguments: all, environment, address, admin, folder };
        shim.wait_alive();
        shim
    }

    /// Where filters ask, unless `--listen` says otherwise.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The file of [`Shim::patient_on_socket`].
    pub fn socket(&self) -> PathBuf {
        socket_in(&self.folder)
    }

    /// Where operators ask.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin
    }

    /// A client of the filters' listener.
    pub fn client(&self) -> Client {
        Client::http1(self.address)
    }

    /// What it has logged so far, one JSON object a line.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// What it has counted so far.
    pub fn metrics(&self) -> Metrics {
        let (_, body) = get(self.admin, "/metrics").expect("the shim answers");
        Metrics::parse(&body)
    }

    /// Whether it says that it is ready.
    pub fn is_ready(&self) -> bool {
        get(self.admin, "/readyz").is_some_and(|(status, _)| status == 200)
    }

    /// Waits until it is ready.
    pub fn wait_ready(&self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.is_ready() {
            assert!(Instant::now() < deadline, "the shim does not become ready:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Asks it to stop, as an orchestrator does.
    pub fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Stops it from running while its connections stay open, as a stalled machine would.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    /// Lets it run on.
    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").arg(signal).arg(self.child.id().to_string()).status();
        assert!(status.is_ok_and(|status| status.success()), "kill {signal}");
    }

    /// The most memory that it ever had, KiB.
    pub fn peak_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux tells");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Waits for its end.
    pub fn wait_end(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("the child is ours") {
                return status;
            }
            assert!(Instant::now() < deadline, "the shim does not end:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        // Either it has ended already, or this ends it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again on the same ports.
    pub fn start_again(&mut self) {
        self.kill();
        self.child = spawn(&self.arguments, &self.environment, self.folder.path());
        self.wait_alive();
    }

    fn wait_alive(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while get(self.admin, "/healthz").is_none_or(|(status, _)| status != 200) {
            let ended = self.child.try_wait().expect("the child is ours").is_some();
            assert!(!ended, "the shim has ended:\n{}", self.log());
            assert!(Instant::now() < deadline, "the shim does not answer:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs the binary to its end: for commands other than `serve`, and for faults that end it.
pub fn run(arguments: &[&str]) -> Output {
    Command::new(binary()).args(arguments).stdin(Stdio::null()).output().expect("the binary runs")
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn socket_in(folder: &TempDir) -> PathBuf {
    folder.path().join("shim.sock")
}

fn spawn(arguments: &[String], environment: &[(String, String)], folder: &Path) -> Child {
    let open = || {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log"));
        log.expect("a file for the log")
    };
    // The shell bounds itself, and becomes the shim.
    let limited = format!("[ -z \"${DESCRIPTORS}\" ] || ulimit -n \"${DESCRIPTORS}\"; exec \"$0\" \"$@\"");
    let child = Command::new("sh")
        .args(["-c", &limited])
        .arg(binary())
        .args(arguments)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(open())
        .stderr(open())
        .spawn();
    child.expect("the binary starts")
}

/// The shipped binary.
fn binary() -> PathBuf {
    let path = match std::env::var_os("SLUICEGATE_BIN") {
        Some(path) => path.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/native/sluicegate"),
    };
    assert!(path.exists(), "{} is missing; build it: make build", path.display());
    path
}
