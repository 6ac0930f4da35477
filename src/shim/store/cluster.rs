//! A Redis Cluster: a map of slots, a link to each master, and redirections followed.
//!
//! The map is read from any node that answers: at the start, when a redirection or a failure says that it is old, and
//! every few seconds anyway. A call follows redirections by itself, within bounds: `MOVED`, `ASK` and `TRYAGAIN` mean that
//! the call was not run, so asking elsewhere or a moment later is not a resend.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use redis::{AsyncConnectionConfig, Cmd, ErrorKind, ServerErrorKind, Value};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::metrics::StoreMetrics;
use crate::store::failure::Failure;
use crate::store::finder::Finder;
use crate::store::link::{CallError, Link, Manner};
use crate::store::slot::SLOTS;
use crate::store::target::Node;

/// How often the map is read when nothing says that it is old.
const REFRESH_EVERY: Duration = Duration::from_secs(5);

/// Shortest time between two readings: how soon a fail-over is seen.
const REFRESH_GAP: Duration = Duration::from_millis(100);

/// Longest wait for a node that is asked for the map.
const REFRESH_TIMEOUT: Duration = Duration::from_millis(500);

/// Most times that one call is sent, each but the last answered by a redirection.
const STEPS_MAX: u32 = 8;

/// The first wait for a slot that is being moved; it doubles.
const MOVING_WAIT: Duration = Duration::from_millis(1);

/// Slots without a master.
const NOBODY: u16 = u16::MAX;

/// The way to all masters. Dropping it ends its task and its links.
#[derive(Debug)]
pub(crate) struct Cluster {
    shared: Arc<Shared>,
    refresher: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    seeds: Vec<Node>,
    manner: Manner,
    metrics: StoreMetrics,
    map: ArcSwap<Map>,
    is_old: Notify,
    /// Why the map could not be read last.
    why: ArcSwap<Failure>,
    /// What goes before a call that was redirected by `ASK`.
    asking: Cmd,
    /// Each master has been tried once: from then on one that answers is enough.
    has_begun: AtomicBool,
}

/// Who serves which slot.
#[derive(Debug, Default)]
struct Map {
    /// By `host:port`.
    addresses: Vec<String>,
    links: Vec<Arc<Link>>,
    /// Index of the master of each slot; empty before the first reading.
    slots: Vec<u16>,
}

impl Cluster {
    /// Starts reading the map; needs a runtime.
    pub(crate) fn new(seeds: Vec<Node>, manner: Manner, metrics: StoreMetrics) -> Cluster {
        let map = ArcSwap::default();
        let why = ArcSwap::from_pointee(Failure::Down);
        let (is_old, has_begun, asking) = (Notify::new(), AtomicBool::new(false), redis::cmd("ASKING"));
        let shared = Arc::new(Shared { seeds, manner, metrics, map, is_old, why, asking, has_begun });
        let refresher = tokio::spawn(follow(Arc::clone(&shared)));
        Cluster { shared, refresher }
    }

    /// Whether any master can be asked: the others' slots may be a fail-over away. At the start all have to be tried.
    ///
    /// # Errors
    /// What is in the way.
    pub(crate) fn readiness(&self) -> Result<(), Failure> {
        let map = self.shared.map.load();
        if !self.shared.has_begun.load(Relaxed) {
            if !map.links.iter().all(|link| link.has_tried()) {
                return Err(Failure::Down);
            }
            self.shared.has_begun.store(!map.links.is_empty(), Relaxed);
        }
        let mut reason = Err(**self.shared.why.load());
        for link in &map.links {
            reason = link.readiness();
            if reason.is_ok() {
                break;
            }
        }
        reason
    }

    /// Sends a command to the master of the slot, right behind those that have to come before it, and follows
    /// redirections while the time of one call lasts.
    ///
    /// # Errors
    /// As the link says.
    pub(crate) async fn call(&self, slot: u16, before: &[&Cmd], command: &Cmd) -> Result<Value, CallError> {
        let started = Instant::now();
        let mut link = self.link(slot)?;
        let mut all = before.to_vec();
        let mut wait = MOVING_WAIT;
        let mut steps = 1;
        loop {
            let error = match link.call(&all, command).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            self.doubt(&error);
            let Some(redirection) = redirection(&error) else { return Err(error) };
            if STEPS_MAX <= steps || self.shared.manner.timeout <= started.elapsed() {
                return Err(error);
            }
            steps += 1;
            match redirection {
                Redirection::Moved(address) => {
                    link = self.at(&address)?;
                    all.truncate(before.len());
                }
                Redirection::Ask(address) => {
                    link = self.at(&address)?;
                    all.truncate(before.len());
                    all.push(&self.shared.asking);
                }
                Redirection::TryAgain => {
                    tokio::time::sleep(wait).await;
                    wait *= 2;
                }
            }
        }
    }

    fn link(&self, slot: u16) -> Result<Arc<Link>, CallError> {
        let map = self.shared.map.load();
        let link = map.slots.get(usize::from(slot)).and_then(|master| map.links.get(usize::from(*master)));
        match link {
            Some(link) => {
                if !link.is_up() {
                    self.shared.is_old.notify_one();
                }
                Ok(Arc::clone(link))
            }
            None => {
                self.shared.is_old.notify_one();
                Err(CallError::Failure(if map.slots.is_empty() { Failure::Down } else { Failure::Cluster }))
            }
        }
    }

    /// A node by its address; one that is not in the map yet will be in the next.
    fn at(&self, address: &str) -> Result<Arc<Link>, CallError> {
        let map = self.shared.map.load();
        let known = map.addresses.iter().position(|known| known == address);
        known.and_then(|known| map.links.get(known)).cloned().ok_or(CallError::Failure(Failure::Cluster))
    }

    /// Has the map read anew if the error says that it may be old.
    fn doubt(&self, error: &CallError) {
        if matches!(
            error.failure(),
            Failure::Cluster | Failure::Down | Failure::Disconnected | Failure::Timeout | Failure::ReadOnly
        ) {
            self.shared.is_old.notify_one();
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.refresher.abort();
    }
}

/// What an answer says that is none.
enum Redirection {
    /// The slot has another master.
    Moved(String),
    /// The slot is being moved, and the keys are there already, or would be there if they existed.
    Ask(String),
    /// The slot is being moved, and only some of the keys are there.
    TryAgain,
}

fn redirection(error: &CallError) -> Option<Redirection> {
    let CallError::Redis(error) = error else { return None };
    let address = || error.redirect_node().map(|(address, _)| address.to_owned());
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::Moved) => address().map(Redirection::Moved),
        ErrorKind::Server(ServerErrorKind::Ask) => address().map(Redirection::Ask),
        ErrorKind::Server(ServerErrorKind::TryAgain) => Some(Redirection::TryAgain),
        _ => None,
    }
}

/// Keeps the map for as long as the cluster is used.
async fn follow(shared: Arc<Shared>) {
    let mut failing = None;
    loop {
        match read(&shared).await {
            Ok((ranges, host)) => {
                adopt(&shared, &ranges, &host);
                failing = None;
            }
            Err(failure) => {
                shared.why.store(Arc::new(failure));
                if failing != Some(failure) {
                    let why = failure.name();
                    warn!(
                        why,
                        detail = failure.explain(),
                        "no node of the cluster tells who serves which slot"
                    );
                }
                failing = Some(failure);
            }
        }
        tokio::time::sleep(REFRESH_GAP.mul_f64(1.0 + fastrand::f64() / 2.0)).await;
        let again = if failing.is_some() { REFRESH_GAP } else { REFRESH_EVERY };
        // Either way it is time.
        let _ = tokio::time::timeout(again, shared.is_old.notified()).await;
    }
}

/// `CLUSTER SLOTS` of the first node that answers, and the host it was asked at. Masters that answered a moment ago are
/// asked before all others, in any order, so that one that hangs seldom holds this up.
async fn read(shared: &Shared) -> Result<(Vec<Range>, String), Failure> {
    let map = shared.map.load_full();
    let known = map.addresses.iter().zip(&map.links).filter_map(|(address, link)| {
        let (host, port) = address.rsplit_once(':')?;
        Some((link.is_up(), shared.seeds.first()?.at(host, port.parse().ok()?)))
    });
    let mut nodes: Vec<(bool, Node)> =
        known.chain(shared.seeds.iter().map(|seed| (false, seed.clone()))).collect();
    fastrand::shuffle(&mut nodes);
    nodes.sort_by_key(|(is_up, _)| !is_up);
    let mut failure = Failure::Down;
    for (_, node) in nodes {
        failure = match tokio::time::timeout(REFRESH_TIMEOUT, ask(&node)).await {
            Ok(Ok(ranges)) => return Ok((ranges, node.host().unwrap_or_default().to_owned())),
            Ok(Err(failure)) => failure,
            Err(_) => Failure::Timeout,
        };
    }
    Err(failure)
}

async fn ask(node: &Node) -> Result<Vec<Range>, Failure> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(REFRESH_TIMEOUT))
        .set_response_timeout(Some(REFRESH_TIMEOUT));
    let client = node.client().map_err(|error| Failure::from(&error))?;
    let connection = client.get_multiplexed_async_connection_with_config(&config).await;
    let mut connection = connection.map_err(|error| Failure::from(&error))?;
    let answer: Value = redis::cmd("CLUSTER")
        .arg("SLOTS")
        .query_async(&mut connection)
        .await
        .map_err(|error| Failure::from(&error))?;
    ranges(answer).filter(|ranges| !ranges.is_empty()).ok_or(Failure::Junk)
}

/// A stretch of slots and its master; the host is empty when the node does not know its own name.
#[derive(Debug, PartialEq, Eq)]
struct Range {
    from: u16,
    to: u16,
    host: String,
    port: u16,
}

/// Reads the answer to `CLUSTER SLOTS`.
fn ranges(answer: Value) -> Option<Vec<Range>> {
    let Value::Array(items) = answer else { return None };
    let range = |item: Value| -> Option<Range> {
        let items: Vec<Value> = redis::from_redis_value(item).ok()?;
        let mut items = items.into_iter();
        let from: u16 = redis::from_redis_value(items.next()?).ok()?;
        let to: u16 = redis::from_redis_value(items.next()?).ok()?;
        let master: Vec<Value> = redis::from_redis_value(items.next()?).ok()?;
        let mut master = master.into_iter();
        let host: Option<String> = redis::from_redis_value(master.next()?).ok()?;
        let port: u16 = redis::from_redis_value(master.next()?).ok()?;
        let valid = from <= to && usize::from(to) < SLOTS;
        let host = host.filter(|host| host != "?").unwrap_or_default();
        valid.then_some(Range { from, to, host, port })
    };
    items.into_iter().map(range).collect()
}

/// Puts a new map in force; links to nodes that stay are kept.
fn adopt(shared: &Arc<Shared>, ranges: &[Range], asked_at: &str) {
    let old = shared.map.load_full();
    let kept: HashMap<&String, &Arc<Link>> = old.addresses.iter().zip(&old.links).collect();
    let mut map = Map { slots: vec![NOBODY; SLOTS], ..Map::default() };
    for range in ranges {
        let host = if range.host.is_empty() { asked_at } else { &range.host };
        let address = format!("{host}:{}", range.port);
        let index = match map.addresses.iter().position(|known| *known == address) {
            Some(index) => index,
            None => {
                let Some(login) = shared.seeds.first() else { return };
                let link = kept.get(&address).map(|link| Arc::clone(link)).unwrap_or_else(|| {
                    let finder = Finder::Fixed(login.at(host, range.port));
                    Arc::new(Link::new(finder, shared.manner.clone(), shared.metrics.clone()))
                });
                map.addresses.push(address);
                map.links.push(link);
                map.links.len() - 1
            }
        };
        let index = u16::try_from(index).unwrap_or(NOBODY);
        if let Some(slots) = map.slots.get_mut(usize::from(range.from)..=usize::from(range.to)) {
            slots.fill(index);
        }
    }
    if map.addresses != old.addresses || map.slots != old.slots {
        let unserved = map.slots.iter().filter(|master| **master == NOBODY).count();
        info!(masters = map.addresses.join(","), unserved, "the cluster's map has changed");
        shared.map.store(Arc::new(map));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_cluster_slots_is_read() {
        let node = |host: Value| Value::Array(vec![host, Value::Int(7_000), Value::BulkString("id".into())]);
        let range = |from, to, host| Value::Array(vec![Value::Int(from), Value::Int(to), node(host)]);
        let answer = Value::Array(vec![
            range(0, 100, Value::BulkString("10.0.0.1".into())),
            range(101, 16_383, Value::Nil),
        ]);
        let expected = [
            Range { from: 0, to: 100, host: "10.0.0.1".to_owned(), port: 7_000 },
            Range { from: 101, to: 16_383, host: String::new(), port: 7_000 },
        ];
        assert_eq!(ranges(answer).as_deref(), Some(expected.as_slice()));
        assert_eq!(ranges(Value::Array(vec![range(0, 16_384, Value::Nil)])), None);
        assert_eq!(ranges(Value::Int(1)), None);
    }
}
