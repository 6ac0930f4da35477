//! Where a server listens.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// A TCP address or the path of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `127.0.0.1:8090`, `[::1]:8090`; port 0 picks a free one.
    Tcp(SocketAddr),
    /// `unix:/run/sluicegate.sock`.
    Unix(PathBuf),
}

impl Address {
    /// Only processes of this machine reach it.
    #[must_use]
    pub fn is_private(&self) -> bool {
        match self {
            Address::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Address::Unix(_) => true,
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') => Ok(Address::Unix(PathBuf::from(path))),
            Some(_) => {
                Err(format!("`{text}`: the path of a Unix socket must be absolute, like unix:/run/x.sock"))
            }
            None => text.parse().map(Address::Tcp).map_err(|_| {
                format!("`{text}` is no address: expected like 127.0.0.1:8090 or unix:/run/x.sock")
            }),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_means_this_machine() {
        for private in ["127.0.0.1:0", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "unix:/run/x.sock"] {
            assert!(private.parse::<Address>().unwrap().is_private(), "{private}");
        }
        for open in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:10.0.0.1]:1"] {
            assert!(!open.parse::<Address>().unwrap().is_private(), "{open}");
        }
        for bad in ["", "8090", "localhost:8090", "unix:x.sock", "127.0.0.1"] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }
}
