//! The price of Wasm alone: a filter that reads two headers and passes. What the benchmark compares with.
//!
//! With the name of a cluster as its configuration it makes one callout for each request and passes when it is
//! answered: what a filter without batches, leases or memory costs.

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
    cluster: Option<Rc<str>>,
}

struct Request {
    cluster: Option<Rc<str>>,
}

/// Longest wait for a callout.
const TIMEOUT: Duration = Duration::from_secs(1);

// === impl Root ===

impl Context for Root {}

impl RootContext for Root {
    fn on_configure(&mut self, _: usize) -> bool {
        let text = self.get_plugin_configuration().and_then(|bytes| String::from_utf8(bytes).ok());
        self.cluster = text.filter(|cluster| !cluster.is_empty()).map(Rc::from);
        true
    }

    fn create_http_context(&self, _: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Request { cluster: self.cluster.clone() }))
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
        let Some(cluster) = &self.cluster else { return Action::Continue };
        let headers = vec![(":method", "GET"), (":path", "/"), (":authority", "callout")];
        match self.dispatch_http_call(cluster, headers, None, Vec::new(), TIMEOUT) {
            Ok(_) => Action::Pause,
            Err(_) => Action::Continue,
        }
    }
}
