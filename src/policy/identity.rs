//! Who is asking: named ways to find out, tried in order.

/// Index into [`crate::policy::Policy::identities`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdentityId(pub usize);

/// A named list of sources; the first that yields a value wins.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// Unique in the policy.
    pub name: Box<str>,
    /// Tried in order; never empty.
    pub sources: Vec<Source>,
}

/// One place where an identity can be found.
///
/// Values from different kinds of source never collide: the digest covers the kind and the name too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A request header, as bytes. Empty and blank count as missing.
    Header {
        /// Lower case.
        name: Box<str>,
        /// Authentication scheme to strip, compared without case (`bearer`); another scheme counts as missing.
        scheme: Option<Box<str>>,
    },
    /// A query parameter, percent-decoded.
    Query(Box<str>),
    /// A cookie.
    Cookie(Box<str>),
    /// A claim that Envoy's `jwt_authn` has verified, from dynamic metadata.
    JwtClaim {
        /// The filter's metadata namespace, `envoy.filters.http.jwt_authn` by default.
        namespace: Box<str>,
        /// The key the payload was stored under (`payload_in_metadata`), `jwt_payload` by default.
        payload: Box<str>,
        /// Path inside the payload.
        path: Vec<Box<str>>,
    },
    /// The client certificate of a verified mTLS connection.
    ClientCertificate(CertificateField),
    /// Any Envoy attribute, as bytes.
    Property(Vec<Box<str>>),
    /// The client's address.
    ClientIp {
        /// Proxies in front that append to `x-forwarded-for`; 0 means the peer's own address.
        trusted_hops: usize,
        /// IPv4 prefix length, 1 to 32.
        ipv4_prefix: u8,
        /// IPv6 prefix length, 1 to 128; 64 by default, since one household owns a /64.
        ipv6_prefix: u8,
    },
    /// A fixed text: one bucket for all.
    Constant(Box<str>),
}

/// Part of a client certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateField {
    /// URI subject alternative name (SPIFFE id).
    Uri,
    /// DNS subject alternative name.
    Dns,
    /// Subject.
    Subject,
    /// SHA-256 of the certificate.
    Digest,
}
