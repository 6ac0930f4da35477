//! The body of refusals.

use super::{Dialect, Field, Response};
use crate::decimal::Decimal;
use crate::policy::Body;

/// Registered problem types of draft-ietf-httpapi-ratelimit-headers.
const PROBLEM_TYPES: &str = "https://iana.org/assignments/http-problem-types#";

/// A refusal before it has a shape.
pub(super) struct Refusal<'a> {
    pub(super) status: u32,
    pub(super) grpc_status: u8,
    /// Fragment of the problem type.
    pub(super) error: &'static str,
    pub(super) title: &'static str,
    /// Names of the refusing limits.
    pub(super) violated: &'a [&'a str],
    pub(super) retry_after_s: u64,
    pub(super) details: &'static str,
}

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
        Response { status: self.status, grpc_status: None, fields, body: text, details: self.details }
    }

    /// A "trailers-only" answer. Envoy writes these fields itself where it sees a gRPC call; where it does not,
    /// they are what a client needs.
    fn render_grpc(&self, mut fields: Vec<Field>) -> Response {
        let mut message = String::from(self.error);
        if !self.violated.is_empty() {
            message.push_str(": ");
            message.push_str(&self.violated.join(", "));
        }
        fields.push(Field::new("content-type", "application/grpc"));
        fields.push(Field::new("grpc-status", self.grpc_status.to_string()));
        fields.push(Field::new("grpc-message", message));
        Response {
            status: 200,
            grpc_status: Some(self.grpc_status),
            fields,
            body: String::new(),
            details: self.details,
        }
    }

    /// RFC 9457. Limit names are `[a-z0-9_-]`, so nothing here needs escaping.
    fn problem(&self) -> String {
        let mut text = String::with_capacity(256);
        let status = Decimal::new(self.status.into());
        for part in [
            "{\"type\":\"",
            PROBLEM_TYPES,
            self.error,
            "\",\"title\":\"",
            self.title,
            "\",\"status\":",
            status.as_str(),
        ] {
            text.push_str(part);
        }
        self.push_violated(&mut text, "violated-policies");
        text.push('}');
        text
    }

    fn json(&self) -> String {
        let mut text = format!("{{\"error\":\"{}\",\"retry_after\":{}", self.error, self.retry_after_s);
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
