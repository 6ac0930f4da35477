//! Client addresses.
