//! `lua/take.lua` on a real Redis, compared answer by answer with the Rust store; what it leaves behind there.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "lua/agree.rs"]
mod agree;
#[path = "cases/algorithms.rs"]
mod cases;
#[path = "lua/expiry.rs"]
mod expiry;
#[path = "lua/memory.rs"]
mod memory;
#[path = "lua/rig.rs"]
mod rig;
#[path = "lua/slots.rs"]
mod slots;
