//! Keys that carry no client text.
