//! A queueing model of clients, Envoy and upstream on a virtual clock, which drives the very code that sheds in Envoy.
//!
//! What it is for: to compare laws, to find their weak spots before a live test does, and to keep them where they are:
//! it is deterministic by seed and takes seconds. What it leaves out: the cost of a request in the proxy (a shed is
//! free here), the kernel, and connections that close when idle. The live test decides.
//!
//! Modules, in reading order:
//!
//! - [`scenario`]: what is simulated
//! - [`world`]: the event loop: arrivals, retries, clients that give up
//! - [`upstream`], [`pool`]: a first come, first served service; Envoy's connection pools before it
//! - [`system`], [`sluicegate`], [`baseline`]: who decides: ours, and what it is compared with
//! - [`outcome`]: what came of it
//! - [`figures`]: what of it goes into a table
//! - [`grid`]: every scenario that is looked at

#![forbid(unsafe_code)]
#![allow(
    clippy::indexing_slicing,
    reason = "a simulator that is wrong should stop, and nobody is served by it"
)]

pub mod baseline;
pub mod figures;
pub mod grid;
pub mod outcome;
pub mod pool;
pub mod scenario;
pub mod sluicegate;
pub mod system;
pub mod upstream;
pub mod world;
