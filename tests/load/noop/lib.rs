//! The price of Wasm alone: a filter that reads two headers and passes. What the benchmark compares with.
//!
//! Its configuration makes it do the least of something else: `deny` answers every request as a denial is answered, and
//! `callout` with the name of a cluster makes one callout for each request and passes when it is answered, which is
//! what a filter without batches, leases or memory costs.

use std::hint::black_box;
use std::rc::Rc;
use std::time::Duration;

use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, ContextType};

#[allow(missing_docs, reason = "the macro makes functions for the host")]
mod start {
    proxy_wasm::main! {{
        proxy_wasm::set_root_context(|_| Box::<super::Root>::default());
    }}
}

#[derive(Default)]
struct Root {
    task: Task,
}

struct Request {
    task: Task,
}

/// What is done with a request.
#[derive(Clone, Default)]
enum Task {
    #[default]
    Pass,
    Deny,
    /// Ask this cluster.
    Callout(Rc<str>),
}

/// As many fields as our filter answers, and about as many octets.
const DENIAL: [(&str, &str); 7] = [
    ("retry-after", "3600"),
    ("cache-control", "no-store"),
    ("x-envoy-ratelimited", "true"),
    ("ratelimit-limit", "1"),
    ("ratelimit-remaining", "0"),
    ("ratelimit-reset", "3600"),
    ("content-type", "application/problem+json"),
];
const DENIAL_BODY: &[u8] = &[b'x'; 200];

/// Longest wait for a callout.
const TIMEOUT: Duration = Duration::from_secs(1);

// === impl Root ===

impl Context for Root {}

impl RootContext for Root {
    fn on_configure(&mut self, _: usize) -> bool {
        let text = self.get_plugin_configuration().and_then(|bytes| String::from_utf8(bytes).ok());
        let text = text.unwrap_or_default();
        self.task = match text.split_once(' ') {
            Some(("callout", cluster)) => Task::Callout(cluster.into()),
            _ if text == "deny" => Task::Deny,
            _ => Task::Pass,
        };
        true
    }

    fn create_http_context(&self, _: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Request { task: self.task.clone() }))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}

// === impl Request ===

impl Context for Request {
    fn on_http_call_response(&mut self, _: u32, _: usize, _: usize, _: usize) {
        self.resume_http_request();
    }
}

impl HttpContext for Request {
    fn on_http_request_headers(&mut self, _: usize, _: bool) -> Action {
        let path = self.get_http_request_header_bytes(":path");
        black_box((path, self.get_http_request_header_bytes("x-api-key")));
        match &self.task {
            Task::Pass => Action::Continue,
            Task::Deny => {
                self.send_http_response(429, DENIAL.to_vec(), Some(DENIAL_BODY));
                Action::Pause
            }
            Task::Callout(cluster) => {
                let headers = vec![(":method", "GET"), (":path", "/"), (":authority", "callout")];
                match self.dispatch_http_call(cluster, headers, None, Vec::new(), TIMEOUT) {
                    Ok(_) => Action::Pause,
                    Err(_) => Action::Continue,
                }
            }
        }
    }
}
