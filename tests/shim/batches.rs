//! What is answered to batches, good and bad.

use serde_json::{Value, json};
use sluicegate_testing::client::Client;
use sluicegate_testing::redis::Redis;
use sluicegate_testing::shim::Shim;

use crate::rig::{batch, key, one, only, passed, passing, send, take};

/// Runs a test on each store.
async fn on_each_store(test: impl AsyncFn(&Shim)) {
    let redis = Redis::start(&[]);
    for store in ["memory".to_owned(), redis.url()] {
        let shim = Shim::patient(&store);
        shim.wait_ready();
        test(&shim).await;
    }
}

#[tokio::test]
async fn one_batch_has_one_verdict_for_each_take_in_order() {
    on_each_store(async |shim| {
        let takes: Vec<Value> = [0, 1, 0, 1, 0, 0].map(|n| one(&key(n))).into();
        let verdicts = take(&shim.client(), &batch(&[only("three", 3)], &takes)).await;
        let passes: Vec<_> = verdicts.iter().map(passed).collect();
        assert_eq!(passes, [true, true, true, true, true, false].map(Some));
        let remaining: Vec<_> = verdicts.iter().map(|verdict| verdict[0][2].as_u64().unwrap()).collect();
        assert_eq!(remaining, [2, 2, 1, 1, 0, 0]);
        assert!(verdicts[5][0][4].as_u64().unwrap() > 0, "a refusal says when to come back");
    })
    .await;
}

#[tokio::test]
async fn a_refused_take_is_charged_nowhere() {
    on_each_store(async |shim| {
        let limits = [only("wide", 10), only("narrow", 1)];
        let both = json!([[0, key(0), 1, 1], [1, key(1), 1, 1]]);
        let verdicts = take(&shim.client(), &batch(&limits, &[both.clone(), both.clone(), both])).await;
        assert_eq!(passing(&verdicts), 1);
        assert_eq!(verdicts[2][0][0], 1, "the wide limit would have let it pass");
        assert_eq!(verdicts[2][0][2], 9, "and is not charged");
        assert_eq!(verdicts[2][1][0], 0);
    })
    .await;
}

#[tokio::test]
async fn concurrent_batches_share_a_limit_exactly() {
    on_each_store(async |shim| {
        let client = shim.client();
        let takes: Vec<Value> = vec![one(&key(0)); 10];
        let batch = batch(&[only("hundred", 100)], &takes);
        let replies = client.burst(20, |client, _| client.post("/v1/take").body(batch.to_string())).await;
        let verdicts = replies.iter().flat_map(|reply| {
            let answer: Value = serde_json::from_slice(&reply.body).unwrap();
            answer["verdicts"].as_array().unwrap().clone()
        });
        assert_eq!(passing(&verdicts.collect::<Vec<_>>()), 100);
    })
    .await;
}

#[tokio::test]
async fn charges_and_releases_count_for_the_takes_that_follow() {
    on_each_store(async |shim| {
        let client = shim.client();
        let places = json!(["places", {"concurrency": {"max": 1, "release_after_us": 60_000_000}}]);
        let mut first = batch(&[only("five", 5), places], &[json!([[1, key(0), 1, 1]])]);
        first["takes"][0]["slot"] = json!(7);
        first["charges"] = json!([[0, key(1), 4]]);
        assert_eq!(passing(&take(&client, &first).await), 1);

        let mut second = first.clone();
        second["takes"][0]["slot"] = json!(8);
        second["takes"].as_array_mut().unwrap().push(json!({"asks": [[0, key(1), 1, 1]]}));
        second["charges"] = json!([]);
        let verdicts = take(&client, &second).await;
        assert_eq!(verdicts.iter().map(passed).collect::<Vec<_>>(), [Some(false), Some(true)]);

        let mut third = second.clone();
        third["takes"][0]["slot"] = json!(9);
        third["releases"] = json!([[1, key(0), 7]]);
        let verdicts = take(&client, &third).await;
        assert_eq!(verdicts.iter().map(passed).collect::<Vec<_>>(), [Some(true), Some(false)]);
    })
    .await;
}

#[tokio::test]
async fn looking_costs_nothing_and_blocks_give_what_there_is() {
    on_each_store(async |shim| {
        let takes = [json!([[0, key(0), 0, 0]]), json!([[0, key(0), 20, 1]]), json!([[0, key(0), 0, 0]])];
        let verdicts = take(&shim.client(), &batch(&[only("eight", 8)], &takes)).await;
        let [look, block, again] = [0, 1, 2].map(|n| verdicts[n][0].clone());
        assert_eq!((&look[0], &look[1], &look[2]), (&json!(1), &json!(0), &json!(8)));
        assert_eq!((&block[0], &block[1], &block[2]), (&json!(1), &json!(8), &json!(0)));
        assert_eq!(again[0], 0, "nothing is left to look forward to");
    })
    .await;
}

/// Whoever could fill the store could wipe his own record, if keys in use were forgotten.
#[tokio::test]
async fn a_full_memory_forgets_nobody() {
    let shim = Shim::with("memory", &["--memory-keys", "1000"]);
    let client = shim.client();
    let five = batch(&[only("five", 5)], &vec![one(&key(0)); 6]);
    assert_eq!(passing(&take(&client, &five).await), 5);
    for thousand in 1..=5 {
        let takes: Vec<Value> = (0..1_000).map(|n| one(&key(1_000 * thousand + n))).collect();
        take(&client, &batch(&[only("five", 5)], &takes)).await;
    }
    assert_eq!(passing(&take(&client, &five).await), 0, "it is remembered");
    assert!(shim.metrics().sum("sluicegate_shim_store_overflows_total", &[]) > 3_000.0);
    let fresh = batch(&[only("five", 5)], &[one(&key(9_999))]);
    assert_eq!(passing(&take(&client, &fresh).await), 0, "newcomers share one quota, and it is used up");
}

#[tokio::test]
async fn an_empty_batch_is_answered() {
    on_each_store(async |shim| {
        assert!(take(&shim.client(), &batch(&[], &[])).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn http_2_and_http_1_are_served_on_one_port() {
    let shim = Shim::start("memory");
    let client = Client::http2(shim.address());
    let takes = batch(&[only("hundred", 100)], &[one(&key(0))]);
    let replies = client.burst(150, |client, _| client.post("/v1/take").body(takes.to_string())).await;
    assert!(replies.iter().all(|reply| reply.status == 200));
    assert_eq!(passing(&take(&shim.client(), &takes).await), 0, "all 150 were decided, and 100 passed");
}

/// Everything that is no batch, or one beyond its bounds: refused with a sentence that says what was expected.
#[tokio::test]
async fn bad_batches_are_refused_and_charge_nothing() {
    let shim = Shim::start("memory");
    let client = shim.client();
    let limits =
        [only("three", 3), json!(["places", {"concurrency": {"max": 1, "release_after_us": 60_000_000}}])];
    let good = batch(&limits, &[one(&key(0))]);
    let with = |path: &str, value: Value| {
        let mut batch = good.clone();
        *batch.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = value;
        batch.to_string()
    };
    let also = |field: &str, value: Value| {
        let mut batch = good.clone();
        batch[field] = value;
        batch.to_string()
    };
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let table = [
        (String::new(), "EOF"),
        ("{".into(), "EOF"),
        ("null".into(), "expected struct"),
        (deep, "expected"),
        (format!("{good} "), ""),
        (format!("{good}x"), "trailing"),
        (with("/version", json!(2)), "version: expected 1"),
        (with("/version", json!("1")), "expected u32"),
        (with("/namespace", json!("")), "namespace: expected"),
        (with("/namespace", json!("a:{b}")), "namespace: expected"),
        (also("surprise", json!(1)), "unknown field `surprise`"),
        (with("/limits", json!(vec![only("a", 1); 1_001])), "limits: expected at most 1,000"),
        (with("/limits/0/0", json!("Upper")), "limits[0]: expected a name"),
        (
            with("/limits/0/1", json!({"token_bucket": {"burst": 0, "tokens": 1, "period_us": 1}})),
            "burst out of range: 0",
        ),
        (
            with("/limits/0/1", json!({"token_bucket": {"burst": -1, "tokens": 1, "period_us": 1}})),
            "invalid value",
        ),
        (
            with("/limits/0/1", json!({"token_bucket": {"burst": 1.5, "tokens": 1, "period_us": 1}})),
            "invalid type",
        ),
        (with("/limits/0/1", json!({"magic": {}})), "unknown variant `magic`"),
        (with("/takes", json!(vec![json!({"asks": one(&key(0))}); 1_025])), "takes: expected at most 1,024"),
        (with("/takes/0/asks", json!([])), "takes[0].asks: expected 1 to 64"),
        (with("/takes/0/asks", json!(vec![json!([0, key(0), 1, 1]); 65])), "takes[0].asks: expected 1 to 64"),
        (with("/takes/0/asks/0/0", json!(9)), "takes[0].asks[0]: expected the index of a limit"),
        (with("/takes/0/asks/0/1", json!("a{b}:c-d")), "takes[0].asks[0]: expected a key"),
        (with("/takes/0/asks/0/1", json!("a".repeat(65))), "takes[0].asks[0]: expected a key"),
        (with("/takes/0/asks/0/2", json!(1_000_000_001)), "takes[0].asks[0]: expected a cost"),
        (with("/takes/0/asks/0/3", json!(2)), "takes[0].asks[0]: expected a cost"),
        (with("/takes/0/asks", json!([[1, key(0), 1, 1]])), "takes[0].asks[0]: expected a slot"),
        (also("charges", json!([[0, key(0), 0]])), "charges[0]: expected an amount"),
        (also("releases", json!([[0, key(0), 1]])), "releases[0]: expected a concurrency limit"),
    ];
    for (body, expected) in table {
        let reply = client.post("/v1/take").body(body.clone()).send().await;
        let text = reply.text();
        let shown: String = body.chars().take(200).collect();
        if expected.is_empty() {
            assert_eq!(reply.status, 200, "{shown}: {text}");
            continue;
        }
        assert_eq!(reply.status, 400, "{shown}: {text}");
        let error: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(error["error"], "malformed");
        assert!(error["detail"].as_str().unwrap().contains(expected), "{shown}: {text}");
        assert_eq!(reply.header("x-sluicegate"), Some("1"));
    }
    let verdicts = take(&client, &good).await;
    assert_eq!(verdicts[0][0][2], 1, "only the two good batches were charged");
}

#[tokio::test]
async fn bodies_paths_and_methods_have_their_own_answers() {
    let shim = Shim::start("memory");
    let client = shim.client();
    let huge = client.post("/v1/take").body(vec![b' '; 1_048_577]).send().await;
    assert_eq!(huge.status, 413);
    let full = client.post("/v1/take").body(vec![b' '; 1_048_576]).send().await;
    assert_eq!(full.status, 400, "as long as may be, but no batch");
    let get = client.get("/v1/take").send().await;
    assert_eq!((get.status, get.header("allow")), (405, Some("POST")));
    assert_eq!(client.post("/healthz").send().await.status, 405);
    assert_eq!(client.get("/v1/keys").send().await.status, 404, "admin functions are elsewhere");
    assert_eq!(client.get("/healthz").send().await.status, 200);
    let malformed = shim.metrics().value("sluicegate_shim_requests_total", &[("outcome", "malformed")]);
    assert_eq!(malformed, 2.0);
}

#[tokio::test]
async fn requests_are_pipelined() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let shim = Shim::start("memory");
    let body = batch(&[only("five", 5)], &[one(&key(0))]).to_string();
    let request =
        format!("POST /v1/take HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let mut stream = tokio::net::TcpStream::connect(shim.address()).await.unwrap();
    stream.write_all(request.repeat(9).as_bytes()).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).await.unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 10, "{answers}");
    assert_eq!(answers.matches("[[1,1,").count(), 5, "{answers}");
}

#[tokio::test]
async fn nothing_is_sent_twice_and_metrics_say_what_was_done() {
    let redis = Redis::start(&[]);
    let shim = Shim::patient(&redis.url());
    shim.wait_ready();
    let client = shim.client();
    let takes: Vec<Value> = vec![one(&key(0)); 7];
    take(&client, &batch(&[only("five", 5)], &takes)).await;
    send(&client, &json!("no batch")).await;
    let metrics = shim.metrics();
    let value =
        |name: &str, label: &str, of: &str| metrics.value(&format!("sluicegate_shim_{name}"), &[(label, of)]);
    assert_eq!(value("verdicts_total", "verdict", "allowed"), 5.0);
    assert_eq!(value("verdicts_total", "verdict", "limited"), 2.0);
    assert_eq!(value("verdicts_total", "verdict", "unknown"), 0.0);
    assert_eq!(value("requests_total", "outcome", "answered"), 1.0);
    assert_eq!(value("requests_total", "outcome", "malformed"), 1.0);
    assert_eq!(value("batch_size_bucket", "le", "8.0"), 1.0);
    assert_eq!(metrics.sum("sluicegate_shim_takes_total", &[]), 7.0);
    assert_eq!(metrics.sum("sluicegate_shim_store_up", &[]), 1.0);
    assert_eq!(metrics.sum("sluicegate_shim_store_errors_total", &[]), 0.0);
    assert!(metrics.sum("sluicegate_shim_store_latency_seconds_count", &[]) >= 1.0);
    assert!(!metrics.list("sluicegate_shim_build_info").is_empty());
}
