//! The application: what it is asked, how long it takes, what it answers.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{HeaderMap, Request, Response, StatusCode};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use super::burn::Burner;
use super::control::Settings;
use super::count::Counts;
use super::queue::Queue;
use crate::query;
use crate::timer::Timer;

/// Request headers that the answer shows.
const ECHOED: [&str; 5] =
    ["host", "user-agent", "x-forwarded-for", "x-request-id", "x-envoy-expected-rq-timeout-ms"];

/// The sample upstream, shared by all connections.
#[derive(Debug)]
pub(crate) struct App {
    start: Instant,
    timer: Timer,
    state: Mutex<State>,
    burner: Option<Burner>,
    cores: Semaphore,
    cost_header: Option<HeaderName>,
}

#[derive(Debug)]
struct State {
    settings: Settings,
    queue: Queue,
    counts: Counts,
    random: StdRng,
}

/// Counts a request as abandoned unless it was answered.
struct Visit<'a> {
    app: &'a App,
    path: &'a str,
    answered: bool,
}

// === impl App ===

impl App {
    pub(crate) fn new(
        settings: Settings,
        seed: u64,
        burner: Option<Burner>,
        cost_header: Option<HeaderName>,
    ) -> std::io::Result<App> {
        let state = State {
            queue: Queue::new(settings.concurrency),
            counts: Counts::default(),
            random: StdRng::seed_from_u64(seed),
            settings,
        };
        Ok(App {
            start: Instant::now(),
            timer: Timer::start()?,
            cores: Semaphore::new(state.queue.servers()),
            state: Mutex::new(state),
            burner,
            cost_header,
        })
    }

    /// Answers one request.
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let query = request.uri().query();
        match request.uri().path() {
            "/healthz" => text(StatusCode::OK, "ok\n"),
            "/_stats" => self.stats(),
            "/_control" => self.control(query),
            path => self.serve(path, query, request.headers()).await,
        }
    }

    async fn serve(&self, path: &str, query: Option<&str>, headers: &HeaderMap) -> Response<Full<Bytes>> {
        let mut visit = Visit { app: self, path, answered: false };
        let arrived_us = self.now_us();
        let (service_us, done_us) = self.lock().place(path, arrived_us);
        match self.burner {
            Some(burner) => self.burn(burner, service_us).await,
            None => self.timer.sleep_until(self.start + Duration::from_micros(done_us)).await,
        }
        visit.answered = true;
        let took_us = self.now_us() - arrived_us;
        let deadline_ms = headers.get("x-deadline-ms").and_then(|value| value.to_str().ok()?.parse().ok());
        let is_late = deadline_ms.is_some_and(|ms: u64| took_us > ms * 1_000);
        self.lock().counts.add(path, |count| {
            count.served += 1;
            count.late += u64::from(is_late);
        });
        self.page(path, query, headers, took_us)
    }

    async fn burn(&self, burner: Burner, service_us: u64) {
        // The semaphore is never closed, and a task that panicked has been counted as served late.
        let _core = self.cores.acquire().await;
        let _ = tokio::task::spawn_blocking(move || burner.burn(service_us)).await;
    }

    fn page(
        &self,
        path: &str,
        query: Option<&str>,
        headers: &HeaderMap,
        took_us: u64,
    ) -> Response<Full<Bytes>> {
        let echo: Map<String, Value> = ECHOED
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), headers.get(name)?.to_str().ok()?.into())))
            .collect();
        let took_ms = took_us as f64 / 1_000.0;
        let page = json!({"from": "sample upstream", "path": path, "took_ms": took_ms, "headers": echo});
        let status = query::value(query, "status").and_then(|code: u16| StatusCode::from_u16(code).ok());
        let mut response = document(status.unwrap_or(StatusCode::OK), &page);
        let cost = query::value(query, "cost").unwrap_or(self.lock().settings.cost);
        if let Some(name) = &self.cost_header {
            response.headers_mut().insert(name, HeaderValue::from(cost));
        }
        response
    }

    fn stats(&self) -> Response<Full<Bytes>> {
        let state = self.lock();
        let page = json!({
            "settings": state.settings.to_json(),
            "capacity_per_s": state.settings.capacity(),
            "total": state.counts.total,
            "paths": state.counts.paths,
        });
        document(StatusCode::OK, &page)
    }

    fn control(&self, query: Option<&str>) -> Response<Full<Bytes>> {
        let mut state = self.lock();
        if let Err(fault) = state.settings.change(query) {
            return text(StatusCode::BAD_REQUEST, &format!("{fault}\n"));
        }
        let (servers, before) = (state.settings.concurrency, state.queue.servers());
        state.queue.resize(servers);
        self.cores.add_permits(servers.saturating_sub(before));
        self.cores.forget_permits(before.saturating_sub(servers));
        if query::value(query, "reset").unwrap_or(false) {
            state.counts = Counts::default();
        }
        document(StatusCode::OK, &state.settings.to_json())
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl State {
    /// The service time drawn and the time at which the request is done, microseconds.
    fn place(&mut self, path: &str, now_us: u64) -> (u64, u64) {
        let mean_us = self.settings.service_ms * 1_000.0;
        let service_us = self.settings.law.draw(mean_us, &mut self.random) as u64;
        self.counts.add(path, |count| {
            count.arrived += 1;
            count.drawn_us += service_us;
        });
        (service_us, self.queue.place(now_us, service_us))
    }
}

// === impl Visit ===

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.app.lock().counts.add(self.path, |count| count.abandoned += 1);
        }
    }
}

fn document(status: StatusCode, page: &Value) -> Response<Full<Bytes>> {
    let mut response = text(status, &format!("{page}\n"));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn text(status: StatusCode, body: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body.to_owned()));
    *response.status_mut() = status;
    response
}
