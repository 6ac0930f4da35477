//! Keeps a link up: connects, watches, connects anew.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use tracing::{info, warn};

use super::{Lanes, Manner, Shared};
use crate::store::backoff::Backoff;
use crate::store::failure::Failure;
use crate::store::target::Node;

/// How often an idle link is asked whether it still works, and sentinels whether it still leads to the master.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// A link that held this long was a success: the next wait is short again.
const STABLE: Duration = Duration::from_secs(2);

/// Commands that wait for the socket in one connection.
const QUEUE: usize = 1_024;

/// Most different reasons that one outage is told to have.
const REASONS_MAX: usize = 16;

/// Keeps a link up for as long as it lives.
pub(super) async fn keep(shared: Arc<Shared>) {
    let mut backoff = Backoff::new();
    let mut told: Vec<String> = Vec::new();
    let mut generation = 0;
    shared.metrics.breaker_open.inc();
    let _gone = Gone(Arc::clone(&shared));
    loop {
        match attempt(&shared).await {
            Ok((node, connections)) => {
                generation += 1;
                let lanes = Arc::new(Lanes { generation, address: node.describe(), connections });
                told.clear();
                let since = Instant::now();
                stay_up(&shared, lanes).await;
                if since.elapsed() >= STABLE {
                    backoff.reset();
                }
            }
            Err(error) => {
                shared.why.store(Some(Arc::new(Failure::from(&error))));
                let error = describe(&error);
                // Each reason once in an outage: some take turns.
                if !told.contains(&error) && told.len() < REASONS_MAX {
                    warn!(store = shared.finder.describe(), error, "store cannot be reached");
                    told.push(error);
                }
            }
        }
        tokio::time::sleep(backoff.next(fastrand::f64())).await;
    }
}

/// What an error says, without what it may hold of ours.
fn describe(error: &RedisError) -> String {
    match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => {
            let texts = [error.code(), error.detail()];
            texts.into_iter().flatten().collect::<Vec<_>>().join(" ")
        }
        _ => error.to_string(),
    }
}

/// Finds the server of the moment, connects and sets the connections up.
async fn attempt(shared: &Shared) -> RedisResult<(Node, Box<[MultiplexedConnection]>)> {
    let node = shared.finder.find().await?;
    match tokio::time::timeout(shared.manner.connect_timeout, connect(&shared.manner, &node)).await {
        Ok(result) => result.map(|connections| (node, connections)),
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time").into()),
    }
}

async fn connect(manner: &Manner, node: &Node) -> RedisResult<Box<[MultiplexedConnection]>> {
    let client = node.client()?;
    // Setting up has a bound of its own: loading a script may take longer than a call does.
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(manner.connect_timeout))
        .set_response_timeout(Some(manner.connect_timeout))
        .set_pipeline_buffer_size(QUEUE);
    let mut connections = Vec::with_capacity(manner.connections);
    for _ in 0..manner.connections {
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        check_role(&mut connection).await?;
        for value in connection.send_packed_commands(&manner.prepare, 0, manner.prepare.len()).await? {
            match value.extract_error() {
                Err(error) if manner.is_cluster && Failure::from(&error) == Failure::Cluster => {}
                result => drop(result?),
            }
        }
        connection.set_response_timeout(manner.timeout);
        connections.push(connection);
    }
    Ok(connections.into())
}

/// A replica would refuse every take: better to keep looking.
async fn check_role(connection: &mut MultiplexedConnection) -> RedisResult<()> {
    match redis::cmd("ROLE").query_async::<Value>(connection).await {
        Ok(Value::Array(role)) => match role.first() {
            Some(Value::BulkString(name)) if name != b"master" => {
                let kind = ErrorKind::Server(ServerErrorKind::ReadOnly);
                Err(RedisError::from((kind, "replica", "the server is a replica".to_owned())))
            }
            _ => Ok(()),
        },
        Ok(_) => Ok(()),
        // A login that may not ask: READONLY will tell.
        Err(error) if Failure::from(&error) == Failure::Denied => Ok(()),
        Err(error) => Err(error),
    }
}

/// Puts the lanes to use and returns when they are down.
async fn stay_up(shared: &Arc<Shared>, lanes: Arc<Lanes>) {
    shared.timeouts_in_a_row.store(0, Relaxed);
    shared.lanes.store(Some(Arc::clone(&lanes)));
    shared.metrics.connects.inc_by(lanes.connections.len() as u64);
    shared.metrics.up.inc();
    shared.metrics.breaker_open.dec();
    info!(store = shared.finder.describe(), at = lanes.address, "store is available");
    while shared.lanes.load().is_some() {
        tokio::select! {
            () = shared.went_down.notified() => {}
            () = watch(shared, &lanes) => {}
        }
    }
}

/// Finds out that a peer has vanished even when nobody asks for anything, and that a master has been deposed even when
/// it does not know it: cut off from the sentinels, it would grant on beside its successor.
async fn watch(shared: &Shared, lanes: &Lanes) {
    tokio::time::sleep(WATCH_EVERY).await;
    let ping = redis::cmd("PING");
    for connection in &lanes.connections {
        let result = connection.clone().send_packed_command(&ping).await.and_then(Value::extract_error);
        shared.judge(lanes.generation, result.as_ref().err());
    }
    if shared.finder.deposes(&lanes.address).await {
        shared.take_down(lanes.generation, Failure::Deposed);
    }
}

/// Takes the gauges back when the link is dropped.
struct Gone(Arc<Shared>);

impl Drop for Gone {
    fn drop(&mut self) {
        match self.0.lanes.swap(None) {
            Some(_) => self.0.metrics.up.dec(),
            None => self.0.metrics.breaker_open.dec(),
        };
    }
}
