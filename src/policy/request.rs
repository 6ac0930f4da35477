//! What a decision may know about a request.

use std::borrow::Cow;

/// Read access to a request. The filter implements it over Envoy, tests over a map.
///
/// Values are bytes, since header octets need not be UTF-8. Every call may cost a call into the host, so a policy
/// asks only for what it needs and each thing once.
pub trait Request {
    /// A header by lower-case name (`:path`, `:method` and `:authority` included); repeated fields are joined
    /// with a comma, as the proxy does.
    fn header(&self, name: &str) -> Option<Cow<'_, [u8]>>;

    /// An Envoy attribute by path.
    fn property(&self, path: &[&str]) -> Option<Vec<u8>>;
}
