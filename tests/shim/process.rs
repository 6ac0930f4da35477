//! Starting, stopping, and who may ask.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use serde_json::json;
use sluicegate_testing::meddler::{Meddler, Meddling};
use sluicegate_testing::redis::{Redis, free_port};
use sluicegate_testing::shim::{Shim, run};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::rig::{batch, eventually, key, one, only, passing, send, take};

const TOKEN: &str = "a-token-for-filters";

#[tokio::test]
async fn a_token_is_required_when_there_is_one() {
    let shim = Shim::with("memory", &["--token", TOKEN]);
    let client = shim.client();
    let ask = batch(&[only("one", 1)], &[one(&key(0))]).to_string();
    let with = async |value: &str| {
        client.post("/v1/take").header("authorization", value).body(ask.clone()).send().await
    };
    assert_eq!(send(&client, &json!({})).await.status, 401);
    for wrong in ["Bearer", "Bearer wrong", "Basic a-token-for-filters", "a-token-for-filters"] {
        let reply = with(wrong).await;
        assert_eq!((reply.status, reply.header("www-authenticate")), (401, Some("Bearer")), "{wrong}");
    }
    assert_eq!(with(&format!("Bearer {TOKEN}")).await.status, 200);
    assert_eq!(client.get("/healthz").send().await.status, 200, "health needs none");
    assert!(!shim.log().contains(TOKEN));
    let refused = shim.metrics().value("sluicegate_shim_requests_total", &[("outcome", "unauthorized")]);
    assert_eq!(refused, 5.0);
}

#[tokio::test]
async fn beyond_loopback_a_token_is_required() {
    let port = free_port();
    for listen in [format!("0.0.0.0:{port}"), format!("[::]:{port}")] {
        let output = run(&["serve", "--store", "memory", "--listen", &listen]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{error}");
        assert!(error.contains("--listen") && error.contains("--token"), "{error}");
    }
    let shim = Shim::with("memory", &["--listen", &format!("0.0.0.0:{port}"), "--token", TOKEN]);
    eventually("it listens", Duration::from_secs(5), async || shim.log().contains("listening")).await;
}

#[test]
fn faults_of_the_command_line_are_exit_64() {
    for (arguments, expected) in [
        (vec!["serve", "--listen", "8090"], "no address"),
        (vec!["serve", "--store", "http://x"], "unknown scheme"),
        (vec!["serve", "--store-timeout", "30"], "is no time"),
        (vec!["serve", "--token", "short"], "--token"),
        (vec!["serve", "--token-file", "/nowhere"], "--token"),
        (vec!["serve", "--store-prefix", "a:b"], "--store-prefix"),
        (vec!["serve", "--store", "redis://x", "--store-ca", "/nowhere"], "--store-ca"),
        (vec!["serve", "--log-level", "a=b=c"], "--log-level"),
        (vec!["serve", "--surprise"], "--surprise"),
        (vec!["dance"], "dance"),
        (vec![], "Usage"),
    ] {
        let output = run(&arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {error}");
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
    let help = run(&["serve", "--help"]);
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    assert_eq!(help.status.code(), Some(0));
    for expected in ["--listen", "127.0.0.1:8090", "SLUICEGATE_STORE", "30ms"] {
        assert!(text.contains(expected), "{expected} is missing from\n{text}");
    }
}

#[test]
fn a_port_in_use_is_said_with_its_flag() {
    let shim = Shim::start("memory");
    let listen = shim.address().to_string();
    let output = run(&["serve", "--store", "memory", "--listen", &listen, "--admin-listen", "127.0.0.1:0"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(69), "{error}");
    assert!(error.contains(&format!("--listen {listen}")), "{error}");
}

#[tokio::test]
async fn a_unix_socket_is_served_and_cleaned_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shim.sock");
    let listen = format!("unix:{}", path.display());
    let mut shim = Shim::with("memory", &["--listen", &listen, "--socket-mode", "600"]);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let body = batch(&[only("five", 5)], &[one(&key(0))]).to_string();
    let request = format!(
        "POST /v1/take HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let ask = async || {
        let mut stream = tokio::net::UnixStream::connect(&path).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    assert!(ask().await.contains("[[1,1,4,"));

    // A crash leaves the file; the next start takes its place.
    shim.kill();
    assert!(path.exists());
    shim.start_again();
    assert!(ask().await.contains("[[1,1,4,"));

    // One that is in use is left alone.
    let second = run(&["serve", "--store", "memory", "--listen", &listen, "--admin-listen", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(69));
    assert!(ask().await.contains("[[1,1,3,"));

    shim.terminate();
    assert_eq!(shim.wait_end().code(), Some(0));
    assert!(!path.exists());
}

#[tokio::test]
async fn stopping_finishes_what_is_under_way_and_takes_nothing_new() {
    let redis = Redis::start(&[]);
    let meddler = Meddler::start(redis.address().parse().unwrap());
    let store = format!("redis://{}", meddler.address());
    let mut shim = Shim::with(&store, &["--store-timeout", "10s", "--request-timeout", "20s"]);
    shim.wait_ready();
    let client = shim.client();
    let ask = batch(&[only("five", 5)], &[one(&key(0))]);
    take(&client, &ask).await;
    let mut idle = tokio::net::TcpStream::connect(shim.address()).await.unwrap();

    meddler.set(Meddling::Delay(Duration::from_millis(700)));
    let waiting = tokio::spawn({
        let (client, ask) = (client.clone(), ask.clone());
        async move { take(&client, &ask).await }
    });
    let under_way = async || shim.metrics().sum("sluicegate_shim_in_flight", &[]) == 1.0;
    eventually("the batch is under way", Duration::from_secs(5), under_way).await;
    shim.terminate();
    let refused = async || tokio::net::TcpStream::connect(shim.address()).await.is_err();
    eventually("nobody is let in any more", Duration::from_secs(5), refused).await;
    assert_eq!(passing(&waiting.await.unwrap()), 1, "what was under way is answered");
    assert_eq!(shim.wait_end().code(), Some(0));
    let mut rest = Vec::new();
    assert_eq!(idle.read_to_end(&mut rest).await.unwrap_or(0), 0, "idle connections are closed");
    assert!(shim.log().contains("\"stopped\""), "{}", shim.log());
}

#[tokio::test]
async fn stopping_has_a_bound() {
    let redis = Redis::start(&[]);
    let store = redis.url();
    let arguments = ["--store-timeout", "30s", "--request-timeout", "30s", "--drain-timeout", "200ms"];
    let mut shim = Shim::with(&store, &arguments);
    shim.wait_ready();
    redis.freeze();
    let client = shim.client();
    let ask = batch(&[only("five", 5)], &[one(&key(0))]);
    let waiting = tokio::spawn(async move { client.post("/v1/take").body(ask.to_string()).try_send().await });
    let under_way = async || shim.metrics().sum("sluicegate_shim_in_flight", &[]) == 1.0;
    eventually("the batch is under way", Duration::from_secs(5), under_way).await;
    shim.terminate();
    assert_eq!(shim.wait_end().code(), Some(0), "well before the 30 s of the store");
    assert!(waiting.await.unwrap().is_err());
    assert!(shim.log().contains("still under way"), "{}", shim.log());
}

#[tokio::test]
async fn beyond_the_bulkhead_batches_are_refused_at_once() {
    let redis = Redis::start(&[]);
    let shim = Shim::with(
        &redis.url(),
        &["--store-timeout", "20s", "--request-timeout", "20s", "--max-in-flight", "2"],
    );
    shim.wait_ready();
    redis.freeze();
    let client = shim.client();
    let ask = batch(&[only("five", 5)], &[one(&key(0))]);
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let (client, ask) = (client.clone(), ask.clone());
            tokio::spawn(async move { take(&client, &ask).await })
        })
        .collect();
    let under_way = async || shim.metrics().sum("sluicegate_shim_in_flight", &[]) == 2.0;
    eventually("two batches are under way", Duration::from_secs(5), under_way).await;
    let reply = send(&client, &ask).await;
    assert_eq!(reply.status, 503);
    assert!(reply.text().contains("overloaded"), "{}", reply.text());
    redis.thaw();
    for waiting in waiting {
        assert_eq!(passing(&waiting.await.unwrap()), 1);
    }
    assert_eq!(send(&client, &ask).await.status, 200, "and then there is room again");
}

#[tokio::test]
async fn too_many_connections_are_closed_and_the_others_served() {
    let shim = Shim::with("memory", &["--max-connections", "3"]);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(tokio::net::TcpStream::connect(shim.address()).await.unwrap());
    }
    let full = async || shim.metrics().sum("sluicegate_shim_connections", &[]) >= 3.0;
    eventually("three connections are open", Duration::from_secs(5), full).await;
    let mut fourth = tokio::net::TcpStream::connect(shim.address()).await.unwrap();
    let mut rest = Vec::new();
    assert_eq!(fourth.read_to_end(&mut rest).await.unwrap_or(0), 0, "closed without an answer");
    held[0].write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    held[0].read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let room = async || shim.client().get("/healthz").try_send().await.is_ok();
    eventually("there is room again", Duration::from_secs(5), room).await;
    assert_eq!(shim.metrics().sum("sluicegate_shim_connections_refused_total", &[]), 1.0);
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let shim = Shim::with("memory", &["--request-timeout", "100ms"]);
    let mut stream = tokio::net::TcpStream::connect(shim.address()).await.unwrap();
    let head = "POST /v1/take HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 1_024];
    let n = stream.read(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..n]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("late"), "{answer}");
    assert_eq!(shim.metrics().sum("sluicegate_shim_in_flight", &[]), 0.0);
}

#[test]
fn explain_tells_the_key_that_the_admin_calls_want() {
    let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/envoy/policy.yaml");
    let explain = |more: &[&str]| {
        let output = run(&[&["explain", policy], more].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{error}");
        String::from_utf8(output.stdout).unwrap()
    };
    let alice = explain(&["/search?q=1", "-H", "X-Api-Key: alice"]);
    assert!(alice.starts_with("class: normal\n"), "{alice}");
    let limits: Vec<_> = alice.lines().filter(|line| line.starts_with("  key: default/")).collect();
    assert_eq!(limits.len(), 2, "per-caller and search: {alice}");
    assert!(!alice.contains("alice"), "keys are digests: {alice}");
    let bearer = explain(&["/search", "-H", "x-api-key: bob"]);
    assert!(limits.iter().all(|key| !bearer.contains(*key)), "another client: {bearer}");
    assert!(explain(&["/healthz"]).contains("exempt"));
    assert!(explain(&["/login", "--address", "2001:db8::1"]).starts_with("class: critical\n"));
    for wrong in [&["--header", "x"], &["--property", "x"], &["--address", "x"]] {
        assert_eq!(
            run(&[&["explain", policy, "/"], &wrong[..]].concat()).status.code(),
            Some(64),
            "{wrong:?}"
        );
    }
    assert_eq!(run(&["explain", "/nowhere"]).status.code(), Some(66));
}

/// Whoever asks twice does not want to wait: a second signal ends it in the middle of the drain.
#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let redis = Redis::start(&[]);
    let store = redis.url();
    let mut shim =
        Shim::with(&store, &["--store-timeout", "60s", "--request-timeout", "60s", "--drain-timeout", "60s"]);
    shim.wait_ready();
    redis.freeze();
    let client = shim.client();
    let ask = batch(&[only("five", 5)], &[one(&key(0))]);
    let waiting = tokio::spawn(async move { client.post("/v1/take").body(ask.to_string()).try_send().await });
    let under_way = async || shim.metrics().sum("sluicegate_shim_in_flight", &[]) == 1.0;
    eventually("the batch is under way", Duration::from_secs(5), under_way).await;
    shim.terminate();
    eventually("it stops", Duration::from_secs(5), async || shim.log().contains("stopping")).await;
    shim.terminate();
    assert_eq!(shim.wait_end().code(), Some(0), "well before the 60 s of the drain");
    assert!(waiting.await.unwrap().is_err());
    assert!(shim.log().contains("a second time"), "{}", shim.log());
}

/// A Redis on the same machine, by its socket and in another database.
#[tokio::test]
async fn a_redis_is_reached_by_its_socket() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("redis.sock");
    let redis = Redis::start(&["--unixsocket", socket.to_str().unwrap()]);
    let ask = batch(&[only("five", 5)], &vec![one(&key(0)); 6]);
    for (store, db) in [(format!("unix://{}", socket.display()), 0), (format!("{}/3", redis.url()), 3)] {
        let shim = Shim::patient(&store);
        shim.wait_ready();
        assert_eq!(passing(&take(&shim.client(), &ask).await), 5, "{store}");
        let mut connection = redis.connection();
        redis::cmd("SELECT").arg(db).exec(&mut connection).unwrap();
        let keys: u64 = redis::cmd("DBSIZE").query(&mut connection).unwrap();
        assert_eq!(keys, 1, "{store}");
    }
}
