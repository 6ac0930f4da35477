//! A closed loop over HTTP/1.1: each connection asks again as soon as it is answered.
//!
//! Requests are bytes made beforehand, and of an answer only its status and length are read: about 5 us of work for
//! each, where a full client takes 20. It has to be cheaper than what it measures.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::stats::percentile;

/// What is asked, how often at once.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) address: SocketAddr,
    pub(crate) connections: usize,
    /// Sent in turn, each connection from a place of its own; at least one.
    pub(crate) requests: Vec<Vec<u8>>,
}

/// What came back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers {
    /// Answers by hundreds of the status, and 429 apart.
    pub(crate) ok: u64,
    pub(crate) limited: u64,
    pub(crate) other: u64,
    /// Length of the measurement, seconds.
    pub(crate) seconds: f64,
    /// Of every answer, microseconds, sorted.
    pub(crate) latencies_us: Vec<u32>,
}

/// Longest answer, bytes.
const ANSWER_MAX: usize = 1 << 20;

// === impl Load ===

impl Load {
    /// The same GET on every connection.
    pub(crate) fn get(address: SocketAddr, path: &str, connections: usize) -> Load {
        Load { address, connections, requests: vec![get(path, "")] }
    }
}

/// A GET with more header lines, each ended by CR LF.
pub(crate) fn get(path: &str, headers: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: sluicegate.test\r\n{headers}\r\n").into_bytes()
}

/// A POST with a JSON body.
pub(crate) fn post(path: &str, body: &str) -> Vec<u8> {
    let head = "host: sluicegate.test\r\ncontent-type: application/json";
    format!("POST {path} HTTP/1.1\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Runs the load for `length`; answers still under way at its end are not counted.
///
/// # Errors
///
/// A connection cannot be had, breaks, or brings what is no HTTP/1.1 answer with a length.
pub(crate) async fn run(load: &Load, length: Duration) -> anyhow::Result<Answers> {
    ensure!(!load.requests.is_empty(), "there is nothing to send");
    let mut streams = Vec::with_capacity(load.connections);
    for _ in 0..load.connections {
        let stream = TcpStream::connect(load.address).await.context("cannot reach the gateway")?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    let start = Instant::now();
    let until = start + length;
    let mut loops = tokio::task::JoinSet::new();
    let requests = std::sync::Arc::new(load.requests.clone());
    for (i, stream) in streams.into_iter().enumerate() {
        // Spread out, so that no two connections ask for the same all the time.
        let first = i * requests.len() / load.connections.max(1);
        loops.spawn(one(stream, std::sync::Arc::clone(&requests), first, until));
    }
    let mut all = Answers::default();
    while let Some(done) = loops.join_next().await {
        all.merge(done??);
    }
    all.seconds = start.elapsed().min(length).as_secs_f64();
    all.latencies_us.sort_unstable();
    Ok(all)
}

async fn one(
    mut stream: TcpStream,
    requests: std::sync::Arc<Vec<Vec<u8>>>,
    first: usize,
    until: Instant,
) -> anyhow::Result<Answers> {
    let mut answers = Answers::default();
    let mut buffer = Vec::with_capacity(4_096);
    for request in requests.iter().cycle().skip(first) {
        let asked = Instant::now();
        stream.write_all(request).await?;
        let status = read(&mut stream, &mut buffer).await?;
        let now = Instant::now();
        if now >= until {
            break;
        }
        answers.add(status, now - asked);
    }
    Ok(answers)
}

/// Reads one answer and gives its status.
async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> anyhow::Result<u16> {
    buffer.clear();
    loop {
        ensure!(stream.read_buf(buffer).await? > 0, "the gateway closed the connection");
        if let Some(head) = head(buffer) {
            let (status, length) = head?;
            while buffer.len() < length {
                ensure!(stream.read_buf(buffer).await? > 0, "the gateway closed the connection");
            }
            return Ok(status);
        }
        ensure!(buffer.len() < ANSWER_MAX, "the head of the answer does not end");
    }
}

/// Status and length of head and body together; `None` while the head is not complete.
fn head(buffer: &[u8]) -> Option<anyhow::Result<(u16, usize)>> {
    let end = buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let head = buffer.get(..end).and_then(|head| std::str::from_utf8(head).ok());
    Some(parse(head.unwrap_or_default()).map(|(status, body)| (status, end + 4 + body)))
}

fn parse(head: &str) -> anyhow::Result<(u16, usize)> {
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).context("no status")?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    let length: usize = length.context("the answer has no content-length")?;
    ensure!(length <= ANSWER_MAX, "the answer is too long");
    Ok((status, length))
}

// === impl Answers ===

impl Answers {
    fn add(&mut self, status: u16, took: Duration) {
        *match status {
            429 => &mut self.limited,
            200..=299 => &mut self.ok,
            _ => &mut self.other,
        } += 1;
        self.latencies_us.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
    }

    fn merge(&mut self, other: Answers) {
        self.ok += other.ok;
        self.limited += other.limited;
        self.other += other.other;
        self.latencies_us.extend(other.latencies_us);
    }

    pub(crate) fn total(&self) -> u64 {
        self.ok + self.limited + self.other
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.total() as f64 / self.seconds.max(1e-9)
    }

    /// The latency at `share` (0 to 1), microseconds.
    pub(crate) fn latency_us(&self, share: f64) -> f64 {
        percentile(&self.latencies_us, share).map_or(f64::NAN, f64::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_measured_by_their_length() {
        let text = b"HTTP/1.1 429 Too Many\r\nContent-Length: 5\r\nserver: x\r\n\r\nhello";
        assert_eq!(head(text).unwrap().unwrap(), (429, text.len()));
        assert!(head(b"HTTP/1.1 200 OK\r\nserver").is_none());
        assert!(head(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").unwrap().is_err());
        assert!(head(b"nonsense\r\n\r\n").unwrap().is_err());
    }
}
