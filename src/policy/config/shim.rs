//! How to reach the shim.

use super::fields::Fields;
use super::source::is_token;
use super::value::Value;
use crate::policy::Shim;

pub(super) fn shim(value: &Value<'_>) -> Option<Shim> {
    const KNOWN: &[&str] =
        &["cluster", "authority", "token", "timeout", "breaker", "batch_max", "waiting_max", "in_flight_max"];
    let fields = value.fields(KNOWN)?;
    let cluster = fields.required("cluster", |value| value.text("a cluster name"));
    let authority = fields.or("authority", "sluicegate-shim", authority);
    let token = fields.optional("token", token);
    let timeout_us = fields.or("timeout", 50_000, |value| value.duration_us(1_000..=10_000_000));
    let breaker = fields.or("breaker", (5, 1_000_000), breaker);
    let batch_max = fields.or("batch_max", 256, |value| value.size(1..=1_024));
    let waiting_max = fields.or("waiting_max", 4_096, |value| value.size(1..=65_536));
    let in_flight_max = fields.or("in_flight_max", 2, |value| value.size(1..=8));
    let (breaker_failures, breaker_open_us) = breaker?;
    Some(Shim {
        cluster: cluster?.into(),
        authority: authority?.into(),
        token: token?,
        timeout_us: timeout_us?,
        breaker_failures,
        breaker_open_us,
        batch_max: batch_max?,
        waiting_max: waiting_max?,
        in_flight_max: in_flight_max?,
    })
}

fn breaker(value: &Value<'_>) -> Option<(u32, u64)> {
    let fields: Fields<'_> = value.fields(&["failures", "open_for"])?;
    let failures = fields.or("failures", 5, |value| u32::try_from(value.integer(1..=1_000)?).ok());
    let open_us = fields.or("open_for", 1_000_000, |value| value.duration_us(10_000..=60_000_000));
    Some((failures?, open_us?))
}

fn authority<'a>(value: &Value<'a>) -> Option<&'a str> {
    let text = value.text("an authority")?;
    if !text.bytes().all(|b| is_token(b) || b":[]".contains(&b)) {
        return value.expected("a host, with or without port");
    }
    Some(text)
}

/// A fault does not show the text: it is a secret.
fn token(value: &Value<'_>) -> Option<Box<str>> {
    let text = value.any_text("a token")?;
    if !(16..=1_024).contains(&text.len()) || !text.bytes().all(|b| b.is_ascii_graphic()) {
        value.fault("a token has 16 to 1,024 visible ASCII characters");
        return None;
    }
    Some(text.into())
}
