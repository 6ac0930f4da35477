//! A real Redis: one server, a Cluster, a master with sentinels.

pub mod cluster;
pub mod sentinel;

use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::clock::Clock;

/// How long a server may take to answer its first PING.
const START_MAX: Duration = Duration::from_secs(10);

/// A `redis-server` on a port of its own, in a directory of its own; ended by its handle.
#[derive(Debug)]
pub struct Redis {
    child: Child,
    directory: TempDir,
    port: u16,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Redis {
    /// Starts a server that keeps nothing on disk, with these arguments besides (`&["--maxmemory", "3mb"]`).
    ///
    /// # Panics
    ///
    /// When there is no `redis-server` on the path (install Redis 6.2 or newer, or Valkey), or it does not start.
    pub fn start(arguments: &[&str]) -> Redis {
        Redis::launch(arguments, Vec::new())
    }

    /// Starts a server that lives by this clock.
    pub fn with_clock(clock: &Clock, arguments: &[&str]) -> Redis {
        Redis::launch(arguments, clock.environment())
    }

    fn launch(arguments: &[&str], environment: Vec<(String, String)>) -> Redis {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        // Another process may take the port between finding it free and using it.
        for _ in 0..5 {
            let port = free_port();
            let mut child = spawn(&directory, port, &arguments, &environment);
            if answers(&mut child, port) {
                return Redis { child, directory, port, arguments, environment };
            }
            end(&mut child);
        }
        panic!("redis-server does not start: {arguments:?}");
    }

    /// The port it listens on, at 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis://127.0.0.1:<port>`
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// `127.0.0.1:<port>`
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The directory it works in.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A blocking connection.
    pub fn connection(&self) -> redis::Connection {
        connect(self.port).expect("a connection to the Redis of this test")
    }

    /// A section of `INFO`; empty when it does not answer.
    pub fn info(&self, section: &str) -> String {
        let Ok(mut connection) = connect(self.port) else { return String::new() };
        redis::cmd("INFO").arg(section).query(&mut connection).unwrap_or_default()
    }

    /// Ends the server. Nothing listens on its port until [`Redis::restart`].
    pub fn stop(&mut self) {
        end(&mut self.child);
    }

    /// Starts it anew on the same port, empty.
    pub fn restart(&mut self) {
        self.stop();
        self.child = spawn(&self.directory, self.port, &self.arguments, &self.environment);
        assert!(answers(&mut self.child, self.port), "redis-server does not start again on its port");
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
}

impl Drop for Redis {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// A port that is free now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}

fn spawn(directory: &TempDir, port: u16, arguments: &[String], environment: &[(String, String)]) -> Child {
    let spawned = Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no"])
        .args(["--port", &port.to_string(), "--dir"])
        .arg(directory.path())
        .args(arguments)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match spawned {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            panic!("no redis-server on the path: run `make redis`")
        }
        Err(error) => panic!("redis-server: {error}"),
    }
}

/// Waits until the server answers; false if it ended instead, or takes too long.
fn answers(child: &mut Child, port: u16) -> bool {
    let until = Instant::now() + START_MAX;
    while Instant::now() < until {
        if child.try_wait().is_ok_and(|status| status.is_some()) {
            return false;
        }
        let replied = connect(port).and_then(|mut connection| redis::cmd("PING").exec(&mut connection));
        match replied {
            // A server that asks who we are is up too.
            Ok(()) => return true,
            Err(error) if error.to_string().contains("NOAUTH") => return true,
            Err(_) => sleep(Duration::from_millis(5)),
        }
    }
    false
}

fn connect(port: u16) -> redis::RedisResult<redis::Connection> {
    let connection = redis::Client::open(("127.0.0.1", port))?.get_connection()?;
    connection.set_read_timeout(Some(Duration::from_secs(10)))?;
    Ok(connection)
}

fn end(child: &mut Child) {
    // Either it has ended already, or this ends it.
    let _ = child.kill();
    let _ = child.wait();
}
