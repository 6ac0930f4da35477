//! A circuit breaker.
