//! The leanest upstream: the same answer to every HTTP/1.1 GET, in a thread of its own.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 3\r\n\r\nok\n";

/// Longest head of a request, bytes.
const HEAD_MAX: usize = 16_384;

/// Starts it and gives its port. It serves as long as the process lives.
///
/// # Errors
///
/// No port or thread can be had.
pub(crate) fn start() -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("echo".into()).spawn(move || runtime.block_on(serve(listener)))?;
    Ok(port)
}

async fn serve(listener: TcpListener) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        // A peer that leaves is no fault.
        tokio::spawn(answer(stream));
    }
}

async fn answer(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(2_048);
    while stream.read_buf(&mut buffer).await? > 0 && buffer.len() < HEAD_MAX {
        // One request at a time, as Envoy sends them; a GET ends with its head.
        if buffer.ends_with(b"\r\n\r\n") {
            buffer.clear();
            stream.write_all(ANSWER).await?;
        }
    }
    Ok(())
}
