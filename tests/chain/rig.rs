//! What the tests of the chain share.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sluicegate_testing::client::{Ask, Client, Reply, with_status};
use sluicegate_testing::envoy::{Envoy, Setup};
use sluicegate_testing::redis::Redis;
use sluicegate_testing::shim::Shim;
use sluicegate_testing::upstream::Upstream;

/// A rate that gives nothing back for as long as a test lasts.
pub(crate) const NEVER: &str = "1/30d";

/// Everything from client to Redis. Parts end in this order, callers before what they call.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) envoy: Envoy,
    pub(crate) shim: Shim,
    pub(crate) redis: Redis,
    pub(crate) upstream: Upstream,
}

/// A chain for several tests at a time: there as long as any of them runs.
#[derive(Debug)]
pub(crate) struct Shared {
    policy: fn() -> Value,
    lasting: Mutex<Weak<Lasting>>,
}

/// A chain whose Envoy does not end with the test that came first.
#[derive(Debug)]
pub(crate) struct Lasting {
    chain: Chain,
    /// Ends the thread that keeps Envoy, once the chain is gone.
    _keeper: Sender<()>,
}

// === impl Chain ===

impl Chain {
    /// Two workers with this policy.
    pub(crate) fn start(policy: &Value) -> Chain {
        Chain::with(policy, |setup| setup)
    }

    /// The same with another Envoy.
    pub(crate) fn with(policy: &Value, change: impl FnOnce(Setup) -> Setup) -> Chain {
        let redis = Redis::start(&[]);
        let shim = Shim::patient(&redis.url());
        Chain::on(redis, shim, policy, change)
    }

    /// The same with another Redis and shim.
    pub(crate) fn on(redis: Redis, shim: Shim, policy: &Value, change: impl FnOnce(Setup) -> Setup) -> Chain {
        shim.wait_ready();
        let upstream = Upstream::start();
        let envoy = change(Setup::new(policy, upstream.address()).shim(shim.address())).start();
        Chain { envoy, shim, redis, upstream }
    }

    /// A client of its own, over HTTP/1.1.
    pub(crate) fn client(&self) -> Client {
        Client::http1(self.envoy.address())
    }

    /// A second Envoy beside the first.
    pub(crate) fn another(&self, policy: &Value) -> Envoy {
        Setup::new(policy, self.upstream.address()).shim(self.shim.address()).start()
    }
}

// === impl Shared ===

impl Shared {
    /// A chain with this policy, not started yet.
    pub(crate) const fn new(policy: fn() -> Value) -> Shared {
        Shared { policy, lasting: Mutex::new(Weak::new()) }
    }

    /// The chain, started if nobody else has it.
    pub(crate) fn chain(&self) -> Arc<Lasting> {
        let mut lasting = self.lasting.lock().unwrap();
        if let Some(running) = lasting.upgrade() {
            return running;
        }
        let (_keeper, ended) = channel();
        let (started, waits) = channel();
        let policy = self.policy;
        std::thread::spawn(move || {
            started.send(Arc::new(Lasting { chain: Chain::start(&policy()), _keeper })).unwrap();
            // Nobody ever sends: this waits until the other half is dropped.
            let _ = ended.recv();
        });
        let running = waits.recv().expect("the chain starts");
        *lasting = Arc::downgrade(&running);
        running
    }
}

impl std::ops::Deref for Lasting {
    type Target = Chain;

    fn deref(&self) -> &Chain {
        &self.chain
    }
}

/// A policy of these limits, with the identities `caller` (header `x-api-key`) and `address`.
///
/// Decisions may take three seconds: a busy machine is no outage.
pub(crate) fn policy(limits: Value) -> Value {
    json!({
        "version": 1,
        "shim": {"cluster": "sluicegate-shim", "timeout": "3s"},
        "identities": {"caller": {"header": "x-api-key"}, "address": {"client_ip": {}}},
        "limits": limits,
    })
}

/// A request of this caller.
pub(crate) fn by(client: &Client, path: &str, caller: &str) -> Ask {
    client.get(path).header("x-api-key", caller)
}

/// Sends `n` requests of this caller, one after the other.
pub(crate) async fn row(client: &Client, n: usize, path: &str, caller: &str) -> Vec<Reply> {
    let mut replies = Vec::with_capacity(n);
    for _ in 0..n {
        replies.push(by(client, path, caller).send().await);
    }
    replies
}

/// Statuses in order.
pub(crate) fn statuses(replies: &[Reply]) -> Vec<u16> {
    replies.iter().map(|reply| reply.status).collect()
}

/// How many of `replies` passed; all others were refused with 429.
pub(crate) fn passed(replies: &[Reply]) -> usize {
    let passed = with_status(replies, 200);
    assert_eq!(passed + with_status(replies, 429), replies.len(), "{:?}", statuses(replies));
    passed
}

/// Polls until it holds.
///
/// # Panics
///
/// It does not hold in time.
pub(crate) async fn eventually(what: &str, within: Duration, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + within;
    while !holds().await {
        assert!(Instant::now() < deadline, "not within {within:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
