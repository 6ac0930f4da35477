//! How much: the algorithm of a limit, and what goes together with it.

use std::mem::discriminant;

use super::fields::Fields;
use super::value::Value;
use super::words::{group, spell_us};
use crate::algorithm::{
    LOG_MAX, PERIOD_MAX_US, PLACES_MAX, RELEASE_US, TOKENS_MAX, WAIT_MAX_US, WAITING_MAX, WINDOW_MIN_US,
};
use crate::limit::{
    Algorithm, Align, Concurrency, Cost, Enforce, FixedWindow, LeakyBucket, Limit, SlidingLog, SlidingWindow,
    TokenBucket, WhenUnavailable,
};

/// The fields that hold an algorithm.
pub(super) const KINDS: &[&str] =
    &["token_bucket", "leaky_bucket", "fixed_window", "sliding_window", "concurrency"];

/// Reads the algorithm among the fields of a limit.
pub(super) fn algorithm(fields: &Fields<'_>) -> Option<Algorithm> {
    let (kind, value) = fields.one_of(KINDS)?;
    match kind {
        "token_bucket" => token_bucket(&value).map(Algorithm::TokenBucket),
        "leaky_bucket" => leaky_bucket(&value).map(Algorithm::LeakyBucket),
        "fixed_window" => fixed_window(&value).map(Algorithm::FixedWindow),
        "sliding_window" => sliding_window(&value),
        _ => concurrency(&value).map(Algorithm::Concurrency),
    }
}

/// Notes what does not go together; gives `None` if anything does not.
pub(super) fn agrees(fields: &Fields<'_>, limit: &Limit) -> Option<()> {
    let mut agrees = Some(());
    let mut fault = |field: &str, message: String| {
        // What is at fault stands in the document, or there would be no fault.
        fields.get(field).as_ref().unwrap_or(fields.owner()).fault(message);
        agrees = None;
    };
    let late = match (&limit.cost, &limit.charge_when) {
        (Cost::ResponseHeader { .. }, _) => Some("cost"),
        (_, Some(_)) => Some("charge_when"),
        _ => None,
    };
    let early = match &limit.algorithm {
        Algorithm::LeakyBucket(_) => {
            Some("a leaky bucket decides how long a request waits before its cost is known")
        }
        Algorithm::Concurrency(_) => Some("concurrency counts requests in progress, not what they have cost"),
        _ => None,
    };
    if let (Some(field), Some(why)) = (late, early) {
        fault(field, why.into());
    }
    if let (Algorithm::Concurrency(_), Cost::RequestHeader { .. } | Cost::Constant(2..)) =
        (&limit.algorithm, &limit.cost)
    {
        fault("cost", "a request in progress takes one slot; concurrency has no cost".into());
    }
    if let Enforce::Leased { for_us, .. } = limit.enforce {
        if early.is_some() {
            fault("enforce", "only token buckets and windows can be leased".into());
        } else if late.is_some() {
            fault("enforce", "a lease spends tokens before the response, this limit charges after it".into());
        } else if let Some(per_us) = window_us(&limit.algorithm).filter(|&per_us| per_us < for_us) {
            let (life, window) = (spell_us(for_us), spell_us(per_us));
            fault("enforce", format!("a lease of {life} outlives the window of {window}"));
        }
    }
    agrees
}

/// What stands against a limit that has these numbers instead of its own.
pub(super) fn objection(limit: &Limit, algorithm: &Algorithm) -> Option<String> {
    if discriminant(algorithm) != discriminant(&limit.algorithm) {
        return Some("expected the algorithm that the limit itself has".into());
    }
    let size = algorithm.size();
    let cost = match limit.cost {
        Cost::Constant(cost) => cost,
        Cost::RequestHeader { default, .. } => default,
        Cost::ResponseHeader { .. } => 1,
    };
    let shares = match (&limit.enforce, &limit.when_unavailable) {
        (Enforce::Local { shares }, _) | (_, WhenUnavailable::Local { shares }) => *shares,
        _ => 1,
    };
    let (size_shown, window) = (group(size), window_us(algorithm));
    match limit.enforce {
        _ if size < cost => Some(format!("its cost of {} is more than {size_shown} ever hold", group(cost))),
        _ if size < shares => Some(format!(
            "{size_shown} divided by its {} shares leaves less than one request each",
            group(shares)
        )),
        Enforce::Leased { size: block, .. } if size / 4 < block => {
            Some(format!("its lease of {} is more than a quarter of {size_shown}", group(block)))
        }
        Enforce::Leased { for_us, .. } if window.is_some_and(|per_us| per_us < for_us) => {
            Some(format!("its lease of {} outlives the window", spell_us(for_us)))
        }
        _ => None,
    }
}

fn token_bucket(value: &Value<'_>) -> Option<TokenBucket> {
    let fields = value.fields(&["burst", "rate"])?;
    let burst = fields.required("burst", |value| value.integer(1..=TOKENS_MAX));
    let rate = fields.required("rate", Value::rate);
    Some(TokenBucket { burst: burst?, rate: rate? })
}

fn leaky_bucket(value: &Value<'_>) -> Option<LeakyBucket> {
    let fields = value.fields(&["burst", "rate", "wait"])?;
    let burst = fields.or("burst", 1, |value| value.integer(1..=TOKENS_MAX));
    let rate = fields.required("rate", Value::rate);
    let wait = fields.required("wait", |value| {
        let fields = value.fields(&["up_to", "waiting"])?;
        let up_to_us = fields.required("up_to", |value| value.duration_us(1_000..=WAIT_MAX_US));
        let waiting = fields.or("waiting", 100, |value| value.integer(1..=WAITING_MAX));
        Some((up_to_us?, waiting?))
    });
    let (wait_up_to_us, waiting) = wait?;
    Some(LeakyBucket { burst: burst?, rate: rate?, wait_up_to_us, waiting })
}

fn fixed_window(value: &Value<'_>) -> Option<FixedWindow> {
    let fields = value.fields(&["limit", "per", "align"])?;
    let limit = fields.required("limit", |value| value.integer(1..=TOKENS_MAX));
    let per_us = fields.required("per", per_us);
    let align = fields.or("align", Align::FirstUse, |value| {
        value.choice(&[("first_use", Align::FirstUse), ("epoch", Align::Epoch)])
    });
    Some(FixedWindow { limit: limit?, per_us: per_us?, align: align? })
}

fn sliding_window(value: &Value<'_>) -> Option<Algorithm> {
    let fields = value.fields(&["limit", "per", "exact"])?;
    let exact = fields.or("exact", false, Value::boolean);
    let most = if exact == Some(true) { LOG_MAX } else { TOKENS_MAX };
    let limit = fields.required("limit", |value| value.integer(1..=most));
    let per_us = fields.required("per", per_us);
    let (limit, per_us) = (limit?, per_us?);
    Some(match exact? {
        true => Algorithm::SlidingLog(SlidingLog { limit, per_us }),
        false => Algorithm::SlidingWindow(SlidingWindow { limit, per_us }),
    })
}

fn concurrency(value: &Value<'_>) -> Option<Concurrency> {
    let fields = value.fields(&["max", "release_after"])?;
    let max = fields.required("max", |value| value.integer(1..=PLACES_MAX));
    let release_after_us = fields.or("release_after", 60_000_000, |value| value.duration_us(RELEASE_US));
    Some(Concurrency { max: max?, release_after_us: release_after_us? })
}

fn per_us(value: &Value<'_>) -> Option<u64> {
    value.duration_us(WINDOW_MIN_US..=PERIOD_MAX_US)
}

fn window_us(algorithm: &Algorithm) -> Option<u64> {
    match algorithm {
        Algorithm::FixedWindow(window) => Some(window.per_us),
        Algorithm::SlidingWindow(window) => Some(window.per_us),
        Algorithm::SlidingLog(log) => Some(log.per_us),
        _ => None,
    }
}
