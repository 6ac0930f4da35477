//! What operators do with single keys.

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testing::client::{Client, Reply};
use sluicegate_testing::redis::Redis;
use sluicegate_testing::shim::{ADMIN_TOKEN, Shim};

use crate::rig::{batch, eventually, key, one, only, passing, take};

/// An operator with the token.
struct Operator(Client);

impl Operator {
    fn of(shim: &Shim) -> Operator {
        Operator(Client::http1(shim.admin_address()))
    }

    async fn call(&self, method: &str, path: &str, body: Option<Value>) -> Reply {
        let ask = self.0.ask(method, path).header("authorization", format!("Bearer {ADMIN_TOKEN}"));
        match body {
            Some(body) => ask.header("content-type", "application/json").body(body.to_string()).send().await,
            None => ask.send().await,
        }
    }

    async fn done(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let reply = self.call(method, path, body).await;
        assert_eq!(reply.status, 200, "{method} {path}: {}", reply.text());
        serde_json::from_slice(&reply.body).unwrap()
    }

    async fn peek(&self, name: &str, n: u64, key: &str) -> Value {
        let path = format!("/v1/keys/default/{name}/{key}/peek");
        self.done("POST", &path, Some(json!({"numbers": only(name, n)[1]}))).await
    }
}

#[tokio::test]
async fn a_key_is_looked_at_and_reset() {
    let redis = Redis::start(&[]);
    for store in ["memory".to_owned(), redis.url()] {
        let shim = Shim::patient(&store);
        shim.wait_ready();
        let (client, operator) = (shim.client(), Operator::of(&shim));
        let three = batch(&[only("three", 3)], &vec![one(&key(0)); 3]);
        assert_eq!(passing(&take(&client, &three).await), 3);
        for _ in 0..2 {
            let standing = operator.peek("three", 3, &key(0)).await;
            assert_eq!((&standing["allowed"], &standing["remaining"]), (&json!(false), &json!(0)));
            assert!(standing["retry_after_us"].as_u64().unwrap() > 0);
        }
        let path = format!("/v1/keys/default/three/{}", key(0));
        assert_eq!(operator.done("DELETE", &path, None).await, json!({"existed": true}));
        assert_eq!(operator.done("DELETE", &path, None).await, json!({"existed": false}));
        assert_eq!(operator.peek("three", 3, &key(0)).await["remaining"], 3);
        assert_eq!(passing(&take(&client, &three).await), 3, "as good as new");
        assert!(shim.log().contains("\"audit\":\"reset\""), "{}", shim.log());
    }
}

#[tokio::test]
async fn an_override_reaches_every_shim_within_a_second_and_goes_again() {
    let redis = Redis::start(&[]);
    let shims = [Shim::patient(&redis.url()), Shim::patient(&redis.url())];
    shims.iter().for_each(Shim::wait_ready);
    let operator = Operator::of(&shims[0]);
    let path = format!("/v1/overrides/default/two/{}", key(0));
    let set = json!({"numbers": only("two", 50)[1], "expires_in_s": 600});
    let entry = operator.done("PUT", &path, Some(set)).await;
    assert_eq!(
        (&entry["namespace"], &entry["limit"], &entry["key"]),
        (&json!("default"), &json!("two"), &json!(key(0)))
    );

    let limit = async |shim: &Shim| Operator::of(shim).peek("two", 2, &key(0)).await["remaining"].clone();
    for shim in &shims {
        eventually("the override is in force", Duration::from_secs(1), async || limit(shim).await == 50)
            .await;
    }
    let takes: Vec<Value> = vec![one(&key(0)); 30];
    for shim in &shims {
        let batch = batch(&[only("two", 2)], &takes);
        let expected = if std::ptr::eq(shim, &shims[0]) { 30 } else { 20 };
        assert_eq!(passing(&take(&shim.client(), &batch).await), expected, "50 over both");
    }
    let other = batch(&[only("two", 2)], &vec![one(&key(1)); 5]);
    assert_eq!(passing(&take(&shims[1].client(), &other).await), 2, "other keys keep the policy's numbers");

    let listed = Operator::of(&shims[1]).done("GET", "/v1/overrides", None).await;
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(listed[0]["numbers"], only("two", 50)[1]);

    assert_eq!(operator.done("DELETE", &path, None).await, json!({"existed": true}));
    for shim in &shims {
        eventually("the policy's numbers again", Duration::from_secs(1), async || limit(shim).await == 0)
            .await;
    }
    assert_eq!(operator.done("GET", "/v1/overrides", None).await, json!([]));
    let log = shims[0].log();
    assert!(
        log.contains("\"audit\":\"override.set\"") && log.contains("\"audit\":\"override.unset\""),
        "{log}"
    );
}

#[tokio::test]
async fn an_override_ends_by_itself_and_leaves_nothing_for_ever() {
    let redis = Redis::start(&[]);
    for store in ["memory".to_owned(), redis.url()] {
        let shim = Shim::patient(&store);
        shim.wait_ready();
        let operator = Operator::of(&shim);
        let path = format!("/v1/overrides/default/two/{}", key(0));
        operator.done("PUT", &path, Some(json!({"numbers": only("two", 9)[1], "expires_in_s": 1}))).await;
        let limit = async || operator.peek("two", 2, &key(0)).await["remaining"].clone();
        eventually("it comes", Duration::from_secs(1), async || limit().await == 9).await;
        eventually("it goes", Duration::from_secs(5), async || limit().await == 2).await;
        assert_eq!(operator.done("GET", "/v1/overrides", None).await, json!([]));
    }
    let mut connection = redis.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
    for key in keys {
        let left_ms: i64 = redis::cmd("PTTL").arg(&key).query(&mut connection).unwrap();
        assert!(left_ms > 0, "{key} has no expiry");
    }
}

#[tokio::test]
async fn overrides_outlive_a_shim_and_an_outage() {
    let mut redis = Redis::start(&[]);
    let mut shim = Shim::patient(&redis.url());
    shim.wait_ready();
    let path = format!("/v1/overrides/default/two/{}", key(0));
    let set = json!({"numbers": only("two", 9)[1], "expires_in_s": 600});
    Operator::of(&shim).done("PUT", &path, Some(set)).await;
    shim.start_again();
    shim.wait_ready();
    let limit = async || Operator::of(&shim).peek("two", 2, &key(0)).await["remaining"].clone();
    eventually("a new shim knows it", Duration::from_secs(1), async || limit().await == 9).await;
    redis.stop();
    eventually("the shim has seen the outage", Duration::from_secs(5), async || !shim.is_ready()).await;
    assert_eq!(Operator::of(&shim).call("GET", "/v1/overrides", None).await.status, 503);
}

#[tokio::test]
async fn without_the_token_nothing_is_done() {
    let shim = Shim::start("memory");
    let client = Client::http1(shim.admin_address());
    let path = format!("/v1/keys/default/two/{}", key(0));
    for value in ["", "Bearer wrong", ADMIN_TOKEN] {
        let reply = client.ask("DELETE", &path).header("authorization", value).send().await;
        assert_eq!(reply.status, 401, "{value}");
    }
    assert_eq!(client.get("/v1/overrides").send().await.status, 401);
    assert_eq!(client.get("/metrics").send().await.status, 200);
    assert_eq!(client.get("/readyz").send().await.status, 200);
    assert_eq!(client.get("/v1/nothing").send().await.status, 404);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let shim = Shim::start("memory");
    let operator = Operator::of(&shim);
    let good = only("two", 9)[1].clone();
    for (path, body, expected) in [
        (format!("Upper/two/{}", key(0)), json!({"numbers": good, "expires_in_s": 1}), "namespace"),
        (format!("default/a:b/{}", key(0)), json!({"numbers": good, "expires_in_s": 1}), "limit"),
        ("default/two/short".to_owned(), json!({"numbers": good, "expires_in_s": 1}), "key"),
        (format!("default/two/{}", key(0)), json!({"numbers": good, "expires_in_s": 0}), "expires_in_s"),
        (
            format!("default/two/{}", key(0)),
            json!({"numbers": only("two", 0)[1], "expires_in_s": 1}),
            "burst",
        ),
        (format!("default/two/{}", key(0)), json!({"numbers": good}), "expires_in_s"),
        (format!("default/two/{}", key(0)), json!({"numbers": {"magic": {}}, "expires_in_s": 1}), "magic"),
    ] {
        let reply = operator.call("PUT", &format!("/v1/overrides/{path}"), Some(body)).await;
        assert!(matches!(reply.status, 400 | 422), "{path}: {}", reply.status);
        assert!(reply.text().contains(expected), "{path}: {}", reply.text());
    }
    assert_eq!(operator.done("GET", "/v1/overrides", None).await, json!([]));
}
