//! The whole chain: a real Envoy with the shipped filter, the shim, a real Redis, an upstream that counts.
#![cfg(not(target_arch = "wasm32"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and reads the clock"
)]

mod accounts;
mod change;
mod dialects;
mod exact;
mod fields;
mod fleet;
mod gone;
mod matching;
mod octets;
mod outages;
mod places;
mod quickstart;
mod refused;
mod rig;
mod shared;
mod store;
mod vouched;
mod workers;
