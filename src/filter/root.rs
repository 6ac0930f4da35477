//! One plugin in one VM: configuration, ticks, callouts, shared data.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::ContextType;
use sluicegate_policy::config;
use sluicegate_policy::gate::{Callout, Gate, Notice, Step};
use sluicegate_policy::overload::control::Event;
use sluicegate_policy::overload::poll::Poll;
use sluicegate_policy::overload::shared::{Shared as SharedData, Version};
use sluicegate_policy::policy::Policy;
use sluicegate_policy::wire;

use crate::engine::{Call, Engine, Shared};
use crate::host;
use crate::http::{self, Http};

/// How often deadlines of waiting requests are looked at.
const TICK: Duration = Duration::from_millis(20);

/// The same where requests wait for their turn, which should not be much later than it is due.
const TICK_QUEUED: Duration = Duration::from_millis(5);

/// The root context.
pub(crate) struct Root {
    id: u32,
    engine: Shared,
    /// The body of the batch under way, used again.
    body: Vec<u8>,
}

/// The host's shared data.
struct HostData;

// === impl Root ===

impl Root {
    /// A root context without a configuration.
    pub(crate) fn new(id: u32) -> Self {
        Root { id, engine: Rc::new(RefCell::new(None)), body: Vec::new() }
    }

    fn configure(&mut self, policy: Policy) -> bool {
        log::info!("policy {:08x} with {} limits", policy.hash, policy.limits.len());
        let engine = Engine::new(policy, self.id);
        let mut tick = if engine.gate.has_queues() { TICK_QUEUED } else { TICK };
        if let Some(control) = engine.gate.saturation() {
            tick = tick.min(Duration::from_micros(control.tick_us()));
        }
        if let Err(refused) = host::set_tick(tick) {
            log::error!("the host gives no ticks: status {}", refused.0);
            return false;
        }
        *self.engine.borrow_mut() = Some(engine);
        true
    }

    /// Does something with the engine, if there is one.
    fn with<T>(&self, with: impl FnOnce(&mut Engine) -> T) -> Option<T> {
        self.engine.borrow_mut().as_mut().map(with)
    }

    /// Sends batches until none may leave, then finishes the requests that have been decided.
    fn advance(&mut self) {
        let mut body = std::mem::take(&mut self.body);
        loop {
            let callout = self.with(|engine| {
                let now_us = engine.now_us();
                engine.gate.callout(&mut body, now_us)
            });
            let Some(Some(callout)) = callout else { break };
            self.dispatch(callout, &body);
        }
        self.body = body;
        self.finish();
        self.report();
    }

    fn dispatch(&self, callout: Callout, body: &[u8]) {
        let sent = {
            let engine = self.engine.borrow();
            let Some(shim) = engine.as_ref().and_then(|engine| engine.gate.policy().shim.as_ref()) else {
                return;
            };
            let bearer = shim.token.as_ref().map(|token| format!("Bearer {token}"));
            let mut headers = vec![
                (":method", "POST"),
                (":path", wire::TAKE_PATH),
                (":authority", &*shim.authority),
                ("content-type", "application/json"),
            ];
            headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
            // Rounded up: no time at all would mean no timeout.
            let timeout = Duration::from_millis(callout.timeout_us.div_ceil(1_000));
            host::call(&shim.cluster, &headers, body, timeout)
        };
        self.with(|engine| match sent {
            Ok(token) => engine.called(token, Call::Take(callout.batch)),
            Err(_) => {
                let now_us = engine.now_us();
                engine.gate.answer(callout.batch, None, now_us);
            }
        });
    }

    /// Resumes or answers the requests that have been decided. Some may be gone.
    fn finish(&self) {
        while let Some(Some((stream, step))) = self.with(|engine| engine.gate.next_step()) {
            if host::enter(stream).is_err() {
                self.with(|engine| {
                    let (gate, clock) = engine.gate_and_clock();
                    gate.end(stream, clock);
                });
                continue;
            }
            match step {
                Step::Pass => {
                    if let Err(refused) = host::resume_request() {
                        log::error!("a request could not be resumed: status {}", refused.0);
                    }
                }
                Step::Refuse(response) => http::respond(&response),
                Step::Wait => {}
            }
        }
    }

    /// Logs what has changed, once.
    fn report(&self) {
        while let Some(Some(notice)) = self.with(|engine| engine.gate.next_notice()) {
            match notice {
                Notice::DecisionsLost(why) => log::warn!("{why}: limits follow when_unavailable"),
                Notice::DecisionsFound => log::info!("limits are decided by the shim again"),
                Notice::BreakerOpened => {
                    log::warn!("the shim fails: callouts stop, one tries again now and then")
                }
                Notice::BreakerClosed => log::info!("the shim answers: callouts go on"),
            }
        }
    }

    /// Lets saturation control look around, and polls Envoy's stats when it asks for them.
    fn saturation(&self) {
        let tick = self.with(|engine| {
            let now_us = engine.now_us();
            engine.gate.saturation_tick(&mut HostData, now_us)
        });
        let Some(Some(tick)) = tick else { return };
        for event in &tick.events {
            self.with(|engine| log_event(event, &engine.gate));
        }
        if let Some(poll) = tick.poll {
            self.poll(&poll);
        }
    }

    fn poll(&self, poll: &Poll) {
        let headers = [(":method", "GET"), (":path", &*poll.path), (":authority", "envoy-admin")];
        let timeout = Duration::from_millis(poll.timeout_us.div_ceil(1_000));
        let sent = host::call(&poll.cluster, &headers, &[], timeout);
        self.with(|engine| match sent {
            Ok(token) => engine.called(token, Call::Poll),
            Err(_) => {
                let now_us = engine.now_us();
                if let Some(control) = engine.gate.saturation_mut() {
                    control.on_poll(None, now_us);
                }
            }
        });
    }
}

impl Context for Root {
    fn on_http_call_response(&mut self, token: u32, headers: usize, body_len: usize, _: usize) {
        let Some(Some(call)) = self.with(|engine| engine.came_back(token)) else { return };
        let is_ok = headers > 0 && host::callout_header(":status").as_deref() == Some(b"200");
        match call {
            Call::Take(batch) => {
                // Envoy's own error pages lack the marker.
                let is_shim =
                    is_ok && body_len <= wire::BODY_MAX && host::callout_header(wire::MARKER).is_some();
                let body = is_shim.then(host::callout_body);
                self.with(|engine| {
                    let now_us = engine.now_us();
                    engine.gate.answer(batch, body.as_deref(), now_us);
                });
                self.advance();
            }
            Call::Poll => {
                let body = is_ok.then(host::callout_body);
                self.with(|engine| {
                    let now_us = engine.now_us();
                    if let Some(control) = engine.gate.saturation_mut() {
                        control.on_poll(body.as_deref(), now_us);
                    }
                });
            }
        }
    }
}

impl RootContext for Root {
    fn on_configure(&mut self, _: usize) -> bool {
        match config::from_bytes(&host::plugin_configuration()) {
            Ok(policy) => self.configure(policy),
            Err(faults) => {
                for line in faults.to_string().lines() {
                    log::error!("{line}");
                }
                false
            }
        }
    }

    fn on_queue_ready(&mut self, queue: u32) {
        while host::dequeue(queue).is_ok() {}
        self.with(Engine::awake);
        self.advance();
    }

    fn on_tick(&mut self) {
        self.with(|engine| {
            engine.awake();
            let now_us = engine.now_us();
            engine.gate.tick(now_us);
        });
        self.advance();
        self.saturation();
        self.with(|engine| {
            let now_us = engine.now_us();
            engine.metrics.flush(&mut engine.gate, now_us);
        });
    }

    fn create_http_context(&self, id: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Http::new(id, Rc::clone(&self.engine))))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        self.with(|engine| {
            let now_us = engine.now_us();
            engine.metrics.flush_now(&mut engine.gate, now_us);
            engine.metrics.withdraw();
        });
    }
}

fn log_event(event: &Event, gate: &Gate) {
    let cluster = |upstream: &usize| {
        let upstreams = gate.policy().overload.as_ref().map(|overload| &overload.upstreams);
        upstreams.and_then(|list| list.get(*upstream)).map_or("?", |upstream| &*upstream.cluster)
    };
    match event {
        Event::Engaged { upstream, limit } => {
            // As a whole number: the code that writes fractions is 10 KiB of wasm.
            let limit = limit.round() as u64;
            log::warn!("{} is saturated at {limit} requests in flight: shedding begins", cluster(upstream));
        }
        Event::Released { upstream } => log::info!("{} has room again: shedding ends", cluster(upstream)),
        Event::Leading => log::info!("this worker polls Envoy's stats"),
        Event::PollLost => log::warn!("Envoy's stats cannot be had: own counts are used"),
        Event::PollFound => log::info!("Envoy's stats can be had again"),
    }
}

// === impl HostData ===

impl SharedData for HostData {
    fn read(&self, key: &str) -> Option<(Vec<u8>, Version)> {
        host::shared(key).filter(|(value, _)| !value.is_empty())
    }

    fn write(&mut self, key: &str, value: &[u8], version: Option<Version>) -> bool {
        host::set_shared(key, value, version).is_ok()
    }
}
