//! A real master with two replicas, watched by three sentinels.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{Redis, connect, end, free_port};

/// How long they may take to find each other, or to fail over.
const AGREE_MAX: Duration = Duration::from_secs(30);

/// The name under which sentinels know the master.
pub const MASTER: &str = "main";

/// Three servers and three sentinels.
#[derive(Debug)]
pub struct Trio {
    servers: Vec<Redis>,
    sentinels: Vec<Sentinel>,
}

/// A sentinel, ended by its handle.
#[derive(Debug)]
struct Sentinel {
    child: Child,
    port: u16,
    /// It writes its file anew with every change.
    _directory: TempDir,
}

// === impl Trio ===

impl Trio {
    /// Starts them and waits until the sentinels could carry out a fail-over.
    pub fn start() -> Trio {
        let settings = ["--repl-diskless-sync-delay", "0"];
        let master = Redis::start(&settings);
        let follow = format!("127.0.0.1 {}", master.port());
        let replica = || Redis::start(&[&settings[..], &["--replicaof", &follow]].concat());
        let servers = vec![master, replica(), replica()];
        until("the replicas are in step", || {
            servers[0].info("replication").matches("state=online").count() == 2
        });
        let sentinels = (0..3).map(|_| Sentinel::start(servers[0].port())).collect();
        let trio = Trio { servers, sentinels };
        until("the sentinels know each other", || {
            trio.sentinels
                .iter()
                .all(|one| one.master("num-other-sentinels") == "2" && one.master("num-slaves") == "2")
        });
        trio
    }

    /// `redis+sentinel://` with all three.
    pub fn url(&self) -> String {
        let all: Vec<String> = self.sentinels.iter().map(|one| format!("127.0.0.1:{}", one.port)).collect();
        format!("redis+sentinel://{}/{MASTER}", all.join(","))
    }

    /// A server; the first one started as master.
    pub fn server(&self, at: usize) -> &Redis {
        &self.servers[at]
    }

    /// A server, to stop it or to start it again.
    pub fn server_mut(&mut self, at: usize) -> &mut Redis {
        &mut self.servers[at]
    }

    /// The server that a sentinel names as master.
    pub fn named_by(&self, sentinel: usize) -> usize {
        let port = self.sentinels[sentinel].master("port");
        let named = self.servers.iter().position(|server| server.port().to_string() == port);
        named.expect("a server of ours")
    }

    /// Waits until all sentinels that run name another master than this, and gives it.
    pub fn wait_successor(&self, of: usize) -> usize {
        until("all name another master", || (0..3).all(|at| self.named_by(at) != of));
        self.named_by(0)
    }

    /// Waits until both replicas have all that a master has written.
    pub fn wait_replicated(&self, master: usize) {
        // What was written before it has arrived when this has.
        let mut connection = self.servers[master].connection();
        redis::cmd("SET").arg("marker").arg(1).arg("EX").arg(60).exec(&mut connection).expect("a master");
        let replicas: usize = redis::cmd("WAIT").arg(2).arg(9_000).query(&mut connection).expect("a master");
        assert_eq!(replicas, 2, "replicas that have everything");
    }

    /// A blocking connection to a sentinel.
    pub fn sentinel_connection(&self, at: usize) -> redis::Connection {
        connect(self.sentinels[at].port).expect("a connection to a sentinel")
    }

    /// Stops a sentinel from running while its connections stay open.
    pub fn freeze_sentinel(&self, at: usize) {
        self.sentinels[at].signal("-STOP");
    }

    /// Lets it run on.
    pub fn thaw_sentinel(&self, at: usize) {
        self.sentinels[at].signal("-CONT");
    }
}

// === impl Sentinel ===

impl Sentinel {
    fn start(master: u16) -> Sentinel {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let port = free_port();
        let file = directory.path().join("sentinel.conf");
        let config = format!(
            "bind 127.0.0.1\nport {port}\ndir {}\nsentinel monitor {MASTER} 127.0.0.1 {master} 2\n\
             sentinel down-after-milliseconds {MASTER} 1500\nsentinel failover-timeout {MASTER} 3000\n",
            directory.path().display()
        );
        std::fs::write(&file, config).expect("a file for the sentinel");
        let child = Command::new("redis-server")
            .arg(&file)
            .arg("--sentinel")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server: install it (`make redis`)");
        let sentinel = Sentinel { child, port, _directory: directory };
        until("the sentinel answers", || connect(port).is_ok());
        // They ask and tell each other ten times a second, so that a test need not wait for their usual periods.
        let mut connection = connect(port).expect("the sentinel answers");
        for period in ["info-period", "publish-period", "ask-period"] {
            let hurry = redis::cmd("SENTINEL").arg("DEBUG").arg(period).arg(100).exec(&mut connection);
            hurry.expect("SENTINEL DEBUG, which Redis has from version 7 on");
        }
        sentinel
    }

    /// A field of `SENTINEL MASTER`; empty when it does not answer.
    fn master(&self, field: &str) -> String {
        let Ok(mut connection) = connect(self.port) else { return String::new() };
        let fields: std::collections::HashMap<String, String> =
            redis::cmd("SENTINEL").arg("master").arg(MASTER).query(&mut connection).unwrap_or_default();
        fields.get(field).cloned().unwrap_or_default()
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").arg(signal).arg(self.child.id().to_string()).status();
        assert!(status.is_ok_and(|status| status.success()), "kill {signal}");
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + AGREE_MAX;
    while !holds() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
