//! Overrides as stores keep them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sluicegate_policy::wire::WireAlgorithm;

/// Most overrides at once.
pub const OVERRIDES_MAX: usize = 10_000;

/// Longest life of an override, seconds: a year.
pub const LIFE_MAX_S: u64 = 366 * 86_400;

/// Whose numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Subject {
    /// Namespace of the policy.
    pub namespace: Box<str>,
    /// Name of the limit.
    pub limit: Box<str>,
    /// Key as the filter sends it: a digest.
    pub key: Box<str>,
}

/// An override as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// Whose numbers.
    pub subject: Subject,
    /// What they are.
    pub numbers: WireAlgorithm,
    /// What is left of its life.
    pub left: Duration,
}

/// All overrides at one version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Changes with every change; 0 means there never was one.
    pub version: u64,
    /// In no order.
    pub overrides: Vec<Override>,
}
