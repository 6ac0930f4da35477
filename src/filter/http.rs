//! One request: headers in, action out.

use std::borrow::Cow;
use std::cell::OnceCell;

use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::Action;
use sluicegate_policy::gate::{ResponseFields, Step};
use sluicegate_policy::request::Request;
use sluicegate_policy::response::Response;

use crate::engine::Shared;
use crate::host::{self, HeaderMap};

/// A request. What is known of it is kept by the gate, under the number of its context.
pub(crate) struct Http {
    id: u32,
    engine: Shared,
}

/// The headers and attributes of the current request, the headers read with the first of them.
#[derive(Default)]
struct HostRequest(OnceCell<HeaderMap>);

/// The fields of the current response, read with the first of them.
#[derive(Default)]
struct HostResponse(OnceCell<HeaderMap>);

// === impl Http ===

impl Http {
    /// A request that has not begun yet.
    pub(crate) fn new(id: u32, engine: Shared) -> Self {
        Http { id, engine }
    }

    fn begin(&self) -> (Step, Option<u32>) {
        let mut engine = self.engine.borrow_mut();
        let Some(engine) = engine.as_mut() else { return (Step::Pass, None) };
        let now_us = engine.now_us();
        let random = engine.random.next();
        let step = engine.gate.begin(&HostRequest::default(), self.id, now_us, random);
        (step, engine.wake())
    }

    fn end(&self) {
        // Borrowed only if the host ends a request inside a callback of another, and then nothing can be done.
        let Ok(mut engine) = self.engine.try_borrow_mut() else { return };
        let Some(engine) = engine.as_mut() else { return };
        let (gate, clock) = engine.gate_and_clock();
        gate.end(self.id, clock);
        let queue = engine.wake();
        wake(queue);
    }

    fn hold(&self) -> Action {
        let engine = self.engine.borrow();
        let held = engine.as_ref().is_some_and(|engine| engine.gate.is_holding(self.id));
        if held { Action::Pause } else { Action::Continue }
    }
}

impl Context for Http {}

impl HttpContext for Http {
    fn on_http_request_headers(&mut self, _: usize, _: bool) -> Action {
        let (step, queue) = self.begin();
        wake(queue);
        match step {
            Step::Pass => Action::Continue,
            Step::Wait => Action::Pause,
            Step::Refuse(response) => {
                respond(&response);
                Action::Pause
            }
        }
    }

    // While a decision is pending the body must not carry the request past it.
    fn on_http_request_body(&mut self, _: usize, _: bool) -> Action {
        self.hold()
    }

    fn on_http_request_trailers(&mut self, _: usize) -> Action {
        self.hold()
    }

    // Local replies, our own ones too, come by here: the gate knows which request has an answer of its upstream.
    fn on_http_response_headers(&mut self, _: usize, _: bool) -> Action {
        if let Some(engine) = self.engine.borrow_mut().as_mut() {
            let (gate, clock) = engine.gate_and_clock();
            gate.response(self.id, &HostResponse::default(), clock);
        }
        Action::Continue
    }
}

// The end of a request is the end of its context: the callbacks that Envoy makes just before, for access logs, would
// be calls into the VM that tell nothing new.

impl Drop for Http {
    fn drop(&mut self) {
        self.end();
    }
}

/// Gives the current or entered request this answer.
pub(crate) fn respond(response: &Response) {
    let fields = response.fields.iter().map(|field| (field.name, field.value.as_bytes()));
    let sent = host::respond(response.status, response.details, fields, &response.body, response.grpc_status);
    if let Err(refused) = sent {
        log::error!("a refusal could not be sent: status {}", refused.0);
    }
}

fn wake(queue: Option<u32>) {
    if let Some(queue) = queue
        && let Err(refused) = host::enqueue(queue, &[1])
    {
        // The next tick sends the batch instead.
        log::debug!("the queue refused: status {}", refused.0);
    }
}

// === impl HostRequest ===

impl Request for HostRequest {
    fn header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.0.get_or_init(host::request_headers).get(name)
    }

    fn property(&self, path: &[&str]) -> Option<Vec<u8>> {
        host::property(path)
    }
}

// === impl HostResponse ===

impl ResponseFields for HostResponse {
    fn field(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.0.get_or_init(host::response_headers).get(name)
    }

    fn set(&self, name: &str, value: &[u8]) {
        // A field that cannot be set is left out; the response goes on.
        let _ = host::set_response_header(name, value);
    }
}
