//! One client: asks, waits, perhaps asks again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use http_body_util::Empty;
use hyper::{Request, StatusCode};
use rand::Rng;
use tokio::sync::mpsc::UnboundedSender;

use super::plan::{Arrival, Patience, Plan};
use super::record::{Outcome, Record};
use super::transport::{Answer, Connections};
use crate::timer::Timer;

/// How often a patient client waits for its deadline before it gives up all the same.
const PATIENCE: u32 = 60;

/// What all clients of a run share.
#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) plan: Plan,
    pub(crate) connections: Connections,
    pub(crate) timer: Timer,
    pub(crate) start: Instant,
}

impl Clients {
    /// Sends one arrival and its retries; every attempt that was due before the end of the plan is recorded.
    pub(crate) async fn visit(self: Arc<Self>, arrival: Arrival, records: UnboundedSender<Record>) {
        let mut due_us = arrival.at_us;
        for attempt in 0..=self.plan.retries.max {
            if due_us >= self.plan.us() {
                return;
            }
            self.timer.sleep_until(self.start + Duration::from_micros(due_us)).await;
            let Some((record, retry_after_us)) = self.attempt(arrival, attempt, due_us).await else { return };
            // The receiver leaves only when the run was broken off.
            let _ = records.send(record);
            if record.outcome == Outcome::Ok {
                return;
            }
            due_us = record.done_us + self.backoff_us().max(retry_after_us);
        }
    }

    /// The record, and how long the answer asked to stay away.
    async fn attempt(&self, arrival: Arrival, attempt: u32, due_us: u64) -> Option<(Record, u64)> {
        let kind = self.plan.mix.kinds().get(arrival.kind)?;
        let lag_us = self.now_us().saturating_sub(due_us);
        let deadline = Duration::from_millis(kind.deadline_ms);
        let give_up_at = self.start + Duration::from_micros(due_us) + self.patience(deadline);
        let sent = self.request(&kind.path, kind.deadline_ms, arrival.tenant);
        let answer = tokio::time::timeout_at(give_up_at.into(), async { self.connections.send(sent?).await });
        let answer = answer.await;
        let done_us = self.now_us();
        let is_late = Duration::from_micros(done_us.saturating_sub(due_us)) > deadline;
        let (outcome, retry_after_us) = match &answer {
            Err(_) => (Outcome::DeadlineMissed, 0),
            Ok(_) if is_late => (Outcome::DeadlineMissed, 0),
            Ok(Err(_)) => (Outcome::Failed, 0),
            Ok(Ok(answer)) => (outcome(answer), self.retry_after_us(answer)),
        };
        let (class, tenant) = (kind.class, arrival.tenant);
        Some((Record { class, tenant, attempt, due_us, lag_us, done_us, outcome }, retry_after_us))
    }

    fn request(&self, path: &str, deadline_ms: u64, tenant: u16) -> anyhow::Result<Request<Empty<Bytes>>> {
        let request = Request::builder().uri(self.connections.uri(path)).header("x-deadline-ms", deadline_ms);
        let request = match self.connections.is_http1() {
            true => request.header("host", "sluicegate.test"),
            false => request,
        };
        let request = match self.plan.tenants.count {
            0 => request,
            _ => request.header("x-api-key", format!("tenant-{tenant}")),
        };
        request.body(Empty::new()).context("the path is no URI")
    }

    fn retry_after_us(&self, answer: &Answer) -> u64 {
        let seconds = answer.headers.get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        match self.plan.retries.honour_retry_after {
            true => seconds.map_or(0, |seconds: u64| seconds.saturating_mul(1_000_000)),
            false => 0,
        }
    }

    fn backoff_us(&self) -> u64 {
        let us = self.plan.retries.backoff_ms * 1_000;
        rand::rng().random_range(us / 2..=us + us / 2)
    }

    fn patience(&self, deadline: Duration) -> Duration {
        match self.plan.patience {
            Patience::GiveUp => deadline,
            Patience::Wait => deadline * PATIENCE,
        }
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// Whether a 503 is a refusal or a failure is in its marks: those of Envoy's breakers and of Sluicegate, or the
/// text of `adaptive_concurrency`, which sets none.
fn outcome(answer: &Answer) -> Outcome {
    let is_marked = answer.headers.contains_key("x-envoy-overloaded")
        || answer.body.windows(17).any(|text| text == b"concurrency limit");
    match answer.status {
        StatusCode::TOO_MANY_REQUESTS => Outcome::Quota,
        StatusCode::SERVICE_UNAVAILABLE if is_marked => Outcome::Saturation,
        status if status.is_server_error() => Outcome::Failed,
        _ => Outcome::Ok,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::HeaderMap;

    #[test]
    fn refusals_and_failures_are_told_apart() {
        let answer = |status: u16, overloaded: bool, body: &'static str| {
            let mut headers = HeaderMap::new();
            if overloaded {
                headers.insert("x-envoy-overloaded", "true".parse().unwrap());
            }
            outcome(&Answer { status: StatusCode::from_u16(status).unwrap(), headers, body: body.into() })
        };
        assert_eq!(answer(200, false, ""), Outcome::Ok);
        assert_eq!(answer(404, false, ""), Outcome::Ok);
        assert_eq!(answer(429, true, ""), Outcome::Quota);
        assert_eq!(answer(503, true, ""), Outcome::Saturation);
        assert_eq!(answer(503, false, "reached concurrency limit"), Outcome::Saturation);
        assert_eq!(answer(503, false, "upstream connect error"), Outcome::Failed);
        assert_eq!(answer(504, false, ""), Outcome::Failed);
    }
}
