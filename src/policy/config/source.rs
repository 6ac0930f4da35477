//! Who is asking: `identities`, and the sources that tiers use too.

use super::attribute;
use super::fields::Fields;
use super::value::Value;
use super::words::is_name;
use crate::identity::{CertificateField, Identity, Source};
use crate::node::Node;

/// Most identities in a policy.
const IDENTITIES_MAX: usize = 100;

/// Most sources in one identity.
const SOURCES_MAX: usize = 16;

/// The identity that is always there: one count for everybody.
pub(super) const EVERYONE: &str = "everyone";

const KINDS: &[&str] =
    &["header", "query", "cookie", "jwt_claim", "client_certificate", "property", "client_ip", "constant"];

/// The identities as far as they could be read.
pub(super) struct Identities<'a> {
    /// All names, those of faulty identities too, so that a limit that uses one is not blamed.
    pub(super) names: Vec<&'a str>,
    pub(super) identities: Option<Vec<Identity>>,
}

pub(super) fn identities<'a>(fields: &Fields<'a>) -> Identities<'a> {
    let entries = match fields.get("identities") {
        None => Some(Vec::new()),
        Some(value) => value.entries(IDENTITIES_MAX),
    };
    let Some(mut entries) = entries else {
        return Identities { names: Vec::new(), identities: None };
    };
    let read: Vec<Option<Identity>> = entries.iter().map(|(name, value)| identity(name, value)).collect();
    let mut names: Vec<&str> = entries.drain(..).map(|(name, _)| name).collect();
    let mut identities: Option<Vec<Identity>> = read.into_iter().collect();
    if !names.contains(&EVERYONE) {
        names.push(EVERYONE);
        identities = identities.map(|mut identities| {
            identities
                .push(Identity { name: EVERYONE.into(), sources: vec![Source::Constant(EVERYONE.into())] });
            identities
        });
    }
    Identities { names, identities }
}

/// A source, or a list of them.
pub(super) fn sources(value: &Value<'_>) -> Option<Vec<Source>> {
    value.one_or_each(SOURCES_MAX, source)
}

fn identity(name: &str, value: &Value<'_>) -> Option<Identity> {
    if !is_name(name, 64) {
        value.fault(
            "expected a name of at most 64 lower-case letters, digits, `-` and `_` that begins with a letter or digit",
        );
    }
    value.about(format!("identity \"{name}\""));
    Some(Identity { name: name.into(), sources: sources(value)? })
}

fn source(value: &Value<'_>) -> Option<Source> {
    let fields = value.fields(KINDS)?;
    let (kind, value) = fields.one_of(KINDS)?;
    match kind {
        "header" => header(&value),
        "query" => named(&value, "a parameter name").map(Source::Query),
        "cookie" => named(&value, "a cookie name").map(Source::Cookie),
        "jwt_claim" => jwt_claim(&value),
        "client_certificate" => value
            .choice(&[
                ("uri", CertificateField::Uri),
                ("dns", CertificateField::Dns),
                ("subject", CertificateField::Subject),
                ("digest", CertificateField::Digest),
            ])
            .map(Source::ClientCertificate),
        "property" => attribute::path(&value).map(Source::Property),
        "client_ip" => client_ip(&value),
        _ => value.text("text").map(|text| Source::Constant(text.into())),
    }
}

fn header(value: &Value<'_>) -> Option<Source> {
    if is_text(value) {
        return Some(Source::Header { name: header_name(value)?, scheme: None });
    }
    let fields = value.fields(&["name", "scheme"])?;
    let name = fields.required("name", header_name);
    let scheme = fields.optional("scheme", |value| {
        let scheme = value.text("an authentication scheme")?;
        if !scheme.bytes().all(is_token) {
            return value.expected("an authentication scheme such as \"bearer\"");
        }
        Some(scheme.to_ascii_lowercase().into())
    });
    Some(Source::Header { name: name?, scheme: scheme? })
}

fn named(value: &Value<'_>, what: &str) -> Option<Box<str>> {
    if is_text(value) {
        return Some(value.text(what)?.into());
    }
    value.fields(&["name"])?.required("name", |value| Some(value.text(what)?.into()))
}

fn jwt_claim(value: &Value<'_>) -> Option<Source> {
    const NAMESPACE: &str = "envoy.filters.http.jwt_authn";
    const PAYLOAD: &str = "jwt_payload";
    if is_text(value) {
        let claim = value.text("a claim")?;
        return Some(Source::JwtClaim {
            namespace: NAMESPACE.into(),
            payload: PAYLOAD.into(),
            path: vec![claim.into()],
        });
    }
    let fields = value.fields(&["path", "namespace", "payload"])?;
    let path =
        fields.required("path", |value| value.one_or_each(16, |step| step.text("a claim").map(Box::from)));
    let namespace = fields.or("namespace", NAMESPACE, |value| value.text("a metadata namespace"));
    let payload = fields.or("payload", PAYLOAD, |value| value.text("a metadata key"));
    Some(Source::JwtClaim { namespace: namespace?.into(), payload: payload?.into(), path: path? })
}

fn client_ip(value: &Value<'_>) -> Option<Source> {
    let fields = value.fields(&["trusted_hops", "ipv4_prefix", "ipv6_prefix"])?;
    let trusted_hops = fields.or("trusted_hops", 0, |value| value.size(0..=32));
    let prefix = |name, default, max| {
        fields.or(name, default, move |value: &Value<'_>| u8::try_from(value.integer(1..=max)?).ok())
    };
    let (ipv4_prefix, ipv6_prefix) = (prefix("ipv4_prefix", 32, 32), prefix("ipv6_prefix", 64, 128));
    Some(Source::ClientIp {
        trusted_hops: trusted_hops?,
        ipv4_prefix: ipv4_prefix?,
        ipv6_prefix: ipv6_prefix?,
    })
}

/// A header's name, in lower case; pseudo headers such as `:path` too.
pub(super) fn header_name(value: &Value<'_>) -> Option<Box<str>> {
    let name = value.text("a header name")?;
    let plain = name.strip_prefix(':').unwrap_or(name);
    if plain.is_empty() || 256 < name.len() || !plain.bytes().all(is_token) {
        return value.expected("a header name");
    }
    Some(name.to_ascii_lowercase().into())
}

/// A character of a token: RFC 9110, section 5.6.2.
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_text(value: &Value<'_>) -> bool {
    matches!(value.node, Node::Text(_))
}
