//! The server between filter and Redis.

pub mod check;
pub mod document;
pub mod script;
