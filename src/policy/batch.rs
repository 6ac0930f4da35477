//! Takes gathered into callouts.
