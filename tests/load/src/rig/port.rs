//! Ports of this machine.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// A port that nothing listens on. Another process may take it before it is used; then the start fails with the
/// log of whoever came second.
pub(crate) fn free() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// The address of a port on loopback.
pub(crate) fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
