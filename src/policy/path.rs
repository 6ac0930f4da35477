//! Paths, normalised for matching.
