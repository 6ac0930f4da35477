//! Every decision of Sluicegate, and nothing else.
//!
//! What is absent is the point: no clock, no entropy, no I/O, no panic. Time (`now_us`, microseconds) and
//! randomness are arguments, so the same code runs inside Envoy, in the shim, under a simulator and in tests.
//!
//! Modules, in reading order:
//!
//! - [`policy`]: the whole configuration, validated: what every other module reads
//! - [`limit`], [`identity`], [`pattern`], [`class`], [`mode`]: its parts
//! - [`node`], [`config`]: from a document to a policy, every fault reported
//! - [`request`]: what a decision may know about a request
//! - [`path`], [`matcher`]: which limits a request meets
//! - [`address`], [`resolve`], [`digest`], [`tier`]: whom they count
//! - [`algorithm`], [`store`]: the arithmetic of each algorithm, and a bounded store that uses it
//! - [`wire`]: what filter and shim say to each other
//! - [`breaker`], [`batch`], [`denial`], [`lease`], [`bounded`]: the way to the shim, and how not to take it
//! - [`overload`], saturation: the laws that shed
//! - [`gate`]: one request's way through all of it
//! - [`verdict`], [`response`], [`count`]: the answer, what it looks like, and the accounts

#![forbid(unsafe_code)]

pub mod address;
pub mod algorithm;
pub mod batch;
pub mod bounded;
pub mod breaker;
pub mod class;
pub mod config;
pub mod count;
pub mod decimal;
pub mod denial;
pub mod digest;
pub mod gate;
pub mod identity;
pub mod lease;
pub mod limit;
pub mod matcher;
pub mod mode;
pub mod node;
mod order;
pub mod overload;
pub mod path;
pub mod pattern;
pub mod policy;
pub mod request;
pub mod resolve;
pub mod response;
pub mod store;
pub mod tier;
pub mod verdict;
pub mod wire;
