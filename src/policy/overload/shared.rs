//! What the workers of one Envoy share: a map of bytes, as proxy-wasm's shared data is.

/// A version of a value, for compare and swap.
pub type Version = u32;

/// Shared data. The filter implements it over the host, the simulator over a map.
pub trait Shared {
    /// The value and its version; `None` when the key was never written. An empty value reads as `None`.
    fn read(&self, key: &str) -> Option<(Vec<u8>, Version)>;

    /// Writes if the version is still this one; without a version, always. False when somebody was faster.
    ///
    /// Two workers that both find no value both succeed, the later one stays: so whoever claims something reads
    /// it again before believing it.
    fn write(&mut self, key: &str, value: &[u8], version: Option<Version>) -> bool;
}
