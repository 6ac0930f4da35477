//! What operators ask: health and metrics for everybody who reaches the port; with the token, one key at a time.
//!
//! | call | what it does |
//! |---|---|
//! | `POST /v1/keys/{namespace}/{limit}/{key}/peek` `{"numbers":{...}}` | how the key stands, without charging it |
//! | `DELETE /v1/keys/{namespace}/{limit}/{key}` | forgets its use: as good as new |
//! | `GET /v1/overrides` | all overrides |
//! | `PUT /v1/overrides/{namespace}/{limit}/{key}` `{"numbers":{...},"expires_in_s":3600}` | other numbers for this key |
//! | `DELETE /v1/overrides/{namespace}/{limit}/{key}` | the policy's numbers again |
//!
//! `numbers` are a limit's on the wire ([`WireAlgorithm`]), like `{"token_bucket":{"burst":100,"tokens":1,
//! "period_us":100000}}`. Every change is logged.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use sluicegate_policy::wire::{Ask, Batch, Take, VERSION, WireAlgorithm, WireLimit, WireStanding};
use tracing::info;

use crate::bounds;
use crate::metrics::Metrics;
use crate::overrides::Overrides;
use crate::public;
use crate::store::Store;
use crate::store::failure::Failure;
use crate::store::overrides::{LIFE_MAX_S, Override, Subject};
use crate::token::Token;

/// Longest body, bytes.
const BODY_MAX: usize = 16_384;

struct Admin {
    token: Option<Token>,
    store: Arc<Store>,
    overrides: Arc<Overrides>,
    metrics: Arc<Metrics>,
}

/// The handler of the operators' listener.
pub fn router(
    token: Option<Token>,
    store: Arc<Store>,
    overrides: Arc<Overrides>,
    metrics: Arc<Metrics>,
) -> Router {
    let admin = Arc::new(Admin { token, store, overrides, metrics });
    let guarded = Router::new()
        .route("/v1/keys/{namespace}/{limit}/{key}/peek", post(peek))
        .route("/v1/keys/{namespace}/{limit}/{key}", delete(reset))
        .route("/v1/overrides", get(list))
        .route("/v1/overrides/{namespace}/{limit}/{key}", put(set).delete(unset))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(middleware::from_fn_with_state(Arc::clone(&admin), guard));
    Router::new()
        .merge(guarded)
        .route("/healthz", get(async || public::health()))
        .route("/readyz", get(async |State(admin): State<Arc<Admin>>| public::readiness(&admin.store)))
        .route("/metrics", get(async |State(admin): State<Arc<Admin>>| public::page(&admin.metrics)))
        .fallback(async || {
            Problem(StatusCode::NOT_FOUND, "not_found", "there is nothing at this path".to_owned())
        })
        .with_state(admin)
}

/// Why an operator's call was not done.
struct Problem(StatusCode, &'static str, String);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        public::problem(self.0, self.1, &self.2).into_response()
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Problem(StatusCode::SERVICE_UNAVAILABLE, failure.name(), failure.explain().to_owned())
    }
}

async fn guard(State(admin): State<Arc<Admin>>, request: Request, next: Next) -> Response {
    match &admin.token {
        Some(token) if token.admits(request.headers()) => next.run(request).await,
        Some(_) => {
            Problem(StatusCode::UNAUTHORIZED, "unauthorized", "the token is missing or wrong".to_owned())
                .into_response()
        }
        None => {
            let detail = "admin functions are off: start the server with --admin-token or --admin-token-file";
            Problem(StatusCode::FORBIDDEN, "off", detail.to_owned()).into_response()
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Peek {
    numbers: WireAlgorithm,
}

#[derive(Serialize)]
struct Standing {
    allowed: bool,
    remaining: u64,
    reset_us: u64,
    retry_after_us: u64,
    overridden: bool,
}

async fn peek(
    State(admin): State<Arc<Admin>>,
    Path(subject): Path<Subject>,
    body: Result<Json<Peek>, JsonRejection>,
) -> Result<Json<Standing>, Problem> {
    let numbers = body.map_err(rejected)?.0.numbers;
    check(&subject)?;
    let limit = limit(&subject, numbers)?;
    let asks = vec![Ask(0, subject.key, 0, 0)];
    let mut batch = Batch {
        version: VERSION,
        namespace: subject.namespace,
        limits: vec![limit],
        takes: vec![Take { asks, slot: None }],
        charges: Vec::new(),
        releases: Vec::new(),
    };
    admin.overrides.apply(&mut batch);
    let overridden = batch.limits.len() > 1;
    let verdict = admin.store.take(&batch).await?.verdicts.pop().flatten();
    match verdict.as_deref() {
        Some(&[WireStanding(allowed, _, remaining, reset_us, retry_after_us, _)]) => {
            Ok(Json(Standing { allowed: allowed == 1, remaining, reset_us, retry_after_us, overridden }))
        }
        _ => Err(Failure::Junk.into()),
    }
}

#[derive(Serialize)]
struct Existed {
    existed: bool,
}

async fn reset(
    State(admin): State<Arc<Admin>>,
    Path(subject): Path<Subject>,
) -> Result<Json<Existed>, Problem> {
    check(&subject)?;
    let existed = admin.store.reset(&subject).await?;
    info!(audit = "reset", namespace = %subject.namespace, limit = %subject.limit, key = %subject.key, existed, "key reset");
    Ok(Json(Existed { existed }))
}

#[derive(Serialize)]
struct Entry {
    #[serde(flatten)]
    subject: Subject,
    numbers: WireAlgorithm,
    expires_in_s: u64,
}

impl From<Override> for Entry {
    fn from(found: Override) -> Self {
        Entry { subject: found.subject, numbers: found.numbers, expires_in_s: found.left.as_secs() }
    }
}

async fn list(State(admin): State<Arc<Admin>>) -> Result<Json<Vec<Entry>>, Problem> {
    let snapshot = admin.store.overrides_since(0).await?.unwrap_or_default();
    Ok(Json(snapshot.overrides.into_iter().map(Entry::from).collect()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    numbers: WireAlgorithm,
    expires_in_s: u64,
}

async fn set(
    State(admin): State<Arc<Admin>>,
    Path(subject): Path<Subject>,
    body: Result<Json<Set>, JsonRejection>,
) -> Result<Json<Entry>, Problem> {
    let Set { numbers, expires_in_s } = body.map_err(rejected)?.0;
    check(&subject)?;
    let WireLimit(_, numbers) = limit(&subject, numbers)?;
    if !(1..=LIFE_MAX_S).contains(&expires_in_s) {
        return Err(malformed("expires_in_s: expected 1 to 31,622,400 seconds"));
    }
    let wanted = Override { subject, numbers, left: Duration::from_secs(expires_in_s) };
    if !admin.store.set_override(&wanted).await? {
        return Err(Problem(
            StatusCode::INSUFFICIENT_STORAGE,
            "full",
            "there are 10,000 overrides already".to_owned(),
        ));
    }
    info!(audit = "override.set", namespace = %wanted.subject.namespace, limit = %wanted.subject.limit,
          key = %wanted.subject.key, numbers = ?wanted.numbers, expires_in_s, "override set");
    Ok(Json(wanted.into()))
}

async fn unset(
    State(admin): State<Arc<Admin>>,
    Path(subject): Path<Subject>,
) -> Result<Json<Existed>, Problem> {
    check(&subject)?;
    let existed = admin.store.unset_override(&subject).await?;
    info!(audit = "override.unset", namespace = %subject.namespace, limit = %subject.limit, key = %subject.key, existed,
          "override removed");
    Ok(Json(Existed { existed }))
}

fn check(subject: &Subject) -> Result<(), Problem> {
    if !bounds::is_name(&subject.namespace, 32) {
        return Err(malformed(&format!("namespace: expected {}", bounds::NAMESPACE)));
    }
    if !bounds::is_name(&subject.limit, 64) {
        return Err(malformed(&format!("limit: expected {}", bounds::LIMIT_NAME)));
    }
    if !bounds::is_key(&subject.key) {
        return Err(malformed(&format!("key: expected {}", bounds::KEY)));
    }
    Ok(())
}

fn limit(subject: &Subject, numbers: WireAlgorithm) -> Result<WireLimit, Problem> {
    let limit = WireLimit(subject.limit.clone(), numbers);
    match bounds::limit(&limit) {
        Ok(()) => Ok(limit),
        Err(problem) => Err(malformed(&format!("numbers: {problem}"))),
    }
}

fn malformed(detail: &str) -> Problem {
    Problem(StatusCode::BAD_REQUEST, "malformed", detail.to_owned())
}

fn rejected(rejection: JsonRejection) -> Problem {
    Problem(rejection.status(), "malformed", rejection.body_text())
}
