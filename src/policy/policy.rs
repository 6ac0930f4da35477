//! The whole configuration, after validation.

use crate::class::Class;
use crate::identity::{Identity, IdentityId, Source};
use crate::limit::{Algorithm, Limit};
use crate::mode::Mode;
use crate::pattern::Pattern;

/// Everything a filter needs to decide. Built by [`crate::config`] only, so its invariants hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Separates deployments that use one Redis: part of every key, `[a-z0-9][a-z0-9_-]{0,31}`.
    pub namespace: Box<str>,
    /// How to reach the shim; `None` when every limit is local.
    pub shim: Option<Shim>,
    /// Named identities, in order of name.
    pub identities: Vec<Identity>,
    /// Limits, in configuration order; names are unique. At most 1,000.
    pub limits: Vec<Limit>,
    /// Per-identity changes of limits.
    pub tiers: Tiers,
    /// Classes of requests, first match wins; none means `Normal`.
    pub classes: Vec<ClassRule>,
    /// A request header whose value names the class, only if the operator marks it trusted.
    pub class_header: Option<Box<str>>,
    /// Paths that are always answered.
    pub exempt: Vec<Pattern>,
    /// Requests a second that exempt paths may take per worker before they count as normal, 1 to 1,000,000.
    pub exempt_rate: u64,
    /// Saturation control; `None` when not configured.
    pub overload: Option<Overload>,
    /// The shape of answers.
    pub responses: Responses,
    /// Default of every limit and of the saturation control.
    pub mode: Mode,
    /// Secret of the key digests (HMAC-SHA-256); `None` means plain SHA-256.
    pub digest_secret: Option<Box<[u8]>>,
    /// A hash of the document, for metrics and logs: the same text gives the same number on every Envoy.
    pub hash: u32,
}

/// How to reach the shim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shim {
    /// Envoy cluster name.
    pub cluster: Box<str>,
    /// `:authority` of callouts.
    pub authority: Box<str>,
    /// Sent with each callout as `authorization: Bearer ...`; a shim that listens beyond loopback demands one.
    /// 16 to 1,024 visible ASCII characters.
    pub token: Option<Box<str>>,
    /// Longest wait of a request for its decision, microseconds, 1,000 to 10,000,000; 50,000 by default.
    pub timeout_us: u64,
    /// Failures in a row that open the breaker, 1 to 1,000; 5 by default.
    pub breaker_failures: u32,
    /// How long it stays open before one request tries again, microseconds, 10,000 to 60,000,000; 2,000,000.
    pub breaker_open_us: u64,
    /// Takes in one callout, 1 to 1,024; 256 by default.
    pub batch_max: usize,
    /// Requests waiting in one worker, 1 to 65,536; 4,096 by default; beyond, `when_unavailable` decides.
    pub waiting_max: usize,
    /// Batches under way at once in one worker, 1 to 8; 2 by default.
    pub in_flight_max: usize,
}

/// Changes of limits for some identities.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tiers {
    /// Where the tier's name comes from; tried in order.
    pub from: Vec<Source>,
    /// In order of name; an unknown name changes nothing.
    pub tiers: Vec<Tier>,
    /// Identities whose tier is fixed by a list: (identity, value, tier index).
    pub members: Vec<(IdentityId, Box<str>, usize)>,
}

/// A named change of limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Tier {
    /// Unique.
    pub name: Box<str>,
    /// What it does to every limit but those in `limits`.
    pub change: TierChange,
    /// Limits that have numbers of their own in this tier: index into [`Policy::limits`], each once and in order,
    /// and an algorithm of the same kind.
    pub limits: Vec<(usize, Algorithm)>,
    /// Weight in fair sharing under overload, 1 to 1,000; 1 by default.
    pub weight: u32,
}

/// What a tier does to a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierChange {
    /// Burst, limit and rate times this, in thousandths, 1 to 1,000,000 (0.001 to 1,000 times).
    Multiply(u32),
    /// Limits do not apply.
    Unlimited,
}

/// A rule that gives requests a class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassRule {
    /// The class given.
    pub class: Class,
    /// The requests it is about.
    pub pattern: Pattern,
}

/// Saturation control.
#[derive(Clone, Debug, PartialEq)]
pub struct Overload {
    /// Clusters to protect, at most 64. The request's own cluster (`xds.cluster_name`) selects one; when only one
    /// is configured it is used for all.
    pub upstreams: Vec<Upstream>,
    /// Cluster of Envoy's own admin endpoint; without it only the filter's own counts are used.
    pub admin_cluster: Option<Box<str>>,
    /// Poll period, microseconds, 20,000 to 1,000,000; 100,000 by default.
    pub tick_us: u64,
    /// Which law; chosen by itself by default.
    pub law: Law,
    /// Target queueing delay, microseconds, 1,000 to 1,000,000; 10,000 by default.
    pub target_delay_us: u64,
    /// Deadline of requests that bring none, microseconds; `None` means none.
    pub default_deadline_us: Option<u64>,
    /// Whose requests share a class fairly while it is contended, and form the rotating cohorts; `None` means
    /// nobody is told apart.
    pub tenant: Option<IdentityId>,
    /// Share of the capacity that normal, low and sheddable requests each keep whatever the load, percent, 0 to
    /// 10; 1 by default. It is the starvation bound.
    pub floor_percent: u8,
    /// Long-lived requests (upgrades, event streams, streaming gRPC) at once in one worker, 1 to 1,000,000;
    /// 1,024 by default.
    pub streams_max: u64,
    /// Longest `Retry-After` of a shed, seconds, 1 to 3,600; 60 by default.
    pub retry_after_max_s: u32,
    /// Whether sheds are carried out.
    pub mode: Mode,
}

/// A protected cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Envoy cluster name.
    pub cluster: Box<str>,
    /// Fixed bound on requests in flight in one worker, 1 to 1,000,000; `None` means it is learnt.
    pub max_in_flight: Option<u64>,
    /// The connection bound of the cluster (`circuit_breakers` `max_connections`), 1 to 1,000,000, for when the
    /// admin endpoint cannot be asked; `None` means it is read from the stats.
    pub max_connections: Option<u64>,
}

/// How saturation is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// Pool where a connection bound makes pending visible, latency otherwise.
    Auto,
    /// Knee limit on in-flight requests, learnt from active and pending.
    Pool,
    /// Concurrency limit learnt from response latency.
    Latency,
}

/// The shape of answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Responses {
    /// Which RateLimit fields are sent, each at most once.
    pub fields: Vec<FieldStyle>,
    /// Fields are added to allowed responses too, not only to refusals; true by default.
    pub on_allow: bool,
    /// The body of refusals.
    pub body: Body,
    /// `Retry-After` grows by a random share of itself up to this, percent, 0 to 100; 0 by default.
    pub retry_after_jitter_percent: u8,
}

/// A convention for telling clients about their quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldStyle {
    /// `RateLimit-Limit`, `-Remaining`, `-Reset` (draft-ietf-httpapi-ratelimit-headers-03 to -06).
    Triple,
    /// `X-RateLimit-Limit`, `-Remaining`, `-Reset`.
    XRateLimit,
    /// `RateLimit-Policy` and `RateLimit` with `q`, `w`, `r`, `t` (draft -08 to -11).
    Draft11,
    /// `RateLimit-Policy` and `RateLimit` with `q`, `w`, `a`, `w` (draft -12, provisional).
    Draft12,
}

/// The body of refusals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// `application/problem+json` (RFC 9457).
    Problem,
    /// `application/json`.
    Json,
    /// No body.
    None,
    /// The operator's own text.
    Own {
        /// Content type.
        content_type: Box<str>,
        /// Text, at most 4,096 bytes.
        text: Box<str>,
    },
}
