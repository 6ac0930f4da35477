//! Takes that go on while the store is in trouble, and what became of each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use sluicegate_testing::client::Reply;
use sluicegate_testing::shim::Shim;
use tokio::task::JoinHandle;

use crate::rig::{batch, eventually, one, only, passed};

/// Two clients of each shim, each sending a batch with one take for every key, again and again.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Vec<Outcome>>>,
    /// Batches answered without a gap, as of now.
    pulse: Arc<std::sync::Mutex<Instant>>,
}

/// What became of one take.
pub(crate) struct Outcome {
    pub(crate) at: Instant,
    pub(crate) key: usize,
    /// `None` without a decision: it may be charged or not.
    pub(crate) passed: Option<bool>,
}

/// What became of all.
pub(crate) struct Tally(Vec<Outcome>);

impl Load {
    /// Starts taking from these keys, each with a limit of `n` that does not come back.
    pub(crate) fn start(shims: &[Shim], keys: &[String], n: u64) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let pulse = Arc::new(std::sync::Mutex::new(Instant::now()));
        let takes: Vec<Value> = keys.iter().map(|key| one(key)).collect();
        let body = batch(&[only("load", n)], &takes).to_string();
        let client = |shim: &Shim| {
            let (client, stop, pulse, body) = (shim.client(), stop.clone(), pulse.clone(), body.clone());
            let n_keys = keys.len();
            tokio::spawn(async move {
                let mut outcomes = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let reply = client.post("/v1/take").body(body.clone()).send().await;
                    let at = Instant::now();
                    let answer: Value = serde_json::from_slice(&reply.body).unwrap();
                    let passed = |key: usize| passed(&answer["verdicts"][key]);
                    let of_this = (0..n_keys).map(|key| Outcome { at, key, passed: passed(key) });
                    let before = outcomes.len();
                    outcomes.extend(of_this);
                    if outcomes[before..].iter().all(|outcome| outcome.passed.is_some()) {
                        *pulse.lock().unwrap() = at;
                    }
                    tokio::time::sleep(Duration::from_millis(4)).await;
                }
                outcomes
            })
        };
        let clients = shims.iter().flat_map(|shim| [client(shim), client(shim)]).collect();
        Load { stop, clients, pulse }
    }

    /// Waits until batches are decided whole again; gives the time it took.
    pub(crate) async fn recovers(&self, within: Duration) -> Duration {
        let since = Instant::now();
        eventually("takes are decided again", within, async || since < *self.pulse.lock().unwrap()).await;
        since.elapsed()
    }

    pub(crate) async fn stop(self) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for client in self.clients {
            all.extend(client.await.unwrap());
        }
        Tally(all)
    }
}

impl Tally {
    /// Takes of a key that passed.
    pub(crate) fn passed(&self, key: usize) -> u64 {
        self.count(|outcome| outcome.key == key && outcome.passed == Some(true))
    }

    /// Takes of a key without a decision.
    pub(crate) fn undecided(&self, key: usize) -> u64 {
        self.count(|outcome| outcome.key == key && outcome.passed.is_none())
    }

    /// Takes of a key that passed within this time before a moment.
    pub(crate) fn passed_before(&self, key: usize, moment: Instant, within: Duration) -> u64 {
        let recent = |at: Instant| at <= moment && moment - at <= within;
        self.count(|outcome| outcome.key == key && outcome.passed == Some(true) && recent(outcome.at))
    }

    fn count(&self, of: impl Fn(&&Outcome) -> bool) -> u64 {
        self.0.iter().filter(of).count() as u64
    }
}

/// Whether a batch of one take was decided, and refused.
pub(crate) fn is_refused(reply: &Reply) -> bool {
    let answer: Value = serde_json::from_slice(&reply.body).unwrap();
    passed(&answer["verdicts"][0]) == Some(false)
}
