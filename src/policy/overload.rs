//! Saturation: how much the upstream can finish in time, and who goes first when that is not enough.

pub mod arrival;
pub mod control;
pub mod shared;
