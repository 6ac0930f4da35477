//! A Redis Cluster: a map of slots, a link to each master, and redirections followed.
//!
//! The map is read from any node that answers: at the start, when a redirection or a failure says that it is old, and
//! every few seconds anyway. A call follows at most one redirection by itself: `MOVED` and `ASK` mean that the call was
//! not run, so asking elsewhere is not a resend.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use redis::{AsyncConnectionConfig, Cmd, ErrorKind, Pipeline, ServerErrorKind, Value};
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
        let shared = Arc::new(Shared { seeds, manner, metrics, map, is_old: Notify::new() });
        let refresher = tokio::spawn(follow(Arc::clone(&shared)));
        Cluster { shared, refresher }
    }

    /// Whether any master can be asked: the others' slots may be a fail-over away.
    pub(crate) fn is_up(&self) -> bool {
        self.shared.map.load().links.iter().any(|link| link.is_up())
    }

    /// Sends a command to the master of the slot.
    ///
    /// # Errors
    /// As the link says, after one redirection at most.
    pub(crate) async fn call(&self, slot: u16, command: &Cmd) -> Result<Value, CallError> {
        let link = self.link(slot)?;
        let error = match link.call(command).await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        self.doubt(&error);
        match redirection(&error) {
            Some((address, Redirection::Moved)) => self.at(&address)?.call(command).await,
            Some((address, Redirection::Ask)) => {
                let mut both = Pipeline::with_capacity(2);
                both.cmd("ASKING");
                both.add_command(command.clone());
                let values = self.at(&address)?.call_all(&both).await?;
                values.into_iter().nth(1).ok_or(CallError::Failure(Failure::Junk))
            }
            None => Err(error),
        }
    }

    /// Sends several commands as one to the master of the slot, following no redirection.
    ///
    /// # Errors
    /// As the link says.
    pub(crate) async fn call_all(&self, slot: u16, commands: &Pipeline) -> Result<Vec<Value>, CallError> {
        let result = self.link(slot)?.call_all(commands).await;
        if let Err(error) = &result {
            self.doubt(error);
        }
        result
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

enum Redirection {
    Moved,
    Ask,
}

fn redirection(error: &CallError) -> Option<(String, Redirection)> {
    let CallError::Redis(error) = error else { return None };
    let how = match error.kind() {
        ErrorKind::Server(ServerErrorKind::Moved) => Redirection::Moved,
        ErrorKind::Server(ServerErrorKind::Ask) => Redirection::Ask,
        _ => return None,
    };
    error.redirect_node().map(|(address, _)| (address.to_owned(), how))
}

/// Keeps the map for as long as the cluster is used.
async fn follow(shared: Arc<Shared>) {
    let mut failing = false;
    loop {
        match read(&shared).await {
            Some((ranges, host)) => {
                adopt(&shared, &ranges, &host);
                failing = false;
            }
            None if !failing => {
                warn!("no node of the cluster tells who serves which slot");
                failing = true;
            }
            None => {}
        }
        tokio::time::sleep(REFRESH_GAP.mul_f64(1.0 + fastrand::f64() / 2.0)).await;
        let again = if failing { REFRESH_GAP } else { REFRESH_EVERY };
        // Either way it is time.
        let _ = tokio::time::timeout(again, shared.is_old.notified()).await;
    }
}

/// `CLUSTER SLOTS` of the first node that answers, and the host it was asked at.
async fn read(shared: &Shared) -> Option<(Vec<Range>, String)> {
    let map = shared.map.load_full();
    let known = map.addresses.iter().filter_map(|address| {
        let (host, port) = address.rsplit_once(':')?;
        Some(shared.seeds.first()?.at(host, port.parse().ok()?))
    });
    let mut nodes: Vec<Node> = known.chain(shared.seeds.iter().cloned()).collect();
    fastrand::shuffle(&mut nodes);
    for node in nodes {
        let answer = tokio::time::timeout(REFRESH_TIMEOUT, ask(&node)).await;
        if let Ok(Ok(ranges)) = answer {
            return Some((ranges, node.host()?.to_owned()));
        }
    }
    None
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
