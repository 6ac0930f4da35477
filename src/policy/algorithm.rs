//! The arithmetic of each algorithm.
