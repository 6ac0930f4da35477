//! The shim through its real ports, against a real Redis.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "shim/abuse.rs"]
mod abuse;
#[path = "shim/admin.rs"]
mod admin;
#[path = "shim/batches.rs"]
mod batches;
#[path = "shim/faults.rs"]
mod faults;
#[path = "shim/manual.rs"]
mod manual;
#[path = "shim/process.rs"]
mod process;
#[path = "shim/rig.rs"]
mod rig;
