//! A fake Envoy: runs the shipped module under an interpreter.
