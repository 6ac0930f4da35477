//! Whom a limit counts: from named identities to the bytes that tell one client from another.
//!
//! The sources of an identity are tried in order; the first that yields a value wins. Values are bytes and need not
//! be text. Each identity is worked out at most once for a request, each header and property read at most once.
//!
//! | source | value | missing when |
//! |---|---|---|
//! | header | without space around it; with `scheme`, what follows the scheme (any case, any space between) | absent, blank, another scheme, nothing after the scheme |
//! | query | the first parameter of that name with a value, `%` and `+` decoded | absent, blank |
//! | cookie | the first of that name with a value, without double quotes around it; ends at `;` or `,` | absent, blank |
//! | JWT claim, certificate, property | as Envoy gives it (numbers are 8 bytes, lists its pairs format) | absent, blank |
//! | client address | the masked address and its prefix length | never: see [`crate::address`] |
//! | constant | its text | never |
//!
//! A header that comes more than once is the text of all, joined by the proxy. Envoy vouches for what it verified
//! (JWT, certificate, address); a header, query parameter or cookie is the client's own word unless something in
//! front of this filter has checked it.
//!
//! A value of more than [`VALUE_MAX`] bytes is replaced by its SHA-256, marked so that it equals no other value.

pub(crate) mod attribute;
pub(crate) mod key;
mod text;

use crate::address::{self, Client};
use crate::digest::{Digester, field};
use crate::identity::{CertificateField, Identity, IdentityId, Source};
use crate::path;
use crate::pattern::Network;
use attribute::{AttributeId, Attributes, ClientId, Memo, Reader, Span};

/// Longest value that is kept as it is, bytes.
pub const VALUE_MAX: usize = 8_192;

/// An identity's value for the request at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    /// Which source gave it: position in [`Resolver::sources`].
    pub(crate) source: usize,
    pub(crate) span: Span,
    /// It is the SHA-256 of a longer value.
    pub(crate) condensed: bool,
}

/// All identities, ready to be asked.
#[derive(Clone, Debug)]
pub(crate) struct Resolver {
    /// The sources of all identities, one after the other.
    sources: Vec<Place>,
    /// Where each identity's sources are.
    identities: Vec<std::ops::Range<usize>>,
}

/// What one source asks of a request.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Kind and names, unambiguous: values of different sources are never mistaken for each other.
    pub(crate) descriptor: Box<[u8]>,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Header { header: AttributeId, scheme: Option<Box<str>> },
    Query { path: AttributeId, name: Box<str> },
    Cookie { header: AttributeId, name: Box<str> },
    Property(AttributeId),
    ClientIp { client: ClientId, ipv4_prefix: u8, ipv6_prefix: u8 },
    Constant(Box<str>),
}

// === impl Resolver ===

impl Resolver {
    pub(crate) fn new(identities: &[Identity], attributes: &mut Attributes) -> Resolver {
        let mut sources = Vec::new();
        let identities = identities
            .iter()
            .map(|identity| {
                let start = sources.len();
                sources.extend(identity.sources.iter().map(|source| Place::new(source, attributes)));
                start..sources.len()
            })
            .collect();
        Resolver { sources, identities }
    }

    /// The value of an identity; the caller remembers it.
    pub(crate) fn resolve(&self, IdentityId(identity): IdentityId, reader: &mut Reader<'_>) -> Option<Value> {
        let range = self.identities.get(identity)?.clone();
        range.into_iter().find_map(|source| {
            let span = self.sources.get(source)?.value(reader)?;
            if span.len() <= VALUE_MAX {
                return Some(Value { source, span, condensed: false });
            }
            let digest = Digester::condense(reader.memo.bytes(span));
            Some(Value { source, span: reader.memo.keep(&digest), condensed: true })
        })
    }

    /// The source of a value.
    pub(crate) fn descriptor(&self, value: Value) -> &[u8] {
        self.sources.get(value.source).map_or(&[], |place| &place.descriptor)
    }

    /// Positions of the sources of an identity.
    pub(crate) fn sources_of(
        &self,
        IdentityId(identity): IdentityId,
    ) -> impl Iterator<Item = (usize, &Place)> {
        let range = self.identities.get(identity).cloned().unwrap_or_default();
        range.into_iter().filter_map(|source| Some((source, self.sources.get(source)?)))
    }
}

// === impl Place ===

impl Place {
    pub(crate) fn new(source: &Source, attributes: &mut Attributes) -> Place {
        let property = |attributes: &mut Attributes, path: &[&str]| {
            Kind::Property(attributes.property(path.iter().copied()))
        };
        let (number, names, kind): (u8, Vec<&str>, Kind) = match source {
            Source::Header { name, scheme } => (
                1,
                std::iter::once(&**name).chain(scheme.as_deref()).collect(),
                Kind::Header { header: attributes.header(name), scheme: scheme.clone() },
            ),
            Source::Query(name) => {
                (2, vec![name], Kind::Query { path: attributes.header(":path"), name: name.clone() })
            }
            Source::Cookie(name) => {
                (3, vec![name], Kind::Cookie { header: attributes.header("cookie"), name: name.clone() })
            }
            Source::JwtClaim { namespace, payload, path } => {
                let path: Vec<&str> =
                    [&**namespace, payload].into_iter().chain(path.iter().map(|p| &**p)).collect();
                let property = attributes
                    .property(["metadata", "filter_metadata"].into_iter().chain(path.iter().copied()));
                (4, path, Kind::Property(property))
            }
            Source::ClientCertificate(field) => {
                let name = match field {
                    CertificateField::Uri => "uri_san_peer_certificate",
                    CertificateField::Dns => "dns_san_peer_certificate",
                    CertificateField::Subject => "subject_peer_certificate",
                    CertificateField::Digest => "sha256_peer_certificate_digest",
                };
                (5, vec![name], property(attributes, &["connection", name]))
            }
            Source::Property(path) => {
                let path: Vec<&str> = path.iter().map(|part| &**part).collect();
                let kind = property(attributes, &path);
                (6, path, kind)
            }
            Source::ClientIp { trusted_hops, ipv4_prefix, ipv6_prefix } => (
                7,
                Vec::new(),
                Kind::ClientIp {
                    client: attributes.client(*trusted_hops),
                    ipv4_prefix: *ipv4_prefix,
                    ipv6_prefix: *ipv6_prefix,
                },
            ),
            Source::Constant(text) => (8, Vec::new(), Kind::Constant(text.clone())),
        };
        let mut descriptor = vec![number];
        names.into_iter().for_each(|name| field(name.as_bytes(), &mut descriptor));
        Place { descriptor: descriptor.into(), kind }
    }

    /// What this source says about the request.
    pub(crate) fn value(&self, reader: &mut Reader<'_>) -> Option<Span> {
        match &self.kind {
            Kind::Header { header, scheme } => {
                let whole = reader.get(*header)?;
                let text = reader.memo.bytes(whole);
                let found = match scheme {
                    None => text::trimmed(text),
                    Some(scheme) => text::after_scheme(text, scheme),
                };
                found.map(|(offset, len)| Memo::piece(whole, offset, len))
            }
            Kind::Query { path, name } => {
                let whole = reader.get(*path)?;
                reader.memo.keep_from(whole, |path, out| {
                    let value = text::parameter(path::query(path), name)?;
                    out.extend(text::decoded(value));
                    Some(())
                })
            }
            Kind::Cookie { header, name } => {
                let whole = reader.get(*header)?;
                let (offset, len) = text::cookie(reader.memo.bytes(whole), name)?;
                Some(Memo::piece(whole, offset, len))
            }
            Kind::Property(property) => {
                let whole = reader.get(*property)?;
                let blank = reader.memo.bytes(whole).iter().all(|&byte| text::is_space(byte));
                (!blank).then_some(whole)
            }
            Kind::ClientIp { client, ipv4_prefix, ipv6_prefix } => Some(match reader.client(*client) {
                Client::Known(address) => {
                    reader.memo.keep(&network_bytes(Network::of(address, *ipv4_prefix, *ipv6_prefix)))
                }
                Client::Unknown => reader.memo.keep(b"?"),
            }),
            Kind::Constant(text) => Some(reader.memo.keep(text.as_bytes())),
        }
    }

    /// The bytes this source would yield for a value that an operator wrote down.
    pub(crate) fn written(&self, value: &str) -> Option<Vec<u8>> {
        match &self.kind {
            Kind::ClientIp { ipv4_prefix, ipv6_prefix, .. } => {
                let address = address::parse(value.as_bytes())?;
                Some(network_bytes(Network::of(address, *ipv4_prefix, *ipv6_prefix)).to_vec())
            }
            _ => Some(value.as_bytes().to_vec()),
        }
    }
}

/// An address that stands for its network, and how long the prefix is.
fn network_bytes(network: Network) -> [u8; 17] {
    let mut bytes = [network.prefix; 17];
    bytes.iter_mut().zip(network.address.octets()).for_each(|(to, from)| *to = from);
    bytes
}
