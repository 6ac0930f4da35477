//! Whom a limit counts.
