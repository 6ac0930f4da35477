//! The accounts.
