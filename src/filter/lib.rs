//! The Envoy side of Sluicegate.
//!
//! Decisions are made in `sluicegate-policy`; here is only what carries them out. In reading order:
//!
//! - `host`: everything the proxy offers, and the only file that names hostcalls
//! - `http`: one request: headers in, action out
//! - `root`: one plugin in one VM: configuration, ticks, callouts, shared data
//! - `engine`: what the two share
//! - `metrics`, `clock`, `random`: accounts, time and chance

#![allow(missing_docs, reason = "what the macro exports is for the host alone")]

mod clock;
mod engine;
mod host;
mod http;
mod metrics;
mod random;
mod root;

use proxy_wasm::traits::RootContext;

proxy_wasm::main! {{
    host::install_logger();
    proxy_wasm::set_root_context(|id| -> Box<dyn RootContext> { Box::new(root::Root::new(id)) });
}}

// The wasm target has no entropy of its own; the proxy supplies it through WASI.
#[cfg(target_arch = "wasm32")]
getrandom::register_custom_getrandom!(host::fill_random);
