//! TLS and logins.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testing::client::get;
use sluicegate_testing::pki::Pki;
use sluicegate_testing::redis::sentinel::Trio;
use sluicegate_testing::redis::{Redis, free_port};
use sluicegate_testing::shim::{ADMIN_TOKEN, Shim};

use crate::manual;
use crate::rig::{batch, eventually, key, one, only, passing, send, take};

/// How soon a shim has to be ready once what was wrong has been put right.
const READY: Duration = Duration::from_secs(3);

/// A Redis with TLS beside its plain port, which the test itself uses.
struct Secured {
    redis: Redis,
    port: u16,
}

impl Secured {
    fn start(pki: &Pki, names: &[&str]) -> Secured {
        Secured::with(pki, names, &[])
    }

    fn with(pki: &Pki, names: &[&str], arguments: &[&str]) -> Secured {
        let (certificate, key) = pki.issue("server", names);
        let port = free_port();
        let (number, ca) = (port.to_string(), pki.ca());
        let mut all = vec!["--tls-port", &number, "--tls-ca-cert-file", text(&ca)];
        all.extend(["--tls-cert-file", text(&certificate), "--tls-key-file", text(&key)]);
        all.extend(arguments);
        let redis = Redis::start(&all);
        Secured { redis, port }
    }

    fn url(&self) -> String {
        format!("rediss://127.0.0.1:{}", self.port)
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Status of `/readyz` and the kind it names.
fn readiness(shim: &Shim) -> (u16, String) {
    let (status, body) = get(shim.admin_address(), "/readyz").unwrap();
    let body: Value = serde_json::from_str(&body).unwrap_or_default();
    (status, body["error"].as_str().unwrap_or_default().to_owned())
}

async fn decides(shim: &Shim) {
    let three = batch(&[only("two", 2)], &vec![one(&key(0)); 3]);
    assert_eq!(passing(&take(&shim.client(), &three).await), 2);
}

#[tokio::test]
async fn takes_work_over_tls_and_only_towards_whom_we_trust() {
    let pki = Pki::new();
    let redis = Secured::start(&pki, &["localhost", "127.0.0.1"]);
    let (certificate, private) = pki.issue("client", &["sluicegate"]);
    let ca = pki.ca();
    let all = ["--store-ca", text(&ca), "--store-cert", text(&certificate), "--store-key", text(&private)];
    let shim = Shim::with(&redis.url(), &all);
    shim.wait_ready();
    decides(&shim).await;

    // Somebody else's authority; none at all; no certificate of ours; plain words to a port that wants TLS.
    let stranger = Pki::new();
    let other = stranger.ca();
    let wrong =
        ["--store-ca", text(&other), "--store-cert", text(&certificate), "--store-key", text(&private)];
    let plain = format!("redis://127.0.0.1:{}", redis.port);
    for (store, arguments, said) in [
        (redis.url(), wrong.to_vec(), "UnknownIssuer"),
        (redis.url(), vec![], "UnknownIssuer"),
        (redis.url(), vec!["--store-ca", text(&ca)], "store cannot be reached"),
        (plain, vec![], "store cannot be reached"),
    ] {
        let shim = Shim::with(&store, &arguments);
        eventually("it has tried", READY, async || shim.log().contains("store cannot be reached")).await;
        assert!(shim.log().contains(said), "{store} {arguments:?}: {}", shim.log());
        assert_eq!(readiness(&shim).0, 503, "{arguments:?}");
        assert!(
            shim.log().matches("store cannot be reached").count() <= 2,
            "once for each reason: {}",
            shim.log()
        );
    }
    let clients: String = redis::cmd("CLIENT").arg("LIST").query(&mut redis.redis.connection()).unwrap();
    assert!(clients.contains("lib-name=sluicegate") || !clients.contains("lib-name"), "{clients}");
}

/// Nodes of a Cluster are reached as the first one was: with TLS, by the address that the cluster tells.
#[tokio::test]
async fn a_cluster_is_followed_over_tls() {
    let pki = Pki::new();
    let bus = free_port().to_string();
    let redis = Secured::with(
        &pki,
        &["127.0.0.1"],
        &[
            "--cluster-enabled",
            "yes",
            "--cluster-port",
            &bus,
            "--tls-cluster",
            "yes",
            "--tls-auth-clients",
            "no",
        ],
    );
    let mut slots = redis::cmd("CLUSTER");
    slots.arg("ADDSLOTSRANGE").arg(0).arg(16_383).exec(&mut redis.redis.connection()).unwrap();
    let ca = pki.ca();
    let shim = Shim::with(&redis.url().replace("rediss://", "rediss+cluster://"), &["--store-ca", text(&ca)]);
    shim.wait_ready();
    eventually("the node takes on its slots", Duration::from_secs(10), async || {
        let look = batch(&[only("two", 2)], &[json!([[0, key(0), 0, 0]])]);
        send(&shim.client(), &look).await.status == 200
    })
    .await;
    let log = shim.log();
    assert!(log.contains(&format!("\"masters\":\"127.0.0.1:{}\"", redis.port)), "{log}");
}

/// Sentinels have a password of their own beside the login of the servers.
#[tokio::test]
async fn sentinels_and_servers_have_their_own_passwords() {
    let trio = Trio::start();
    for server in 0..3 {
        let permissions = manual::permissions();
        let mut login = redis::cmd("ACL");
        login.arg("SETUSER").arg("sluicegate").arg("on").arg(">of-the-servers");
        login.arg(permissions.split(' ').collect::<Vec<_>>());
        login.exec(&mut trio.server(server).connection()).unwrap();
    }
    for sentinel in 0..3 {
        let mut connection = trio.sentinel_connection(sentinel);
        let mut password = redis::cmd("SENTINEL");
        password.arg("CONFIG").arg("SET").arg("sentinel-pass").arg("of-the-sentinels");
        password.exec(&mut connection).unwrap();
        let mut password = redis::cmd("ACL");
        password.arg("SETUSER").arg("default").arg("resetpass").arg(">of-the-sentinels");
        password.exec(&mut connection).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let [servers, sentinels] = ["servers", "sentinels"].map(|of| {
        let file = folder.path().join(of);
        std::fs::write(&file, format!("of-the-{of}\n")).unwrap();
        file
    });
    let store = trio.url().replace("://", "://sluicegate@");
    let shim = Shim::with(
        &store,
        &[
            "--store-timeout",
            "3s",
            "--store-password-file",
            text(&servers),
            "--sentinel-password-file",
            text(&sentinels),
        ],
    );
    shim.wait_ready();
    decides(&shim).await;
    let shim = Shim::with(&store, &["--store-password-file", text(&servers)]);
    eventually("it says what is missing", READY, async || readiness(&shim) == (503, "denied".into())).await;
    assert!(shim.log().contains("NOAUTH"), "{}", shim.log());
}

#[tokio::test]
async fn a_certificate_for_another_host_is_refused() {
    let pki = Pki::new();
    let redis = Secured::start(&pki, &["redis.example"]);
    let (certificate, private) = pki.issue("client", &["sluicegate"]);
    let ca = pki.ca();
    let all = ["--store-ca", text(&ca), "--store-cert", text(&certificate), "--store-key", text(&private)];
    let shim = Shim::with(&redis.url(), &all);
    eventually("the log says why", READY, async || shim.log().contains("not valid for name")).await;
    assert_eq!(readiness(&shim).0, 503);
}

#[tokio::test]
async fn a_wrong_password_is_said_and_healed_on_either_side() {
    let redis = Redis::start(&[]);
    let mut connection = redis.connection();
    let mut set_user = |words: &str| {
        let mut command = redis::cmd("ACL");
        command.arg("SETUSER").arg("sluicegate").arg(words.split_whitespace().collect::<Vec<_>>());
        command.exec(&mut connection).unwrap();
    };
    set_user(&format!("on >right-password {}", manual::permissions()));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "wrong-password\n").unwrap();
    let store = format!("redis://sluicegate@127.0.0.1:{}", redis.port());
    let shim = Shim::with(&store, &["--store-password-file", text(&file)]);
    eventually("it says what is wrong", READY, async || readiness(&shim) == (503, "denied".into())).await;
    let log = shim.log();
    assert!(log.contains("store cannot be reached") && log.contains("authentication failed"), "{log}");

    // The server learns the password.
    set_user(">wrong-password");
    eventually("it is ready by itself", READY, async || shim.is_ready()).await;
    decides(&shim).await;

    // The password is changed under way: the file first, as a mounted secret is, then the server.
    std::fs::write(&file, "new-password\n").unwrap();
    set_user("resetpass >new-password");
    redis::cmd("CLIENT").arg("KILL").arg("USER").arg("sluicegate").exec(&mut redis.connection()).unwrap();
    eventually("it uses the new one", READY, async || shim.is_ready()).await;
    eventually("it answers", READY, async || {
        let look = batch(&[only("two", 2)], &[json!([[0, key(0), 0, 0]])]);
        send(&shim.client(), &look).await.status == 200
    })
    .await;
    for password in ["wrong-password", "right-password", "new-password"] {
        assert!(!shim.log().contains(password), "{}", shim.log());
    }
}

/// The login that the manual tells operators to make can do all the shim does, and one that can do less is not ready.
#[tokio::test]
async fn the_documented_permissions_suffice_and_are_needed() {
    let redis = Redis::start(&[]);
    let login = |name: &str, permissions: &str| {
        let mut command = redis::cmd("ACL");
        command.arg("SETUSER").arg(name).arg("on").arg(">a-password");
        command.arg(permissions.split_whitespace().collect::<Vec<_>>());
        command.exec(&mut redis.connection()).unwrap();
        format!("redis://{name}:a-password@127.0.0.1:{}", redis.port())
    };
    let enough = manual::permissions();
    let shim = Shim::patient(&login("enough", &enough));
    shim.wait_ready();
    decides(&shim).await;
    let limits = [
        json!(["fixed", {"fixed_window": {"limit": 1, "per_us": 60_000_000, "aligned": true}}]),
        json!(["sliding", {"sliding_window": {"limit": 1, "per_us": 60_000_000}}]),
        json!(["log", {"sliding_log": {"limit": 1, "per_us": 60_000_000}}]),
        json!(["places", {"concurrency": {"max": 1, "release_after_us": 60_000_000}}]),
    ];
    let asks: Vec<Value> = (0..4).map(|limit| json!([limit, key(1), 1, 1])).collect();
    let mut all = batch(&limits, &vec![json!(asks); 2]);
    all["takes"][0]["slot"] = json!(1);
    all["takes"][1]["slot"] = json!(2);
    assert_eq!(passing(&take(&shim.client(), &all).await), 1);
    // A place that is cut to a shorter time, one that is given back, a charge.
    all["limits"][3][1]["concurrency"]["release_after_us"] = json!(1_000_000);
    all["charges"] = json!([[0, key(1), 1]]);
    all["releases"] = json!([[3, key(1), 1]]);
    assert_eq!(passing(&take(&shim.client(), &all).await), 0);
    let admin = sluicegate_testing::client::Client::http1(shim.admin_address());
    let numbers = json!({"numbers": only("two", 9)[1], "expires_in_s": 60}).to_string();
    for (method, path, body) in [
        ("PUT", format!("/v1/overrides/default/two/{}", key(0)), numbers.as_str()),
        ("GET", "/v1/overrides".into(), ""),
        ("DELETE", format!("/v1/overrides/default/two/{}", key(0)), ""),
        ("DELETE", format!("/v1/keys/default/two/{}", key(0)), ""),
    ] {
        let ask = admin.ask(method, &path).header("authorization", format!("Bearer {ADMIN_TOKEN}"));
        let reply = ask.header("content-type", "application/json").body(body.to_owned()).send().await;
        assert_eq!(reply.status, 200, "{method} {path}: {}", reply.text());
    }
    assert_eq!(shim.metrics().sum("sluicegate_shim_store_errors_total", &[]), 0.0);
    assert!(!shim.log().contains("WARN"), "{}", shim.log());

    for (name, permissions, said) in [
        ("no-script", enough.replace("+evalsha ", ""), "evalsha"),
        ("no-key", enough.replace("~sluicegate:*", "~another:*"), "keys"),
        ("no-read", enough.replace("+mget ", ""), "can't run this command"),
    ] {
        let shim = Shim::patient(&login(name, &permissions));
        eventually("it has tried", READY, async || shim.log().contains("store cannot be reached")).await;
        assert!(shim.log().contains(said), "{name}: {}", shim.log());
        assert_eq!(readiness(&shim), (503, "denied".into()), "{name}: {}", shim.log());
    }
}
