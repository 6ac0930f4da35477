//! The body of refusals.

use super::{Dialect, Field, Response};
use crate::policy::Body;

/// What all refusals of a kind have in common.
pub(super) struct Kind {
    status: u32,
    grpc_status: u8,
    /// Fragment of the problem type.
    error: &'static str,
    /// The beginning of the problem document.
    problem: &'static str,
    details: &'static str,
}

/// A refusal before it has a shape.
pub(super) struct Refusal<'a> {
    pub(super) kind: &'static Kind,
    /// Names of the refusing limits.
    pub(super) violated: &'a [&'a str],
    pub(super) retry_after_s: u64,
}

/// RFC 9457, with a problem type registered by draft-ietf-httpapi-ratelimit-headers.
macro_rules! problem {
    ($error:literal, $title:literal, $status:literal) => {
        concat!(
            "{\"type\":\"https://iana.org/assignments/http-problem-types#",
            $error,
            "\",\"title\":\"",
            $title,
            "\",\"status\":",
            $status
        )
    };
}

/// A limit is used up.
pub(super) const QUOTA_EXCEEDED: Kind = Kind {
    status: 429,
    grpc_status: super::GRPC_RESOURCE_EXHAUSTED,
    error: "quota-exceeded",
    problem: problem!(
        "quota-exceeded",
        "Request cannot be satisfied as assigned quota has been exceeded",
        429
    ),
    details: "sluicegate_quota_exceeded",
};

/// The upstream could not answer in time.
pub(super) const SATURATED: Kind = Kind {
    status: 503,
    grpc_status: super::GRPC_UNAVAILABLE,
    error: "temporary-reduced-capacity",
    problem: problem!(
        "temporary-reduced-capacity",
        "Request cannot be satisfied due to temporary server capacity constraints",
        503
    ),
    details: "sluicegate_saturated",
};

// === impl Refusal ===

impl Refusal<'_> {
    pub(super) fn render(&self, body: &Body, dialect: Dialect, mut fields: Vec<Field>) -> Response {
        if dialect.grpc {
            return self.render_grpc(fields);
        }
        let text = match body {
            Body::Problem => {
                fields.push(Field::new("content-type", "application/problem+json"));
                self.problem()
            }
            Body::Json => {
                fields.push(Field::new("content-type", "application/json"));
                self.json()
            }
            Body::None => String::new(),
            Body::Own { content_type, text } => {
                fields.push(Field::new("content-type", content_type.to_string()));
                text.to_string()
            }
        };
        let &Kind { status, details, .. } = self.kind;
        Response { status, grpc_status: None, fields, body: text, details }
    }

    /// A "trailers-only" answer. Envoy writes these fields itself where it sees a gRPC call; where it does not,
    /// they are what a client needs.
    fn render_grpc(&self, mut fields: Vec<Field>) -> Response {
        let &Kind { grpc_status, error, details, .. } = self.kind;
        let mut message = String::from(error);
        if !self.violated.is_empty() {
            message.push_str(": ");
            message.push_str(&self.violated.join(", "));
        }
        fields.push(Field::new("content-type", "application/grpc"));
        fields.push(Field::new("grpc-status", u64::from(grpc_status)));
        fields.push(Field::new("grpc-message", message));
        Response { status: 200, grpc_status: Some(grpc_status), fields, body: String::new(), details }
    }

    /// Limit names are `[a-z0-9_-]`, so nothing here needs escaping.
    fn problem(&self) -> String {
        let mut text = String::with_capacity(256);
        text.push_str(self.kind.problem);
        self.push_violated(&mut text, "violated-policies");
        text.push('}');
        text
    }

    fn json(&self) -> String {
        let mut text = format!("{{\"error\":\"{}\",\"retry_after\":{}", self.kind.error, self.retry_after_s);
        self.push_violated(&mut text, "limits");
        text.push('}');
        text
    }

    fn push_violated(&self, text: &mut String, member: &str) {
        let mut open = [",\"", member, "\":[\""];
        for name in self.violated {
            open.iter().for_each(|part| text.push_str(part));
            text.push_str(name);
            open = ["\",", "\"", ""];
        }
        if !self.violated.is_empty() {
            text.push_str("\"]");
        }
    }
}
