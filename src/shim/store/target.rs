//! Which store: the URL of `--store`, read.

use std::sync::Arc;

use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, RedisResult};

use crate::store::secrets::Secrets;

/// Where tokens are counted.
#[derive(Clone, Debug)]
pub enum Target {
    /// In this process.
    Memory,
    /// One Redis.
    Single(Node),
    /// The master that sentinels name.
    Sentinel {
        /// Sentinels, asked in turn.
        sentinels: Vec<Node>,
        /// The name of the master.
        master: Box<str>,
        /// How to reach what they name: its address is replaced.
        node: Node,
    },
    /// A Redis Cluster.
    Cluster {
        /// Nodes to ask for the map of slots; none of them has to stay.
        seeds: Vec<Node>,
    },
}

/// A Redis server and how to log in.
#[derive(Clone, Debug)]
pub struct Node {
    info: ConnectionInfo,
    secrets: Arc<Secrets>,
}

impl Target {
    /// Reads the URL. The password in a file wins over the URL's.
    ///
    /// # Errors
    /// What is wrong with it; the URL itself, which may hold a password, is not repeated.
    pub fn parse(
        url: &str,
        secrets: &Arc<Secrets>,
        sentinel_secrets: &Arc<Secrets>,
    ) -> Result<Target, String> {
        if url == "memory" {
            return Ok(Target::Memory);
        }
        let (scheme, rest) = url.split_once("://").ok_or_else(|| {
            "expected `memory` or a URL: redis, rediss, unix, redis+sentinel, rediss+sentinel, redis+cluster or \
             rediss+cluster"
                .to_owned()
        })?;
        let base = if scheme.starts_with("rediss") { "rediss" } else { "redis" };
        match scheme {
            "redis" | "rediss" | "unix" | "redis+unix" => {
                let scheme = scheme.strip_prefix("redis+").unwrap_or(scheme);
                Node::new(&format!("{scheme}://{rest}"), secrets).map(Target::Single)
            }
            "redis+sentinel" | "rediss+sentinel" => {
                let (login, hosts, path) = split(rest);
                let (master, db) = path.split_once('/').unwrap_or((path, "0"));
                if master.is_empty() {
                    return Err("the master's name is missing: redis+sentinel://HOST:PORT,HOST:PORT/MASTER"
                        .to_owned());
                }
                let sentinels = nodes(base, "", &hosts, 26_379, sentinel_secrets)?;
                // The address is a place holder: sentinels name the real one.
                let node = Node::new(&format!("{base}://{login}127.0.0.1:6379/{db}"), secrets)?;
                Ok(Target::Sentinel { sentinels, master: master.into(), node })
            }
            "redis+cluster" | "rediss+cluster" => {
                let (login, hosts, path) = split(rest);
                if !matches!(path, "" | "0") {
                    return Err("a cluster has database 0 only".to_owned());
                }
                let seeds = nodes(base, login, &hosts, 6_379, secrets)?;
                Ok(Target::Cluster { seeds })
            }
            _ => Err(format!("unknown scheme `{scheme}`")),
        }
    }

    /// What logs may say about it: never a password.
    #[must_use]
    pub fn describe(&self) -> String {
        let list = |nodes: &[Node]| nodes.iter().map(Node::describe).collect::<Vec<_>>().join(",");
        match self {
            Target::Memory => "memory".to_owned(),
            Target::Single(node) => format!("redis {}", node.describe()),
            Target::Sentinel { sentinels, master, .. } => format!("sentinel {} {master}", list(sentinels)),
            Target::Cluster { seeds } => format!("cluster {}", list(seeds)),
        }
    }
}

impl Node {
    fn new(url: &str, secrets: &Arc<Secrets>) -> Result<Node, String> {
        // The client's own message may repeat the URL and its password: only the kind is passed on.
        let info = url
            .into_connection_info()
            .map_err(|error| format!("no address of a Redis ({})", error.category()))?;
        if secrets.has_certificates() && !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            return Err("certificates are given, but the scheme is not rediss".to_owned());
        }
        let login = info.redis_settings().clone().set_lib_name("sluicegate", env!("CARGO_PKG_VERSION"));
        let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true);
        let info = info.set_redis_settings(login).set_tcp_settings(tcp);
        let node = Node { info, secrets: Arc::clone(secrets) };
        // What could never work is a fault of the command line.
        node.client().map_err(|error| error.to_string())?;
        Ok(node)
    }

    /// The same way of logging in, elsewhere.
    pub(crate) fn at(&self, host: &str, port: u16) -> Node {
        let addr = match self.info.addr().clone() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host: host.to_owned(), port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(host.to_owned(), port),
        };
        Node { info: self.info.clone().set_addr(addr), secrets: Arc::clone(&self.secrets) }
    }

    /// A client for it, with the secrets as their files are now; nothing is connected yet.
    ///
    /// # Errors
    /// A file cannot be read, or holds no certificate.
    pub(crate) fn client(&self) -> RedisResult<Client> {
        self.secrets.client(self.info.clone())
    }

    /// `host:port` or the socket's path.
    pub(crate) fn describe(&self) -> String {
        self.info.addr().to_string()
    }

    /// The host, to resolve what a cluster calls itself when it does not know its address.
    pub(crate) fn host(&self) -> Option<&str> {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => Some(host),
            _ => None,
        }
    }
}

/// Splits `[login@]hosts[/path]`; the login keeps its `@`.
fn split(rest: &str) -> (&str, Vec<&str>, &str) {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, hosts) = match authority.rfind('@') {
        Some(at) => authority.split_at_checked(at + 1).unwrap_or(("", authority)),
        None => ("", authority),
    };
    (login, hosts.split(',').collect(), path)
}

fn nodes(
    scheme: &str,
    login: &str,
    hosts: &[&str],
    default_port: u16,
    secrets: &Arc<Secrets>,
) -> Result<Vec<Node>, String> {
    let node = |host: &&str| {
        if host.is_empty() {
            return Err("an address is missing".to_owned());
        }
        let has_port =
            host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
        let port = if has_port { String::new() } else { format!(":{default_port}") };
        Node::new(&format!("{scheme}://{login}{host}{port}/"), secrets)
    };
    hosts.iter().map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Result<Target, String> {
        Target::parse(url, &Arc::default(), &Arc::default())
    }

    #[test]
    fn urls_are_read() {
        for (url, expected) in [
            ("memory", "memory"),
            ("redis://127.0.0.1", "redis 127.0.0.1:6379"),
            ("redis://user:secret@redis.example:7000/2", "redis redis.example:7000"),
            ("rediss://redis.example", "redis redis.example:6379"),
            ("unix:///run/redis.sock", "redis /run/redis.sock"),
            ("redis+unix:///run/redis.sock", "redis /run/redis.sock"),
            ("redis+sentinel://a:1,b/main", "sentinel a:1,b:26379 main"),
            ("redis+sentinel://u:s@a:1/main/3", "sentinel a:1 main"),
            ("redis+cluster://u:s@a:1,b:2,[::1]:3", "cluster a:1,b:2,::1:3"),
        ] {
            assert_eq!(target(url).map(|t| t.describe()).as_deref(), Ok(expected), "{url}");
        }
    }

    #[test]
    fn errors_do_not_repeat_the_password() {
        for url in [
            "",
            "redis",
            "http://u:hush@x",
            "redis://u:hush@x:notaport",
            "redis+sentinel://u:hush@a:1",
            "redis+cluster://u:hush@a,,b",
            "redis+cluster://u:hush@a/5",
        ] {
            let error = target(url).unwrap_err();
            assert!(!error.contains("hush"), "{error}");
        }
    }

    #[test]
    fn the_login_follows_the_master() {
        let Ok(Target::Sentinel { node, .. }) = target("redis+sentinel://u:s@a:1/main/3") else { panic!() };
        let login = node.at("10.0.0.1", 7).info;
        assert_eq!(login.addr().to_string(), "10.0.0.1:7");
        assert_eq!(login.redis_settings().username(), Some("u"));
        assert_eq!(login.redis_settings().db(), 3);
    }
}
