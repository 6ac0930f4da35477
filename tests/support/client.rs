//! A client of the gateway, and of anything else that speaks HTTP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Version};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// Sends requests over connections of its own; clones share them.
#[derive(Clone, Debug)]
pub struct Client {
    address: SocketAddr,
    inner: legacy::Client<HttpConnector, Full<Bytes>>,
    version: Version,
}

/// A request about to be sent.
#[derive(Clone, Debug)]
pub struct Ask {
    client: Client,
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

/// An answer, read to its end.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Status code.
    pub status: u16,
    /// Headers, and the trailers behind them.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

// === impl Client ===

impl Client {
    /// Speaks HTTP/1.1, over as many connections as there are requests at a time.
    pub fn http1(address: SocketAddr) -> Client {
        Client::new(address, Version::HTTP_11)
    }

    /// Speaks HTTP/2 without TLS, over one connection.
    pub fn http2(address: SocketAddr) -> Client {
        Client::new(address, Version::HTTP_2)
    }

    fn new(address: SocketAddr, version: Version) -> Client {
        let inner =
            legacy::Client::builder(TokioExecutor::new()).http2_only(version == Version::HTTP_2).build_http();
        Client { address, inner, version }
    }

    /// A GET of this path and query.
    pub fn get(&self, path: &str) -> Ask {
        self.ask("GET", path)
    }

    /// A POST to this path and query, without a body unless one is given.
    pub fn post(&self, path: &str) -> Ask {
        self.ask("POST", path)
    }

    /// A request of any method.
    pub fn ask(&self, method: &str, path: &str) -> Ask {
        let headers = HeaderMap::new();
        Ask {
            client: self.clone(),
            method: method.parse().unwrap(),
            path: path.into(),
            headers,
            body: Bytes::new(),
        }
    }

    /// Sends `n` requests at once, the i-th made by `ask(i)`, and waits for all answers, in order.
    pub async fn burst(&self, n: usize, ask: impl Fn(&Client, usize) -> Ask) -> Vec<Reply> {
        let sent: Vec<_> = (0..n).map(|i| tokio::spawn(ask(self, i).send())).collect();
        let mut replies = Vec::with_capacity(n);
        for task in sent {
            replies.push(task.await.unwrap());
        }
        replies
    }
}

// === impl Ask ===

impl Ask {
    /// Adds a header; bytes above 127 are sent as they are.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Ask {
        let name: HeaderName = name.parse().unwrap();
        self.headers.append(name, HeaderValue::from_bytes(value.as_ref()).unwrap());
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Ask {
        self.body = body.into();
        self
    }

    /// Sends it and reads the answer.
    ///
    /// # Panics
    ///
    /// There is no answer: the connection was refused or broken off.
    pub async fn send(self) -> Reply {
        let what = format!("{} {}", self.method, self.path);
        self.try_send().await.unwrap_or_else(|error| panic!("{what}: no answer: {error}"))
    }

    /// Sends it and reads the answer.
    ///
    /// # Errors
    ///
    /// There is no answer; the text says why.
    pub async fn try_send(self) -> Result<Reply, String> {
        let uri = format!("http://{}{}", self.client.address, self.path);
        let mut request = Request::builder()
            .method(self.method)
            .uri(uri)
            .version(self.client.version)
            .body(Full::from(self.body))
            .unwrap();
        *request.headers_mut() = self.headers;
        let response = self.client.inner.request(request).await.map_err(|error| format!("{error:?}"))?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(|error| format!("{error:?}"))?;
        let mut headers = head.headers;
        if let Some(trailers) = body.trailers() {
            headers.extend(trailers.clone());
        }
        Ok(Reply { status: head.status.as_u16(), headers, body: body.to_bytes() })
    }
}

// === impl Reply ===

impl Reply {
    /// A header's value as text, `None` if it is not there.
    ///
    /// # Panics
    ///
    /// The field is there more than once, or is no text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let first = values.next()?;
        assert!(values.next().is_none(), "{name} is there more than once: {:?}", self.headers);
        Some(first.to_str().unwrap())
    }

    /// A header's value as a whole number.
    ///
    /// # Panics
    ///
    /// It is there and no whole number, or is there more than once.
    pub fn number(&self, name: &str) -> Option<u64> {
        let text = self.header(name)?;
        Some(text.parse().unwrap_or_else(|_| panic!("{name}: {text:?} is no whole number")))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// How many of `replies` have this status.
pub fn with_status(replies: &[Reply], status: u16) -> usize {
    replies.iter().filter(|reply| reply.status == status).count()
}

/// Status and body of a GET, `None` if nobody answers. It blocks, which is right for a test's own thread.
pub fn get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    match head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        true => Some((status, joined(body)?)),
        false => Some((status, body.to_owned())),
    }
}

/// The chunks of a body, joined.
fn joined(mut body: &str) -> Option<String> {
    let mut whole = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n")?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        if size == 0 {
            return Some(whole);
        }
        whole.push_str(rest.get(..size)?);
        body = rest.get(size + 2..)?;
    }
}
