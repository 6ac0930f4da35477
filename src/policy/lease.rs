//! Tokens taken ahead of time.
