//! From a document to a policy.
