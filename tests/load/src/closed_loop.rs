//! A closed loop over HTTP/1.1: each connection asks again as soon as it is answered.
//!
//! Requests are bytes made beforehand, and of an answer only its status and length are read: about 5 us of work for
//! each, where a full client takes 20. It has to be cheaper than what it measures.

use std::net::SocketAddr;
use std::sync::Arc;
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
    /// Sent again and again.
    pub(crate) request: Vec<u8>,
    /// Digits in the request that count up to a number of keys; each connection begins at a place of its own.
    pub(crate) keys: Option<Keys>,
    /// Shortest time from one request of a connection to its next.
    pub(crate) pace: Duration,
}

/// Where the number of the key is in a request, and how many keys there are.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    places: Arc<[usize]>,
    count: u64,
}

/// Stands for the number of the key in the text of a request, as often as it likes; as many digits take its place.
pub(crate) const KEY: &str = "########";

/// What came back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers {
    /// Answers by hundreds of the status, and 429 apart.
    pub(crate) ok: u64,
    pub(crate) limited: u64,
    pub(crate) other: u64,
    /// The beginning of one of the others.
    pub(crate) oddity: Option<String>,
    /// Length of the measurement, seconds.
    pub(crate) seconds: f64,
    /// Of every answer, microseconds, sorted.
    pub(crate) latencies_us: Vec<u32>,
}

/// Longest answer, bytes.
const ANSWER_MAX: usize = 1 << 20;

/// Bytes of an odd answer that are shown.
const ODDITY_MAX: usize = 512;

// === impl Load ===

impl Load {
    /// A load whose requests name `keys` different keys where [`KEY`] stands.
    pub(crate) fn new(address: SocketAddr, connections: usize, request: Vec<u8>, keys: u64) -> Load {
        let windows = request.windows(KEY.len()).enumerate();
        let places: Arc<[usize]> =
            windows.filter(|(_, bytes)| *bytes == KEY.as_bytes()).map(|(at, _)| at).collect();
        let keys = (!places.is_empty()).then(|| Keys { places, count: keys.max(1) });
        Load { address, connections, request, keys, pace: Duration::ZERO }
    }
}

// === impl Keys ===

impl Keys {
    /// Writes the key of this number into the request.
    fn write(&self, request: &mut [u8], number: u64) {
        for &at in &*self.places {
            let mut rest = number % self.count;
            let digits = request.get_mut(at..at + KEY.len()).unwrap_or_default();
            for digit in digits.iter_mut().rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
        }
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
    let mut streams = Vec::with_capacity(load.connections);
    for _ in 0..load.connections {
        let stream = TcpStream::connect(load.address).await.context("cannot reach the gateway")?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    let start = Instant::now();
    let until = start + length;
    let mut loops = tokio::task::JoinSet::new();
    for (i, stream) in streams.into_iter().enumerate() {
        loops.spawn(one(stream, load.clone(), i as u64, until));
    }
    let mut all = Answers::default();
    while let Some(done) = loops.join_next().await {
        all.merge(done??);
    }
    all.seconds = start.elapsed().min(length).as_secs_f64();
    all.latencies_us.sort_unstable();
    Ok(all)
}

async fn one(mut stream: TcpStream, load: Load, i: u64, until: Instant) -> anyhow::Result<Answers> {
    let mut answers = Answers::default();
    let mut buffer = Vec::with_capacity(4_096);
    let mut request = load.request;
    // Spread out, so that no two connections ask for the same key all the time.
    let mut number = load.keys.as_ref().map_or(0, |keys| i * keys.count / load.connections.max(1) as u64);
    loop {
        if let Some(keys) = &load.keys {
            keys.write(&mut request, number);
        }
        number += 1;
        let asked = Instant::now();
        stream.write_all(&request).await?;
        let status = read(&mut stream, &mut buffer).await?;
        let now = Instant::now();
        if now >= until {
            return Ok(answers);
        }
        answers.add(status, now - asked);
        if answers.oddity.is_none() && answers.other > 0 {
            let shown = buffer.get(..buffer.len().min(ODDITY_MAX)).unwrap_or_default();
            answers.oddity = Some(String::from_utf8_lossy(shown).into_owned());
        }
        if !load.pace.is_zero() {
            tokio::time::sleep_until((asked + load.pace).min(until).into()).await;
        }
    }
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
        self.oddity = self.oddity.take().or(other.oddity);
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
    fn keys_count_up_and_begin_again() {
        let headers = "x-api-key: ########\r\nx-again: a########\r\n";
        let load = Load::new(([127, 0, 0, 1], 1).into(), 1, get("/", headers), 12);
        let mut request = load.request.clone();
        for (number, digits) in [(3, "00000003"), (11, "00000011"), (12, "00000000")] {
            load.keys.as_ref().unwrap().write(&mut request, number);
            assert_eq!(String::from_utf8_lossy(&request).matches(digits).count(), 2);
        }
        assert!(Load::new(load.address, 1, get("/", ""), 5).keys.is_none());
    }

    #[test]
    fn answers_are_measured_by_their_length() {
        let text = b"HTTP/1.1 429 Too Many\r\nContent-Length: 5\r\nserver: x\r\n\r\nhello";
        assert_eq!(head(text).unwrap().unwrap(), (429, text.len()));
        assert!(head(b"HTTP/1.1 200 OK\r\nserver").is_none());
        assert!(head(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").unwrap().is_err());
        assert!(head(b"nonsense\r\n\r\n").unwrap().is_err());
    }
}
