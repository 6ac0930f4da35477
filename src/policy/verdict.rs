//! The answer to one request.

/// How one limit stands after a take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The limit would let the request pass.
    pub allowed: bool,
    /// Tokens granted: the cost, or less for a lease that asked for "at least".
    pub granted: u64,
    /// Tokens left, never negative.
    pub remaining: u64,
    /// Time until the key is as good as new, microseconds.
    pub reset_us: u64,
    /// Time until the same ask could pass if nobody else uses the key, microseconds; 0 when allowed,
    /// [`crate::algorithm::NEVER_US`] when it asks for more than the limit ever has. For concurrency a hint: a
    /// place comes back when some request ends, so it must not be remembered as a refusal.
    pub retry_after_us: u64,
    /// Time the request has to wait before it goes on (leaky bucket), microseconds.
    pub delay_us: u64,
}

/// Why saturation refused. The name appears in metrics and in `x-shed-reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShedReason {
    /// No room for this class under the current limit.
    Saturation,
    /// It could not be answered in the time its caller will wait.
    Deadline,
    /// The hard bound on requests in flight.
    HardCap,
    /// No decision could be had and the limit says `deny`.
    Unavailable,
}

impl ShedReason {
    /// All reasons; `ALL[reason.index()] == reason`.
    pub const ALL: [ShedReason; 4] =
        [ShedReason::Saturation, ShedReason::Deadline, ShedReason::HardCap, ShedReason::Unavailable];

    /// Position in [`ShedReason::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// The name used in metrics and responses.
    pub fn name(self) -> &'static str {
        match self {
            ShedReason::Saturation => "saturation",
            ShedReason::Deadline => "deadline",
            ShedReason::HardCap => "hardcap",
            ShedReason::Unavailable => "unavailable",
        }
    }
}
