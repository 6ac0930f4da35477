//! Sockets that are listened on: TCP and Unix alike.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::address::Address;
use crate::settings::Settings;

/// The two doors of the server.
#[derive(Debug)]
pub struct Listeners {
    /// For filters.
    pub take: Listener,
    /// For operators.
    pub admin: Listener,
}

/// A socket that is listened on.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// A Unix socket; its file goes with it.
    Unix(UnixListener, SocketFile),
}

/// A connection.
#[derive(Debug)]
pub enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// Unix.
    Unix(UnixStream),
}

/// Removes the file when the listener ends.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Listeners {
    /// Binds both.
    ///
    /// # Errors
    /// An address is taken or not ours; the message names the flag.
    pub async fn bind(settings: &Settings) -> anyhow::Result<Listeners> {
        let take = Listener::bind(&settings.listen, settings.socket_mode).await;
        let admin = Listener::bind(&settings.admin_listen, settings.socket_mode).await;
        Ok(Listeners {
            take: take.with_context(|| format!("--listen {}", settings.listen))?,
            admin: admin.with_context(|| format!("--admin-listen {}", settings.admin_listen))?,
        })
    }
}

impl Listener {
    /// Binds one address.
    ///
    /// # Errors
    /// It is taken or not ours.
    pub async fn bind(address: &Address, socket_mode: u32) -> io::Result<Listener> {
        match address {
            Address::Tcp(address) => TcpListener::bind(address).await.map(Listener::Tcp),
            Address::Unix(path) => {
                remove_stale(path).await?;
                let listener = UnixListener::bind(path)?;
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(socket_mode))?;
                Ok(Listener::Unix(listener, SocketFile(path.clone())))
            }
        }
    }

    /// The address in use: with the real port if 0 was asked for.
    pub fn address(&self) -> String {
        match self {
            Listener::Tcp(listener) => match listener.local_addr() {
                Ok(address) => address.to_string(),
                Err(_) => String::new(),
            },
            Listener::Unix(_, file) => format!("unix:{}", file.0.display()),
        }
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// As the system says; most often there are no file descriptors left.
    pub async fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                // A peer that vanished without a word must not keep its place for ever.
                let alive = socket2::TcpKeepalive::new()
                    .with_time(Duration::from_secs(30))
                    .with_interval(Duration::from_secs(10))
                    .with_retries(3);
                socket2::SockRef::from(&stream).set_tcp_keepalive(&alive)?;
                Ok(Stream::Tcp(stream))
            }
            Listener::Unix(listener, _) => listener.accept().await.map(|(stream, _)| Stream::Unix(stream)),
        }
    }
}

/// Removes a socket file that nobody listens on any more; anything else stays and makes `bind` fail.
async fn remove_stale(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(file) if file.file_type().is_socket() => match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
            Ok(_) | Err(_) => Ok(()),
        },
        Ok(_) | Err(_) => Ok(()),
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody may have removed it already; there is nothing left to do then.
        let _ = std::fs::remove_file(&self.0);
    }
}
