//! An upstream that counts what reaches it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore, oneshot};

/// An HTTP/1.1 and HTTP/2 server on a port of its own, in a thread of its own. `/healthz` answers at once and is
/// counted like any path.
///
/// A request may say how it wants to be answered, so that tests can share a server: `reply-status: 401`,
/// `reply-after-ms: 50`, `reply-with: name=value`.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    app: Arc<App>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// How requests are answered, from now on.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// Time that a request takes once it is its turn.
    pub delay: Duration,
    /// Status of the answers.
    pub status: u16,
    /// Headers of the answers.
    pub headers: Vec<(String, String)>,
}

#[derive(Debug)]
struct App {
    state: Mutex<State>,
    turns: Option<Semaphore>,
    gate: Notify,
}

#[derive(Debug, Default)]
struct State {
    behaviour: Behaviour,
    held: bool,
    seen: BTreeMap<String, usize>,
    /// Paths in order of arrival.
    arrivals: Vec<String>,
    last: Option<(String, HeaderMap)>,
    in_flight: usize,
    peak: usize,
}

/// Counts a request as in flight until it is answered or broken off.
struct Visit<'a>(&'a App);

// === impl Upstream ===

impl Upstream {
    /// A server that answers 200 at once and takes any number of requests at the same time.
    pub fn start() -> Upstream {
        Upstream::launch(None)
    }

    /// A server that works on `concurrency` requests at a time, `delay` each; the others wait their turn.
    pub fn limited(concurrency: usize, delay: Duration) -> Upstream {
        let upstream = Upstream::launch(Some(Semaphore::new(concurrency)));
        upstream.behave(|behaviour| behaviour.delay = delay);
        upstream
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes how requests are answered.
    pub fn behave(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.app.lock().behaviour);
    }

    /// Answers nothing (but `/healthz`) until [`Upstream::release`].
    pub fn hold(&self) {
        self.app.lock().held = true;
    }

    /// Answers what was held, and goes on as before.
    pub fn release(&self) {
        self.app.lock().held = false;
        self.app.gate.notify_waiters();
    }

    /// Requests that have arrived with this very path, query included.
    pub fn count(&self, path: &str) -> usize {
        self.app.lock().seen.get(path).copied().unwrap_or(0)
    }

    /// Requests that have arrived.
    pub fn total(&self) -> usize {
        self.app.lock().seen.values().sum()
    }

    /// The paths that have arrived and begin with this, queries included, in order.
    pub fn arrivals(&self, prefix: &str) -> Vec<String> {
        let state = self.app.lock();
        state.arrivals.iter().filter(|path| path.starts_with(prefix)).cloned().collect()
    }

    /// Requests that have arrived and are not answered yet.
    pub fn in_flight(&self) -> usize {
        self.app.lock().in_flight
    }

    /// The most that were in flight at once.
    pub fn peak(&self) -> usize {
        self.app.lock().peak
    }

    /// Path and headers of the last request.
    pub fn last(&self) -> Option<(String, HeaderMap)> {
        self.app.lock().last.clone()
    }

    fn launch(turns: Option<Semaphore>) -> Upstream {
        let app = Arc::new(App { state: Mutex::new(State::default()), turns, gate: Notify::new() });
        let (stop, stopped) = oneshot::channel();
        let (told, address) = std::sync::mpsc::channel();
        let served = Arc::clone(&app);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
                told.send(listener.local_addr().unwrap()).unwrap();
                tokio::select! {
                    () = accept(&listener, served) => {}
                    _ = stopped => {}
                }
            });
        });
        Upstream { address: address.recv().unwrap(), app, stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The server may have ended by a panic of its own, which the join below would show.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

// === impl Behaviour ===

impl Behaviour {
    /// Follows what a request wants.
    fn obey(&mut self, request: &HeaderMap) {
        let texts = |name: &str| request.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        for status in texts("reply-status") {
            self.status = status.parse().unwrap();
        }
        for ms in texts("reply-after-ms") {
            self.delay = Duration::from_millis(ms.parse().unwrap());
        }
        for field in texts("reply-with") {
            let (name, value) = field.split_once('=').unwrap();
            self.headers.push((name.into(), value.into()));
        }
    }
}

impl Default for Behaviour {
    fn default() -> Self {
        Behaviour { delay: Duration::ZERO, status: 200, headers: Vec::new() }
    }
}

// === impl App ===

impl App {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path_and_query().map_or_else(String::new, ToString::to_string);
        let is_health = path == "/healthz";
        {
            let mut state = self.lock();
            *state.seen.entry(path.clone()).or_default() += 1;
            state.arrivals.push(path.clone());
            state.last = Some((path, request.headers().clone()));
            state.in_flight += 1;
            state.peak = state.peak.max(state.in_flight);
        }
        let visit = Visit(self);
        let mut behaviour = self.lock().behaviour.clone();
        behaviour.obey(request.headers());
        if !is_health {
            self.wait(behaviour.delay).await;
        }
        // The body is read to its end, so that the connection can be used again.
        let _ = request.into_body().collect().await;
        drop(visit);

        let mut response = Response::new(Full::from("from the upstream\n"));
        if !is_health {
            *response.status_mut() = StatusCode::from_u16(behaviour.status).unwrap();
            for (name, value) in &behaviour.headers {
                let name: HeaderName = name.parse().unwrap();
                response.headers_mut().append(name, HeaderValue::from_str(value).unwrap());
            }
        }
        response
    }

    async fn wait(&self, delay: Duration) {
        let _turn = match &self.turns {
            Some(turns) => Some(turns.acquire().await.unwrap()),
            None => None,
        };
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        loop {
            // Registered before the look, so that a release between the two is not missed.
            let opened = self.gate.notified();
            if !self.lock().held {
                return;
            }
            opened.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

// === impl Visit ===

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.0.lock().in_flight -= 1;
    }
}

async fn accept(listener: &TcpListener, app: Arc<App>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let app = Arc::clone(&app);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let app = Arc::clone(&app);
                async move { Ok::<_, Infallible>(app.answer(request).await) }
            });
            // A caller that breaks off is its own affair.
            let _ = auto::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}
