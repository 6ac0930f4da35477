//! Known denials.
