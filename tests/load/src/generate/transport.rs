//! Connections to the gateway.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

/// How requests travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// One request at a time on a connection; `connections` at first, more when all are busy.
    Http1 { connections: usize },
    /// All requests on `connections` connections in turn; 1 pins everything to one worker of the gateway.
    Http2 { connections: usize },
}

/// Most HTTP/1.1 connections at once: beyond, requests fail, and the run is void.
const CONNECTIONS_MAX: usize = 8_192;

/// Longest body read, bytes.
const BODY_MAX: usize = 65_536;

/// An answer, with the part of the body that tells refusals apart.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// The connections of one generator.
#[derive(Debug)]
pub(crate) struct Connections {
    address: SocketAddr,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Http1 { idle: Mutex<VecDeque<Connection>>, open: Arc<AtomicUsize> },
    Http2 { senders: Vec<http2::SendRequest<Empty<Bytes>>>, next: AtomicUsize },
}

/// An HTTP/1.1 connection that closes when it is dropped, as a client that gives up closes it.
#[derive(Debug)]
struct Connection {
    sender: http1::SendRequest<Empty<Bytes>>,
    driver: AbortHandle,
    open: Arc<AtomicUsize>,
}

// === impl Connections ===

impl Connections {
    /// Opens what `transport` begins with.
    ///
    /// # Errors
    ///
    /// Nobody listens at `address`, or it does not speak the protocol.
    pub(crate) async fn open(address: SocketAddr, transport: Transport) -> anyhow::Result<Connections> {
        let kind = match transport {
            Transport::Http1 { connections } => {
                let open = Arc::<AtomicUsize>::default();
                let mut idle = VecDeque::with_capacity(connections);
                for _ in 0..connections {
                    idle.push_back(Connection::open(address, &open).await?);
                }
                Kind::Http1 { idle: Mutex::new(idle), open }
            }
            Transport::Http2 { connections } => {
                let mut senders = Vec::with_capacity(connections);
                for _ in 0..connections.max(1) {
                    senders.push(open_http2(address).await?);
                }
                Kind::Http2 { senders, next: AtomicUsize::new(0) }
            }
        };
        Ok(Connections { address, kind })
    }

    /// Sends `request` and reads the answer. Dropping the future gives the request up.
    ///
    /// # Errors
    ///
    /// No connection could be had, or it broke.
    pub(crate) async fn send(&self, request: Request<Empty<Bytes>>) -> anyhow::Result<Answer> {
        match &self.kind {
            Kind::Http1 { idle, open } => {
                let kept = take_idle(idle);
                let mut connection = match kept {
                    Some(connection) => connection,
                    None => Connection::open(self.address, open).await?,
                };
                let answer = read(connection.sender.send_request(request).await?).await?;
                if connection.sender.ready().await.is_ok() {
                    lock(idle).push_back(connection);
                }
                Ok(answer)
            }
            Kind::Http2 { senders, next } => {
                let turn = next.fetch_add(1, Ordering::Relaxed) % senders.len().max(1);
                let mut sender = senders.get(turn).context("no connection")?.clone();
                read(sender.send_request(request).await?).await
            }
        }
    }

    /// HTTP/1.1 needs a `host` header.
    pub(crate) fn is_http1(&self) -> bool {
        matches!(self.kind, Kind::Http1 { .. })
    }

    /// Requests carry the whole URI on HTTP/2, the path alone on HTTP/1.1.
    pub(crate) fn uri(&self, path: &str) -> String {
        match self.kind {
            Kind::Http1 { .. } => path.to_owned(),
            Kind::Http2 { .. } => format!("http://{}{path}", self.address),
        }
    }
}

// === impl Connection ===

impl Connection {
    async fn open(address: SocketAddr, open: &Arc<AtomicUsize>) -> anyhow::Result<Connection> {
        if open.load(Ordering::Relaxed) >= CONNECTIONS_MAX {
            bail!("{CONNECTIONS_MAX} connections are open");
        }
        let (sender, connection) = http1::handshake(TokioIo::new(connect(address).await?)).await?;
        let driver = tokio::spawn(async move {
            // A connection that breaks is told to the request on it.
            let _ = connection.await;
        });
        open.fetch_add(1, Ordering::Relaxed);
        Ok(Connection { sender, driver: driver.abort_handle(), open: Arc::clone(open) })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One request on a connection of its own, over HTTP/1.1.
///
/// # Errors
///
/// Nobody listens at `address`, or the connection broke.
pub(crate) async fn ask(address: SocketAddr, method: &str, path: &str) -> anyhow::Result<Answer> {
    let mut connection = Connection::open(address, &Arc::default()).await?;
    let request =
        Request::builder().method(method).uri(path).header("host", "localhost").body(Empty::new())?;
    read(connection.sender.send_request(request).await?).await
}

async fn connect(address: SocketAddr) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect(address).await.with_context(|| format!("cannot reach {address}"))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn open_http2(address: SocketAddr) -> anyhow::Result<http2::SendRequest<Empty<Bytes>>> {
    let io = TokioIo::new(connect(address).await?);
    let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
    tokio::spawn(async move {
        // As above.
        let _ = connection.await;
    });
    Ok(sender)
}

async fn read(response: Response<Incoming>) -> anyhow::Result<Answer> {
    let (parts, body) = response.into_parts();
    let body = http_body_util::Limited::new(body, BODY_MAX).collect().await;
    let body = body.map_err(anyhow::Error::from_boxed)?.to_bytes();
    Ok(Answer { status: parts.status, headers: parts.headers, body })
}

fn take_idle(idle: &Mutex<VecDeque<Connection>>) -> Option<Connection> {
    let mut idle = lock(idle);
    while let Some(connection) = idle.pop_front() {
        if !connection.sender.is_closed() {
            return Some(connection);
        }
    }
    None
}

fn lock(idle: &Mutex<VecDeque<Connection>>) -> MutexGuard<'_, VecDeque<Connection>> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}
