//! A bounded store.
