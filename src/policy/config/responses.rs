//! The shape of answers: `responses`.

use super::value::Value;
use super::words::group;
use crate::node::Node;
use crate::policy::{Body, FieldStyle, Responses};

/// Longest own body, bytes.
const BODY_MAX: usize = 4_096;

/// A policy without `responses`.
pub(super) fn absent() -> Responses {
    Responses {
        fields: vec![FieldStyle::Triple],
        on_allow: true,
        body: Body::Problem,
        retry_after_jitter_percent: 0,
    }
}

pub(super) fn responses(value: &Value<'_>) -> Option<Responses> {
    let default = absent();
    let fields = value.fields(&["ratelimit_headers", "on_allow", "body", "retry_after_jitter_percent"])?;
    let styles = fields.or("ratelimit_headers", default.fields, styles);
    let on_allow = fields.or("on_allow", default.on_allow, Value::boolean);
    let body = fields.or("body", default.body, body);
    let jitter = fields.or("retry_after_jitter_percent", default.retry_after_jitter_percent, |value| {
        u8::try_from(value.integer(0..=100)?).ok()
    });
    Some(Responses { fields: styles?, on_allow: on_allow?, body: body?, retry_after_jitter_percent: jitter? })
}

fn styles(value: &Value<'_>) -> Option<Vec<FieldStyle>> {
    let words = [
        ("triple", Some(FieldStyle::Triple)),
        ("x-ratelimit", Some(FieldStyle::XRateLimit)),
        ("draft-11", Some(FieldStyle::Draft11)),
        ("draft-12", Some(FieldStyle::Draft12)),
        ("none", None),
    ];
    let styles = value.one_or_each(words.len(), |value| value.choice(&words))?;
    let repeated =
        styles.iter().enumerate().any(|(index, style)| styles.iter().take(index).any(|s| s == style));
    let fault = if repeated {
        "a convention stands here twice"
    } else if 1 < styles.len() && styles.contains(&None) {
        "`none` stands alone"
    } else if styles.contains(&Some(FieldStyle::Draft11)) && styles.contains(&Some(FieldStyle::Draft12)) {
        "`draft-11` and `draft-12` use the same field names and exclude each other"
    } else {
        return Some(styles.into_iter().flatten().collect());
    };
    value.fault(fault);
    None
}

fn body(value: &Value<'_>) -> Option<Body> {
    if !matches!(value.node, Node::Map(_)) {
        return match value
            .choice_or(&[("problem", 0), ("json", 1), ("none", 2)], &["{content_type: ..., text: ...}"])?
        {
            0 => Some(Body::Problem),
            1 => Some(Body::Json),
            _ => Some(Body::None),
        };
    }
    let fields = value.fields(&["content_type", "text"])?;
    let content_type = fields.required("content_type", |value| {
        let text = value.text("a content type")?;
        match text.contains('/') && text.bytes().all(|b| (b' '..=b'~').contains(&b)) {
            true => Some(text),
            false => value.expected("a content type such as \"text/plain\""),
        }
    });
    let text = fields.required("text", |value| {
        let text = value.any_text("text")?;
        if BODY_MAX < text.len() {
            value.fault(format!("expected at most {} bytes, found {}", group(BODY_MAX as u64), text.len()));
            return None;
        }
        Some(text)
    });
    Some(Body::Own { content_type: content_type?.into(), text: text?.into() })
}
