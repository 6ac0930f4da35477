//! A document as a tree.
