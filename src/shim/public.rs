//! What filters ask: `POST /v1/take`, and health and metrics for everybody who reaches the port.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use sluicegate_policy::wire::{Answer, BODY_MAX, Batch, MARKER, TAKE_PATH, WireStanding};

use crate::bounds;
use crate::metrics::Metrics;
use crate::overrides::Overrides;
use crate::settings::Settings;
use crate::store::Store;
use crate::store::failure::Failure;
use crate::token::Token;

/// The handler of the filters' listener.
#[derive(Debug)]
pub struct Public {
    token: Option<Token>,
    store: Arc<Store>,
    overrides: Arc<Overrides>,
    metrics: Arc<Metrics>,
    in_flight: AtomicUsize,
    max_in_flight: usize,
    timeout: Duration,
}

type Reply = Response<Full<Bytes>>;

/// Why a take call gets no verdicts.
#[derive(Debug)]
enum Refusal {
    /// No token, or another one.
    Unauthorized,
    /// As many batches as may be are under way.
    Overloaded,
    /// The body exceeds [`BODY_MAX`].
    TooLarge,
    /// The body broke off.
    Broken,
    /// No batch, or one beyond its bounds.
    Malformed(String),
    /// No decision for any take.
    Unavailable(Failure),
    /// It took too long.
    Late,
}

impl Public {
    /// A handler for these settings.
    #[must_use]
    pub fn new(
        settings: &Settings,
        store: Arc<Store>,
        overrides: Arc<Overrides>,
        metrics: Arc<Metrics>,
    ) -> Public {
        Public {
            token: settings.token.clone(),
            store,
            overrides,
            metrics,
            in_flight: AtomicUsize::new(0),
            max_in_flight: settings.max_in_flight,
            timeout: settings.request_timeout,
        }
    }

    /// Answers one request.
    ///
    /// # Errors
    /// Never: every fault is a response.
    pub async fn handle(self: Arc<Self>, request: Request<Incoming>) -> Result<Reply, Infallible> {
        let get = matches!(*request.method(), Method::GET | Method::HEAD);
        Ok(match request.uri().path() {
            TAKE_PATH if request.method() == Method::POST => self.take_or_refuse(request).await,
            TAKE_PATH => not_allowed("POST"),
            "/healthz" | "/readyz" | "/metrics" if !get => not_allowed("GET, HEAD"),
            "/healthz" => health(),
            "/readyz" => readiness(&self.store),
            "/metrics" => page(&self.metrics),
            _ => problem(StatusCode::NOT_FOUND, "not_found", "there is nothing at this path"),
        })
    }

    async fn take_or_refuse(&self, request: Request<Incoming>) -> Reply {
        let outcomes = &self.metrics.requests;
        let result = match tokio::time::timeout(self.timeout, self.take(request)).await {
            Ok(result) => result,
            Err(_) => Err(Refusal::Late),
        };
        let refusal = match result {
            Ok(reply) => {
                outcomes.answered.inc();
                return reply;
            }
            Err(refusal) => refusal,
        };
        match &refusal {
            Refusal::Unauthorized => &outcomes.unauthorized,
            Refusal::Overloaded => &outcomes.overloaded,
            Refusal::TooLarge | Refusal::Broken | Refusal::Malformed(_) => &outcomes.malformed,
            Refusal::Unavailable(_) => &outcomes.unavailable,
            Refusal::Late => &outcomes.late,
        }
        .inc();
        refusal.into_reply()
    }

    async fn take(&self, request: Request<Incoming>) -> Result<Reply, Refusal> {
        if self.token.as_ref().is_some_and(|token| !token.admits(request.headers())) {
            return Err(Refusal::Unauthorized);
        }
        let _place = self.enter().ok_or(Refusal::Overloaded)?;
        let body = Limited::new(request.into_body(), BODY_MAX).collect().await.map_err(|error| {
            if error.is::<http_body_util::LengthLimitError>() { Refusal::TooLarge } else { Refusal::Broken }
        })?;
        let mut batch: Batch = serde_json::from_slice(&body.to_bytes())
            .map_err(|error| Refusal::Malformed(error.to_string()))?;
        bounds::check(&batch).map_err(|fault| Refusal::Malformed(fault.to_string()))?;

        self.metrics.takes.inc_by(batch.takes.len() as u64);
        self.metrics.charges.inc_by(batch.charges.len() as u64);
        self.metrics.releases.inc_by(batch.releases.len() as u64);
        if !batch.takes.is_empty() {
            self.metrics.batch_size.observe(batch.takes.len() as f64);
        }
        self.overrides.apply(&mut batch);
        match self.store.take(&batch).await {
            Ok(answer) => {
                self.count(&answer);
                Ok(encode(&answer))
            }
            Err(failure) => {
                self.metrics.verdicts.unknown.inc_by(batch.takes.len() as u64);
                Err(Refusal::Unavailable(failure))
            }
        }
    }

    fn count(&self, answer: &Answer) {
        let (mut allowed, mut limited, mut unknown) = (0, 0, 0);
        for verdict in &answer.verdicts {
            match verdict {
                None => unknown += 1,
                Some(standings) if standings.iter().all(|standing| standing.0 == 1) => allowed += 1,
                Some(_) => limited += 1,
            }
        }
        self.metrics.verdicts.allowed.inc_by(allowed);
        self.metrics.verdicts.limited.inc_by(limited);
        self.metrics.verdicts.unknown.inc_by(unknown);
    }

    fn enter(&self) -> Option<Place<'_>> {
        let place = Place(self);
        self.metrics.in_flight.inc();
        // The place is made first: if there is no room, its drop takes both counts back.
        (self.in_flight.fetch_add(1, Ordering::Relaxed) < self.max_in_flight).then_some(place)
    }
}

/// A batch's place, given back when it ends, however it ends.
struct Place<'a>(&'a Public);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.0.metrics.in_flight.dec();
    }
}

impl Refusal {
    fn into_reply(self) -> Reply {
        match self {
            Refusal::Unauthorized => {
                let mut reply =
                    problem(StatusCode::UNAUTHORIZED, "unauthorized", "the token is missing or wrong");
                reply.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                reply
            }
            Refusal::Overloaded => unavailable("overloaded", "as many batches as may be are under way"),
            Refusal::TooLarge => {
                let mut reply =
                    problem(StatusCode::PAYLOAD_TOO_LARGE, "too_large", "a batch has at most 1 MiB");
                // What follows on this connection is the rest of the body.
                reply.headers_mut().insert(hyper::header::CONNECTION, HeaderValue::from_static("close"));
                reply
            }
            Refusal::Broken => problem(StatusCode::BAD_REQUEST, "broken", "the body broke off"),
            Refusal::Malformed(detail) => problem(StatusCode::BAD_REQUEST, "malformed", &detail),
            Refusal::Unavailable(failure) => unavailable(failure.name(), failure.explain()),
            Refusal::Late => unavailable("late", "the request took too long"),
        }
    }
}

/// Alive: it answers, whatever the store does.
pub(crate) fn health() -> Reply {
    reply(StatusCode::OK, "text/plain", Bytes::from_static(b"ok\n"))
}

/// Ready: the store answers.
pub(crate) fn readiness(store: &Store) -> Reply {
    match store.readiness() {
        Ok(()) => reply(StatusCode::OK, "text/plain", Bytes::from_static(b"ready\n")),
        Err(failure) => unavailable(failure.name(), failure.explain()),
    }
}

/// Metrics.
pub(crate) fn page(metrics: &Metrics) -> Reply {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    reply(StatusCode::OK, OPEN_METRICS, Bytes::from(metrics.render()))
}

/// An error as JSON: `{"error":KIND,"detail":SENTENCE}`.
pub(crate) fn problem(status: StatusCode, kind: &str, detail: &str) -> Reply {
    let body = serde_json::json!({"error": kind, "detail": detail}).to_string();
    reply(status, "application/json", Bytes::from(body))
}

fn unavailable(kind: &str, detail: &str) -> Reply {
    let mut reply = problem(StatusCode::SERVICE_UNAVAILABLE, kind, detail);
    reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    reply
}

fn not_allowed(methods: &'static str) -> Reply {
    let mut reply = problem(StatusCode::METHOD_NOT_ALLOWED, "method", "this method does nothing here");
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    reply
}

fn encode(answer: &Answer) -> Reply {
    // Most standings are below this, so that the body is written into one allocation.
    let size = 32 + answer.verdicts.len() * (8 + size_of::<WireStanding>());
    let mut body = Vec::with_capacity(size);
    match serde_json::to_writer(&mut body, answer) {
        Ok(()) => reply(StatusCode::OK, "application/json", Bytes::from(body)),
        Err(_) => problem(StatusCode::INTERNAL_SERVER_ERROR, "encoding", "the answer cannot be written"),
    }
}

fn reply(status: StatusCode, content_type: &'static str, body: Bytes) -> Reply {
    let mut reply = Response::new(Full::new(body));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(MARKER, HeaderValue::from_static("1"));
    reply
}
