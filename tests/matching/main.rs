//! Which limits a request meets, and whom they count. Pure: the same tests run natively and in wasm.

mod address;
mod exempt;
mod identity;
mod key;
mod limits;
mod path;
#[cfg(not(target_arch = "wasm32"))]
#[cfg(test)]
mod properties;
mod setup;
mod tier;
