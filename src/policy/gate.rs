//! One request's way through.
