//! Which limits a request meets.
