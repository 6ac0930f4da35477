//! An upstream that counts what reaches it.
