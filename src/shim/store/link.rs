//! The way to one Redis server: multiplexed connections, kept up by a task of its own.
//!
//! A link is up or down. While it is down every call fails at once: this is the circuit breaker. It goes down when a
//! connection breaks, when as many calls in a row as `breaker` says get no answer in time, when the server says that it
//! is a replica or refuses our login, or when the sentinels name another master; the keeper then connects anew, with
//! growing jittered waits, and the link is up as soon as a server has answered the whole set-up. A call is sent once and
//! never again, except when the answer itself says that it was not run.

mod keeper;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwapOption, Guard};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError, RedisResult, Value};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tracing::warn;

use crate::metrics::StoreMetrics;
use crate::settings::StoreSettings;
use crate::store::failure::Failure;
use crate::store::finder::Finder;
use crate::store::target::Target;

/// How calls are made.
#[derive(Clone, Debug)]
pub(crate) struct Manner {
    /// Longest wait for an answer.
    pub(crate) timeout: Duration,
    connect_timeout: Duration,
    connections: usize,
    breaker: u32,
    /// Run once on every new connection, before it is used: loads the scripts, and tries whether we may run them.
    prepare: Arc<Pipeline>,
    /// Servers share the slots, so what is tried may live in another.
    is_cluster: bool,
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
    /// Why it was down last; `None` before the first attempt has ended.
    why: ArcSwapOption<Failure>,
    turn: AtomicUsize,
    timeouts_in_a_row: AtomicU32,
    went_down: Notify,
}

/// Connections to one server, made together and dropped together.
#[derive(Debug)]
struct Lanes {
    /// Tells them from those made before and after.
    generation: u64,
    /// The server they lead to.
    address: String,
    connections: Box<[MultiplexedConnection]>,
}

/// A call without an answer.
#[derive(Debug)]
pub(crate) enum CallError {
    /// Nothing was sent, or the answer makes no sense.
    Failure(Failure),
    /// What the client says.
    Redis(RedisError),
}

// === impl Manner ===

impl Manner {
    pub(crate) fn new(settings: &StoreSettings, prepare: Pipeline) -> Manner {
        Manner {
            timeout: settings.timeout,
            connect_timeout: settings.connect_timeout,
            connections: settings.connections,
            breaker: settings.breaker,
            prepare: Arc::new(prepare),
            is_cluster: matches!(settings.target, Target::Cluster { .. }),
        }
    }
}

// === impl Link ===

impl Link {
    /// Starts connecting; needs a runtime.
    pub(crate) fn new(finder: Finder, manner: Manner, metrics: StoreMetrics) -> Link {
        let shared = Arc::new(Shared {
            finder,
            manner,
            metrics,
            lanes: ArcSwapOption::empty(),
            why: ArcSwapOption::empty(),
            turn: AtomicUsize::new(0),
            timeouts_in_a_row: AtomicU32::new(0),
            went_down: Notify::new(),
        });
        let keeper = tokio::spawn(keeper::keep(Arc::clone(&shared)));
        Link { shared, keeper }
    }

    /// Whether calls are sent at all.
    pub(crate) fn is_up(&self) -> bool {
        self.shared.lanes.load().is_some()
    }

    /// Whether calls are sent at all.
    ///
    /// # Errors
    /// What is in the way.
    pub(crate) fn readiness(&self) -> Result<(), Failure> {
        if self.is_up() {
            Ok(())
        } else {
            Err(self.shared.why.load().as_deref().map_or(Failure::Down, |why| *why))
        }
    }

    /// Whether it is up or has at least tried to be.
    pub(crate) fn has_tried(&self) -> bool {
        self.is_up() || self.shared.why.load().is_some()
    }

    /// Sends a command, right behind those that have to come before it.
    ///
    /// # Errors
    /// Down, or as the client says of the first that fails; whether it was run is not known then.
    pub(crate) async fn call(&self, before: &[&Cmd], command: &Cmd) -> Result<Value, CallError> {
        if before.is_empty() {
            let send = |mut connection: MultiplexedConnection| async move {
                connection.send_packed_command(command).await
            };
            return self.shared.call(send).await;
        }
        let mut all = Pipeline::with_capacity(before.len() + 1);
        for command in before.iter().copied().chain([command]) {
            all.add_command(command.clone());
        }
        let send = |mut connection: MultiplexedConnection| async move {
            connection.send_packed_commands(&all, 0, all.len()).await.map(Value::Array)
        };
        match self.shared.call(send).await? {
            Value::Array(values) => values.into_iter().next_back().ok_or(CallError::Failure(Failure::Junk)),
            _ => Err(CallError::Failure(Failure::Junk)),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

// === impl CallError ===

impl CallError {
    pub(crate) fn failure(&self) -> Failure {
        match self {
            CallError::Failure(failure) => *failure,
            CallError::Redis(error) => Failure::from(error),
        }
    }
}

// === impl Shared ===

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
            self.why.store(Some(Arc::new(why)));
            self.metrics.up.dec();
            self.metrics.breaker_open.inc();
            warn!(store = self.finder.describe(), why = why.name(), "store has become unavailable");
            self.went_down.notify_one();
        }
    }
}
