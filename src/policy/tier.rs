//! Per-identity changes of limits.
