//! Whether the upstream can still finish a request in time.

use crate::class::Class;
use crate::count::Decision;
use crate::gate::stream::Stream;
use crate::gate::{Gate, Step};
use crate::overload::arrival::{self, Arrival, Ending, Shed};
use crate::request::Request;
use crate::response;
use crate::verdict::ShedReason;

impl Gate {
    /// When the caller stops waiting.
    pub(super) fn deadline_us(&self, request: &dyn Request, now_us: u64) -> Option<u64> {
        let default_us = self.policy.overload.as_ref().and_then(|overload| overload.default_deadline_us);
        remaining_us(request).or(default_us).map(|us| now_us.saturating_add(us))
    }

    /// Asks saturation control about a request, and notes the place it gets.
    pub(super) fn saturate(
        &mut self,
        request: &dyn Request,
        stream: &mut Stream,
        now_us: u64,
    ) -> Result<(), Shed> {
        let (Some(control), Some(overload)) = (&mut self.saturation, &self.policy.overload) else {
            return Ok(());
        };
        let cluster = match overload.upstreams.len() {
            1 => None,
            _ => request.property(&["xds", "cluster_name"]),
        };
        let Some(upstream) = control.upstream(cluster.as_deref().unwrap_or_default()) else { return Ok(()) };

        let tenant =
            overload.tenant.and_then(|tenant| self.matcher.identity(tenant, request, &mut self.scratch));
        let weight = match overload.tenant {
            Some(_) => {
                self.matcher.tier(request, &mut self.scratch).and_then(|id| self.policy.tiers.tiers.get(id.0))
            }
            None => None,
        };
        let arrival = Arrival {
            upstream,
            class: stream.class,
            tenant: tenant.map_or(0, |fingerprint| fingerprint.0 as u64),
            weight: weight.map_or(1, |tier| tier.weight),
            remaining_us: stream.deadline_us.map(|deadline_us| deadline_us.saturating_sub(now_us)),
            attempt: number(request, "x-envoy-attempt-count")
                .and_then(|n| u32::try_from(n).ok())
                .unwrap_or(1),
            streaming: is_streaming(request)
                || self.matcher.has_method(b"CONNECT", request, &mut self.scratch),
            random: stream.random,
        };
        match control.admit(&arrival, now_us) {
            arrival::Decision::Admit(ticket) => stream.ticket = Some(ticket),
            arrival::Decision::WouldShed(ticket, _) => {
                self.counts.would_shed(stream.class);
                stream.ticket = Some(ticket);
            }
            arrival::Decision::Shed(shed) => return Err(shed),
        }
        Ok(())
    }

    /// Refuses a request with 503.
    pub(super) fn shed(
        &mut self,
        mut stream: Box<Stream>,
        reason: ShedReason,
        retry_after_s: u64,
        now_us: u64,
    ) -> Step {
        self.counts.decide(stream.class, Decision::SaturationReject(reason));
        self.withdraw(&mut stream, now_us);
        let dialect = stream.dialect;
        self.streams.reuse(stream);
        Step::Refuse(response::saturated(&self.policy.responses, dialect, reason, retry_after_s))
    }

    /// Gives back what a request holds that does not go upstream: its place, leased tokens.
    pub(super) fn withdraw(&mut self, stream: &mut Stream, now_us: u64) {
        if let (Some(control), Some(ticket)) = (&mut self.saturation, stream.ticket.take()) {
            control.done(ticket, Ending::Withdrawn, now_us);
        }
        for hit in &stream.hits {
            if hit.course == crate::gate::hit::Course::Paid {
                self.leases.give_back(hit.local_key, hit.cost, now_us);
            }
        }
    }
}

/// What is left of the time the caller will wait: the least that anybody says.
fn remaining_us(request: &dyn Request) -> Option<u64> {
    let grpc = request.header("grpc-timeout").and_then(|value| grpc_timeout_us(&value));
    let envoy = number(request, "x-envoy-expected-rq-timeout-ms").map(|ms| ms.saturating_mul(1_000));
    match (grpc, envoy) {
        (Some(grpc), Some(envoy)) => Some(grpc.min(envoy)),
        (grpc, envoy) => grpc.or(envoy),
    }
}

/// At most eight digits and a unit (gRPC over HTTP/2).
fn grpc_timeout_us(value: &[u8]) -> Option<u64> {
    let (unit, digits) = value.split_last()?;
    if digits.len() > 8 {
        return None;
    }
    let count = parse(digits)?;
    Some(match unit {
        b'H' => count * 3_600_000_000,
        b'M' => count * 60_000_000,
        b'S' => count * 1_000_000,
        b'm' => count * 1_000,
        b'u' => count,
        b'n' => count / 1_000,
        _ => return None,
    })
}

/// Requests that may last for ever say nothing about capacity when they stay.
fn is_streaming(request: &dyn Request) -> bool {
    request.header("upgrade").is_some()
        || request.header("accept").is_some_and(|value| value.starts_with(b"text/event-stream"))
}

/// A header that is a whole number.
pub(super) fn number(request: &dyn Request, name: &str) -> Option<u64> {
    parse(request.header(name)?.trim_ascii())
}

/// Digits and nothing else.
pub(super) fn parse(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

impl Stream {
    /// Whether saturation and quota leave it alone.
    pub(super) fn is_exempt(&self) -> bool {
        self.class == Class::Exempt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_timeouts() {
        for (text, us) in [
            ("100m", Some(100_000)),
            ("1S", Some(1_000_000)),
            ("2M", Some(120_000_000)),
            ("99999999H", Some(359_999_996_400_000_000)),
            ("500u", Some(500)),
            ("1500n", Some(1)),
            ("100000000S", None),
            ("S", None),
            ("", None),
            ("-1S", None),
            ("1s", None),
            ("+1S", None),
        ] {
            assert_eq!(grpc_timeout_us(text.as_bytes()), us, "{text}");
        }
    }
}
