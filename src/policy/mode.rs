//! Whether a limit or the control of saturation acts, or only counts what it would do.

/// Whether refusals are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Refusals are carried out.
    Enforce,
    /// Refusals are counted as `would_limit` or `would_shed`, the request passes.
    Shadow,
    /// Refusals are carried out for this share of requests, hundredths of a percent, 1 to 9,999.
    Percent(u32),
}
