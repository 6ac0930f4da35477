//! The way to one Redis server: multiplexed connections, kept up by a task of its own.
//!
//! A link is up or down. While it is down every call fails at once: this is the circuit breaker. It goes down when a
//! connection breaks, when as many calls in a row as `breaker` says get no answer in time, or when the server says that
//! it is a replica; the keeper then connects anew, with growing jittered waits, and the link is up as soon as a
//! server has answered the whole set-up. A call is sent once and never again, except when the answer itself says that
//! it was not run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwapOption, Guard};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ErrorKind, Pipeline, RedisError, RedisResult, Value};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::metrics::StoreMetrics;
use crate::settings::StoreSettings;
use crate::store::backoff::Backoff;
use crate::store::failure::Failure;
use crate::store::finder::Finder;
use crate::store::target::Node;

/// How often an idle link is asked whether it still works.
const PING_EVERY: Duration = Duration::from_secs(1);

/// A link that held this long was a success: the next wait is short again.
const STABLE: Duration = Duration::from_secs(2);

/// Commands that wait for the socket in one connection.
const QUEUE: usize = 1_024;

/// How calls are made.
#[derive(Clone, Debug)]
pub(crate) struct Manner {
    timeout: Duration,
    connect_timeout: Duration,
    connections: usize,
    breaker: u32,
    /// Run once on every new connection, before it is used: loads the scripts.
    prepare: Arc<Pipeline>,
}

/// The way to one server. Dropping it ends its task and its connections.
#[derive(Debug)]
pub(crate) struct Link {
    shared: Arc<Shared>,
    keeper: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    finder: Finder,
    manner: Manner,
    metrics: StoreMetrics,
    /// `None` while down.
    lanes: ArcSwapOption<Lanes>,
    turn: AtomicUsize,
    timeouts_in_a_row: AtomicU32,
    went_down: Notify,
}

/// Connections to one server, made together and dropped together.
#[derive(Debug)]
struct Lanes {
    /// Tells them from those made before and after.
    generation: u64,
    connections: Box<[MultiplexedConnection]>,
}

impl Manner {
    pub(crate) fn new(settings: &StoreSettings, prepare: Pipeline) -> Manner {
        Manner {
            timeout: settings.timeout,
            connect_timeout: settings.connect_timeout,
            connections: settings.connections,
            breaker: settings.breaker,
            prepare: Arc::new(prepare),
        }
    }
}

impl Link {
    /// Starts connecting; needs a runtime.
    pub(crate) fn new(finder: Finder, manner: Manner, metrics: StoreMetrics) -> Link {
        let shared = Arc::new(Shared {
            finder,
            manner,
            metrics,
            lanes: ArcSwapOption::empty(),
            turn: AtomicUsize::new(0),
            timeouts_in_a_row: AtomicU32::new(0),
            went_down: Notify::new(),
        });
        let keeper = tokio::spawn(keep(Arc::clone(&shared)));
        Link { shared, keeper }
    }

    /// Whether calls are sent at all.
    pub(crate) fn is_up(&self) -> bool {
        self.shared.lanes.load().is_some()
    }

    /// Sends one command.
    ///
    /// # Errors
    /// Down, or as the client says; whether it was run is not known then.
    pub(crate) async fn call(&self, command: &Cmd) -> Result<Value, CallError> {
        self.shared.call(|mut connection| async move { connection.send_packed_command(command).await }).await
    }

    /// Sends several commands as one, each answered by a value.
    ///
    /// # Errors
    /// As [`Link::call`]; the error of the first command that has one.
    pub(crate) async fn call_all(&self, commands: &Pipeline) -> Result<Vec<Value>, CallError> {
        let count = commands.len();
        self.shared
            .call(|mut connection| async move {
                connection.send_packed_commands(commands, 0, count).await.map(Value::Array)
            })
            .await
            .and_then(|value| match value {
                Value::Array(values) => Ok(values),
                _ => Err(CallError::Failure(Failure::Junk)),
            })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// A call without an answer.
#[derive(Debug)]
pub(crate) enum CallError {
    /// Nothing was sent, or the answer makes no sense.
    Failure(Failure),
    /// What the client says.
    Redis(RedisError),
}

impl CallError {
    pub(crate) fn failure(&self) -> Failure {
        match self {
            CallError::Failure(failure) => *failure,
            CallError::Redis(error) => Failure::from(error),
        }
    }
}

impl Shared {
    async fn call<F, T>(&self, send: F) -> Result<Value, CallError>
    where
        F: FnOnce(MultiplexedConnection) -> T,
        T: Future<Output = RedisResult<Value>>,
    {
        let (connection, generation) = self.connection().ok_or(CallError::Failure(Failure::Down))?;
        let started = Instant::now();
        let result = send(connection).await.and_then(Value::extract_error);
        self.metrics.observe(started.elapsed());
        self.judge(generation, result.as_ref().err());
        result.map_err(CallError::Redis)
    }

    /// The next connection in turn.
    fn connection(&self) -> Option<(MultiplexedConnection, u64)> {
        let lanes = self.lanes.load();
        let lanes = lanes.as_ref()?;
        let turn = if lanes.connections.len() == 1 { 0 } else { self.turn.fetch_add(1, Relaxed) };
        let connection = lanes.connections.get(turn % lanes.connections.len())?;
        Some((connection.clone(), lanes.generation))
    }

    /// What an outcome says about the link.
    fn judge(&self, generation: u64, error: Option<&RedisError>) {
        let failure = error.map(Failure::from);
        match failure {
            Some(Failure::Timeout) => {
                if self.timeouts_in_a_row.fetch_add(1, Relaxed) + 1 >= self.manner.breaker {
                    self.take_down(generation, Failure::Timeout);
                }
                return;
            }
            Some(failure @ (Failure::Disconnected | Failure::ReadOnly | Failure::Denied)) => {
                self.take_down(generation, failure);
            }
            _ => {}
        }
        // Any answer at all ends the row. Reading first keeps the line shared between cores.
        if self.timeouts_in_a_row.load(Relaxed) != 0 {
            self.timeouts_in_a_row.store(0, Relaxed);
        }
    }

    /// Takes the lanes of this generation down; later ones stay.
    fn take_down(&self, generation: u64, why: Failure) {
        let Some(current) = self.lanes.load_full().filter(|current| current.generation == generation) else {
            return;
        };
        let before = Guard::into_inner(self.lanes.compare_and_swap(&current, None));
        if before.is_some_and(|before| Arc::ptr_eq(&before, &current)) {
            self.metrics.up.dec();
            self.metrics.breaker_open.inc();
            warn!(store = self.finder.describe(), why = why.name(), "store has become unavailable");
            self.went_down.notify_one();
        }
    }
}

/// Keeps a link up for as long as it lives.
async fn keep(shared: Arc<Shared>) {
    let mut backoff = Backoff::new();
    let mut last_error = String::new();
    let mut generation = 0;
    shared.metrics.breaker_open.inc();
    let _gone = Gone(Arc::clone(&shared));
    loop {
        let error = match attempt(&shared).await {
            Ok(connections) => {
                generation += 1;
                let lanes = Arc::new(Lanes { generation, connections });
                last_error.clear();
                let since = Instant::now();
                stay_up(&shared, lanes).await;
                if since.elapsed() >= STABLE {
                    backoff.reset();
                }
                tokio::time::sleep(backoff.next(fastrand::f64())).await;
                continue;
            }
            Err(error) => describe(&error),
        };
        if error != last_error {
            warn!(store = shared.finder.describe(), error, "store cannot be reached");
            last_error = error;
        }
        tokio::time::sleep(backoff.next(fastrand::f64())).await;
    }
}

/// What an error says, without what it may hold of ours.
fn describe(error: &RedisError) -> String {
    match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => {
            format!("{} {}", error.code().unwrap_or_default(), error.detail().unwrap_or_default())
        }
        _ => error.to_string(),
    }
}

/// Finds the server of the moment, connects and sets the connections up.
async fn attempt(shared: &Shared) -> RedisResult<Box<[MultiplexedConnection]>> {
    let node = shared.finder.find().await?;
    match tokio::time::timeout(shared.manner.connect_timeout, connect(&shared.manner, &node)).await {
        Ok(result) => result,
        Err(_) => Err(RedisError::from((ErrorKind::Io, "no answer in time"))),
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
            value.extract_error()?;
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
                Err(RedisError::from((ErrorKind::Client, "the server is a replica")))
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
    info!(store = shared.finder.describe(), "store is available");
    loop {
        tokio::select! {
            () = shared.went_down.notified() => {}
            () = tokio::time::sleep(PING_EVERY) => ping(shared, &lanes).await,
        }
        if shared.lanes.load().is_none() {
            return;
        }
    }
}

/// Finds out that a peer has vanished even when nobody asks for anything.
async fn ping(shared: &Shared, lanes: &Arc<Lanes>) {
    let ping = redis::cmd("PING");
    for connection in &lanes.connections {
        let result = connection.clone().send_packed_command(&ping).await.and_then(Value::extract_error);
        shared.judge(lanes.generation, result.as_ref().err());
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
