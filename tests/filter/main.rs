//! The shipped module under a fake Envoy: a request's way, seen from outside.
#![cfg(not(target_arch = "wasm32"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod cost;
mod faults;
mod module;
mod requests;
mod talk;
