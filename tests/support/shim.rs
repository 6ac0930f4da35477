//! The shim, as a process.
