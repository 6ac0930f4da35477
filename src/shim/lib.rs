//! The server between filter and Redis, and the command line of Sluicegate.
//!
//! Modules, in reading order:
//!
//! - [`cli`], [`settings`], [`address`], [`token`]: what the server runs with
//! - [`server`], [`listener`], [`process`]: accepting, serving, stopping
//! - [`public`], [`bounds`]: what filters ask, and what a batch may look like
//! - [`store`], [`script`]: where tokens are counted: in memory, in Redis, behind Sentinel, in a Cluster
//! - [`overrides`], [`admin`]: what operators ask
//! - [`metrics`], [`histogram`], [`log`]: what is seen of it
//! - [`document`], [`check`], [`explain`]: policies in files

#![forbid(unsafe_code)]

pub mod address;
pub mod admin;
pub mod bounds;
pub mod check;
pub mod cli;
mod describe;
pub mod document;
pub mod explain;
pub mod histogram;
pub mod listener;
pub mod log;
pub mod metrics;
pub mod overrides;
pub mod process;
pub mod public;
pub mod script;
pub mod server;
pub mod settings;
pub mod store;
pub mod token;
