//! The stores as operators run them: a Cluster, a master with sentinels, TLS and logins, clocks that are wrong. Each test
//! starts the shipped shim and real servers.
#![cfg(not(target_arch = "wasm32"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]
#![allow(clippy::disallowed_methods, reason = "real servers are timed by the real clock")]

mod clock;
mod cluster;
mod load;
mod manual;
#[path = "../shim/rig.rs"]
mod rig;
mod secrets;
mod sentinel;
