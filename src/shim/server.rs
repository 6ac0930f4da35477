//! Accepting, serving and stopping.
//!
//! Each listener has a loop of its own. A connection beyond the cap is closed at once; an error of `accept` (no file
//! descriptors left) backs off instead of spinning. On shutdown the listeners close first, then requests under way
//! get `drain_timeout` to finish.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hyper::body::{Body, Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::sync::watch;
use tracing::{error, info, warn};

use crate::admin;
use crate::listener::{Listener, Listeners, Stream};
use crate::metrics::Metrics;
use crate::overrides::Overrides;
use crate::public::Public;
use crate::settings::Settings;
use crate::store::Store;

/// Shortest and longest wait after an error of `accept`.
const ACCEPT_BACKOFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// HTTP/2 streams of one connection at once.
const STREAMS_MAX: u32 = 1_024;

/// Serves until `shutdown` completes and what is under way has finished or used up its time.
///
/// A store that is down is no error: it may come up later.
pub async fn run(settings: Settings, listeners: Listeners, shutdown: impl Future<Output = ()> + Send) {
    let metrics = Arc::new(Metrics::new());
    let store = Arc::new(Store::open(&settings.store, &metrics.store));
    let overrides = Arc::new(Overrides::new(Arc::clone(&metrics)));
    let poller = tokio::spawn(overrides.clone().follow(Arc::clone(&store), settings.store.override_poll));

    // Every loop and connection holds a receiver: a change tells them to stop, and none left means all have.
    let (stop, stopped) = watch::channel(());
    let take_address = listeners.take.address();
    let admin_address = listeners.admin.address();

    let public =
        Arc::new(Public::new(&settings, Arc::clone(&store), Arc::clone(&overrides), Arc::clone(&metrics)));
    let service = hyper::service::service_fn(move |request| Arc::clone(&public).handle(request));
    let door = Arc::new(Door::new(&settings, Arc::clone(&metrics)));
    let takes = tokio::spawn(accept(listeners.take, service, door, stopped.clone()));

    let router =
        admin::router(settings.admin_token.clone(), Arc::clone(&store), overrides, Arc::clone(&metrics));
    let door = Arc::new(Door::new(&settings, metrics));
    let admins = tokio::spawn(accept(listeners.admin, TowerToHyperService::new(router), door, stopped));

    info!(take = take_address, admin = admin_address, store = settings.store.target.describe(), "listening");
    shutdown.await;

    info!("stopping: no new connections, finishing what is under way");
    let _ = stop.send(());
    poller.abort();
    // The loops own the listeners: once they have ended, the ports are free.
    let _ = tokio::join!(takes, admins);
    match tokio::time::timeout(settings.drain_timeout, stop.closed()).await {
        Ok(()) => info!("stopped"),
        Err(_) => warn!(timeout = ?settings.drain_timeout, "stopped with requests still under way"),
    }
}

/// What all connections of a listener share.
struct Door {
    builder: auto::Builder<TokioExecutor>,
    idle_timeout: Duration,
    open: AtomicUsize,
    max: usize,
    metrics: Arc<Metrics>,
}

/// A connection's place, given back when it ends.
struct Place(Arc<Door>);

impl Door {
    fn new(settings: &Settings, metrics: Arc<Metrics>) -> Door {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            // Counts from the end of one request to the head of the next: it bounds idle connections too.
            .header_read_timeout(settings.idle_timeout)
            .pipeline_flush(true)
            .max_buf_size(64 * 1_024);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(10));
        let open = AtomicUsize::new(0);
        Door { builder, idle_timeout: settings.idle_timeout, open, max: settings.max_connections, metrics }
    }

    fn enter(self: &Arc<Self>) -> Option<Place> {
        let place = Place(Arc::clone(self));
        self.metrics.connections.inc();
        // The place is made first: if there is no room, its drop takes both counts back.
        (self.open.fetch_add(1, Ordering::Relaxed) < self.max).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
        self.0.metrics.connections.dec();
    }
}

/// Accepts until told to stop.
async fn accept<S, B>(listener: Listener, service: S, door: Arc<Door>, mut stopped: watch::Receiver<()>)
where
    S: hyper::service::Service<Request<Incoming>, Response = Response<B>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut backoff = ACCEPT_BACKOFF.0;
    let mut failing = false;
    let mut full = false;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.changed() => return,
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                if !failing {
                    error!(%error, listener = listener.address(), "cannot accept connections");
                    failing = true;
                }
                tokio::time::sleep(backoff).await;
                backoff = (backoff * 2).min(ACCEPT_BACKOFF.1);
                continue;
            }
        };
        if failing {
            info!(listener = listener.address(), "accepting connections again");
            failing = false;
            backoff = ACCEPT_BACKOFF.0;
        }
        match door.enter() {
            Some(place) => {
                full = false;
                tokio::spawn(serve(stream, service.clone(), place, stopped.clone()));
            }
            None => {
                door.metrics.connections_refused.inc();
                if !full {
                    warn!(max = door.max, listener = listener.address(), "too many connections");
                    full = true;
                }
            }
        }
    }
}

async fn serve<S, B>(stream: Stream, service: S, place: Place, stopped: watch::Receiver<()>)
where
    S: hyper::service::Service<Request<Incoming>, Response = Response<B>, Error = Infallible>
        + Send
        + 'static,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match stream {
        Stream::Tcp(tcp) => speak(TokioIo::new(tcp), service, &place.0, stopped).await,
        Stream::Unix(unix) => speak(TokioIo::new(unix), service, &place.0, stopped).await,
    }
}

async fn speak<I, S, B>(io: I, service: S, door: &Door, mut stopped: watch::Receiver<()>)
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    S: hyper::service::Service<Request<Incoming>, Response = Response<B>, Error = Infallible>
        + Send
        + 'static,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let has_asked = Arc::new(AtomicBool::new(false));
    let asks = Arc::clone(&has_asked);
    let service = hyper::service::service_fn(move |request| {
        asks.store(true, Ordering::Relaxed);
        service.call(request)
    });
    // Until the first octets have told the protocol, hyper would wait for ever.
    let silence = async {
        tokio::time::sleep(door.idle_timeout).await;
        if has_asked.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    let mut connection = std::pin::pin!(door.builder.serve_connection(io, service));
    // What goes wrong with one connection is its peer's business; the next one starts anew.
    let _ = tokio::select! {
        result = connection.as_mut() => result,
        () = silence => Ok(()),
        _ = stopped.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
}
