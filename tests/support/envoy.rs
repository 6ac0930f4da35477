//! A real Envoy with the shipped filter.
