//! A real Redis.
