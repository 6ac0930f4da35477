//! What a refusal looks like, and the RateLimit fields of every answer.
//!
//! Quota is 429 (RFC 6585), saturation is 503 (RFC 9110), and the two are never mixed up. `Retry-After` is a whole
//! number of seconds, at least 1, rounded up, so that a client which obeys it passes. gRPC calls are answered in
//! gRPC: RESOURCE_EXHAUSTED for quota, UNAVAILABLE for saturation.

mod body;
mod fields;
mod quota;

pub use fields::{Field, Value, rate_limit_fields};
pub use quota::{Held, Quota};

use crate::policy::Responses;
use crate::verdict::ShedReason;

/// RESOURCE_EXHAUSTED.
const GRPC_RESOURCE_EXHAUSTED: u8 = 8;

/// UNAVAILABLE.
const GRPC_UNAVAILABLE: u8 = 14;

/// An answer that the filter gives itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// HTTP status.
    pub status: u32,
    /// Set for gRPC calls; the HTTP status is then 200.
    pub grpc_status: Option<u8>,
    /// Fields, each name once.
    pub fields: Vec<Field>,
    /// May be empty.
    pub body: String,
    /// For access logs (`RESPONSE_CODE_DETAILS`).
    pub details: &'static str,
}

/// What the answer has to know about the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dialect {
    /// A gRPC call. (What `HEAD` wants, no body, Envoy sees to itself.)
    pub grpc: bool,
}

/// 429: one or more limits are used up. `held` are all limits that the request met; the refusing ones are those
/// whose standing is not allowed. `random` spreads `Retry-After` if the operator wants it spread.
pub fn quota_exceeded<'a>(
    responses: &Responses,
    dialect: Dialect,
    held: impl Iterator<Item = Held<'a>> + Clone,
    random: u64,
) -> Response {
    let refusing = || held.clone().filter(|held| held.standing.is_some_and(|s| !s.allowed));
    let retry_after_us =
        refusing().filter_map(|held| held.standing).map(|s| s.retry_after_us).max().unwrap_or(0);
    let retry_after_s = whole_seconds(jittered(retry_after_us, responses.retry_after_jitter_percent, random));
    let names: Vec<&str> = refusing().map(|held| held.quota.name()).collect();

    let mut fields = Vec::with_capacity(8);
    fields.push(Field::new("retry-after", retry_after_s));
    fields.push(Field::new("cache-control", "no-store"));
    fields.push(Field::new("x-envoy-ratelimited", "true"));
    rate_limit_fields(
        &responses.fields,
        held.clone(),
        |_| None,
        |name, value| fields.push(Field { name, value }),
    );
    let refusal = body::Refusal { kind: &body::QUOTA_EXCEEDED, violated: &names, retry_after_s };
    refusal.render(&responses.body, dialect, fields)
}

/// 503: the upstream could not answer in time, or no decision could be had and the limit says `deny`.
pub fn saturated(
    responses: &Responses,
    dialect: Dialect,
    reason: ShedReason,
    retry_after_s: u64,
) -> Response {
    let retry_after_s = retry_after_s.max(1);
    let mut fields = vec![
        Field::new("retry-after", retry_after_s),
        Field::new("cache-control", "no-store"),
        Field::new("x-envoy-overloaded", "true"),
        Field::new("x-shed-reason", reason.name()),
    ];
    if dialect.grpc {
        // gRFC A6: the client's retry policy waits this long before its next attempt.
        fields.push(Field::new("grpc-retry-pushback-ms", retry_after_s * 1_000));
    }
    let refusal = body::Refusal { kind: &body::SATURATED, violated: &[], retry_after_s };
    refusal.render(&responses.body, dialect, fields)
}

/// Microseconds as whole seconds, rounded up, at least 1 (RFC 9110, section 10.2.3).
pub fn whole_seconds(us: u64) -> u64 {
    us.div_ceil(1_000_000).max(1)
}

/// Adds a random share of up to `percent`; never takes any away.
fn jittered(us: u64, percent: u8, random: u64) -> u64 {
    let share = u128::from(us) * u128::from(percent) * u128::from(random >> 32) / (100 << 32);
    us.saturating_add(u64::try_from(share).unwrap_or(0))
}

#[cfg(test)]
mod tests;
