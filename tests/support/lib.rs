//! What the tests share: a fake Envoy and a real one, Redis, the shim, an upstream.
//!
//! Every process is a child with its own handle and ends with it; every port is picked free.

pub mod client;
pub mod clock;
pub mod envoy;
pub mod host;
pub mod meddler;
pub mod pki;
pub mod redis;
pub mod shim;
pub mod upstream;
