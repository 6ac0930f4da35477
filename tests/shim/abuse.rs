//! Peers that behave badly, and too many of them.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use sluicegate_testing::client::Client;
use sluicegate_testing::shim::Shim;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::rig::{batch, eventually, key, one, only, passing, send, take};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

async fn connect(shim: &Shim) -> TcpStream {
    TcpStream::connect(shim.address()).await.unwrap()
}

/// Whether the peer has closed it; what it said before does not matter.
fn is_closed(stream: &TcpStream) -> bool {
    loop {
        match stream.try_read(&mut [0; 4_096]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }
}

/// Ten thousand connections come where 4,096 may: those are served, the others closed, and all is as before when they go.
#[tokio::test]
async fn ten_thousand_connections_are_too_many() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    assert!(
        maximum.is_none_or(|most| 10_500 <= most),
        "this test needs `ulimit -Hn` of 10,500, not {maximum:?}"
    );
    let shim = Shim::start("memory");
    let mut held = Vec::new();
    for _ in 0..10_000 {
        held.push(connect(&shim).await);
    }
    let refused = async || shim.metrics().sum("sluicegate_shim_connections_refused_total", &[]);
    eventually("the rest is closed", PATIENCE, async || refused().await >= 5_904.0).await;
    let open = || held.iter().filter(|stream| !is_closed(stream)).count();
    eventually("4,096 are open", PATIENCE, async || open() == 4_096).await;
    assert_eq!(shim.log().matches("too many connections").count(), 1, "{}", shim.log());
    let body = batch(&[only("one", 1)], &[one(&key(0))]).to_string();
    let ask = format!(
        "POST /v1/take HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let served = held.iter_mut().find(|stream| !is_closed(stream)).unwrap();
    served.write_all(ask.as_bytes()).await.unwrap();
    let mut answer = String::new();
    served.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("[[1,1,0,"), "{answer}");
    drop(held);
    let idle = async || shim.metrics().sum("sluicegate_shim_connections", &[]) <= 1.0;
    eventually("they are gone", PATIENCE, idle).await;
    assert_eq!(send(&shim.client(), &json!({})).await.status, 400, "there is room again");
    assert!(shim.peak_kib() < 300_000, "{} KiB", shim.peak_kib());
}

/// File descriptors run out before the bound on connections: those that are open are served, and it heals.
#[tokio::test]
async fn no_descriptors_left_is_no_end() {
    let shim = Shim::with_descriptors(100);
    assert!(shim.log().contains("fewer file descriptors than connections may need"), "{}", shim.log());
    let mut first = connect(&shim).await;
    first.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = [0; 256];
    assert!(first.read(&mut answer).await.unwrap() > 0);
    let mut held = Vec::new();
    for _ in 0..200 {
        held.push(connect(&shim).await);
    }
    eventually("it says so", PATIENCE, async || shim.log().contains("cannot accept connections")).await;
    first.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let n = first.read(&mut answer).await.unwrap();
    assert!(answer[..n].starts_with(b"HTTP/1.1 200"), "who is connected is served");
    drop(held);
    eventually("it accepts again", PATIENCE, async || shim.log().contains("accepting connections again"))
        .await;
    let healthy = async || shim.client().get("/healthz").try_send().await.is_ok();
    eventually("newcomers are served", PATIENCE, healthy).await;
    let [lost, found] = ["cannot accept connections", "accepting connections again"]
        .map(|text| shim.log().matches(text).count());
    assert_eq!(lost, found, "one line for each change: {}", shim.log());
}

/// Three hundred peers send their requests an octet at a time, or never finish them; nobody else notices.
#[tokio::test]
async fn slow_senders_hold_nobody_up() {
    let shim = Shim::with("memory", &["--request-timeout", "500ms", "--idle-timeout", "2s"]);
    let mut slow = Vec::new();
    for n in 0..300 {
        let mut stream = connect(&shim).await;
        let body_begun = "POST /v1/take HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{";
        let head = [body_begun, "POST /v1/ta", "PRI * HT", "P", ""][n % 5];
        stream.write_all(head.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    let ask = batch(&[only("hundred", 100)], &[one(&key(0))]);
    let replies = shim.client().burst(50, |client, _| client.post("/v1/take").body(ask.to_string())).await;
    assert!(replies.iter().all(|reply| reply.status == 200));
    eventually("all of them are closed", PATIENCE, async || slow.iter().all(is_closed)).await;
    let metrics = shim.metrics();
    assert_eq!(metrics.value("sluicegate_shim_requests_total", &[("outcome", "late")]), 60.0);
    assert_eq!(metrics.sum("sluicegate_shim_in_flight", &[]), 0.0);
}

/// Bodies that never end are cut off at the bound, and take no more memory than that.
#[tokio::test]
async fn endless_bodies_are_cut_off() {
    let shim = Shim::with("memory", &["--request-timeout", "5s"]);
    let mut senders = Vec::new();
    for _ in 0..32 {
        let mut stream = connect(&shim).await;
        senders.push(tokio::spawn(async move {
            let head = "POST /v1/take HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
            stream.write_all(head.as_bytes()).await.unwrap();
            let chunk = [b"10000\r\n".as_slice(), &[b' '; 65_536], b"\r\n"].concat();
            // A closed connection ends it.
            while stream.write_all(&chunk).await.is_ok() {}
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
        }));
    }
    for sender in senders {
        sender.await.unwrap();
    }
    let malformed = shim.metrics().value("sluicegate_shim_requests_total", &[("outcome", "malformed")]);
    assert_eq!(malformed, 32.0);
    assert!(shim.peak_kib() < 200_000, "{} KiB", shim.peak_kib());
    let ask = batch(&[only("one", 1)], &[one(&key(0))]);
    assert_eq!(passing(&take(&shim.client(), &ask).await), 1);
}

/// Octets changed, lost and added anywhere in a good batch: a verdict or a 400, never anything else.
#[test]
fn damaged_batches_are_answered() {
    let shim = Shim::start("memory");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = Client::http1(shim.address());
    let mut good = batch(
        &[only("five", 5), json!(["places", {"concurrency": {"max": 1, "release_after_us": 60_000_000}}])],
        &[json!([[0, key(0), 1, 1], [1, key(0), 1, 1]])],
    );
    good["takes"][0]["slot"] = json!(7);
    good["charges"] = json!([[0, key(1), 4]]);
    good["releases"] = json!([[1, key(1), 7]]);
    let good = good.to_string().into_bytes();
    let damage = prop::collection::vec((0..good.len(), any::<u8>(), 0..3_u8), 1..4);
    let mut runner = TestRunner::new(Config { cases: 1_000, failure_persistence: None, ..Config::default() });
    runner
        .run(&damage, |damage| {
            let mut body = good.clone();
            for (at, octet, how) in damage {
                let at = at.min(body.len() - 1);
                match how {
                    0 => body[at] = octet,
                    1 => drop(body.remove(at)),
                    _ => body.insert(at, octet),
                }
            }
            let reply = runtime.block_on(client.post("/v1/take").body(body).send());
            prop_assert!(matches!(reply.status, 200 | 400), "{}: {}", reply.status, reply.text());
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}
