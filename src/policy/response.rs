//! What an answer looks like.
