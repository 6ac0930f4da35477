//! The server between filter and Redis.
