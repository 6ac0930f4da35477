//! Keys that carry no client text.
//!
//! What a limit counts is a list of parts: where each value came from, and its bytes. Parts are joined by length,
//! not by a separator, so no two lists give one encoding (<https://github.com/kgateway-dev/kgateway/issues/3801>):
//!
//! ```text
//! count:u8  { len:u32 source  form:u8  len:u32 value }*      integers little-endian
//! ```
//!
//! The encoding never leaves the process. Inside the VM a key is a [`Fingerprint`]: SipHash-1-3-128 under a random
//! key, since clients choose the values and must not be able to choose collisions. On the wire and in Redis it is a
//! [`WireKey`]: HMAC-SHA-256 under the policy's secret, or SHA-256 without one, cut to 128 bits.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use siphasher::sip128::SipHasher13;

use crate::wire;

/// Tells these digests from any other use of the same secret.
const DOMAIN: &[u8] = b"sluicegate key 1\0";

/// Bits of a digest that are kept, as base64url characters: 128 bits are 22.
const DIGEST_LEN: usize = 22;

/// Tag and digest, the longest wire key.
const WIRE_LEN_MAX: usize = wire::TAG_LEN + DIGEST_LEN;

/// A key inside this VM, for maps; another VM or another start gives another number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub u128);

/// Makes fingerprints.
#[derive(Clone, Debug)]
pub struct Fingerprints {
    hasher: SipHasher13,
}

/// A key on the wire and in Redis: base64url without padding, 22 characters, or 28 for a key of several parts.
///
/// The first [`wire::TAG_LEN`] characters choose the Redis slot. They are those of the key's first part alone, so
/// limits that share their first identity share a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WireKey {
    text: [u8; WIRE_LEN_MAX],
    len: u8,
}

/// Makes wire keys; the secret's state is computed once.
#[derive(Clone)]
pub struct Digester {
    keyed: Option<Hmac<Sha256>>,
}

/// One part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// Nobody could be told; all such are one.
    Missing,
    /// A value and where it came from.
    Whole { source: &'a [u8], value: &'a [u8] },
    /// The SHA-256 of a long value and where that came from.
    Condensed { source: &'a [u8], value: &'a [u8] },
}

/// An encoding under construction, in a buffer that is used again.
pub(crate) struct Encoder<'b> {
    out: &'b mut Vec<u8>,
}

// === impl Fingerprints ===

impl Fingerprints {
    /// Under a key drawn at random when the VM starts.
    pub fn new(key: [u64; 2]) -> Fingerprints {
        let [k0, k1] = key;
        Fingerprints { hasher: SipHasher13::new_with_keys(k0, k1) }
    }

    /// The fingerprint of an encoding.
    pub fn of(&self, encoding: &[u8]) -> Fingerprint {
        Fingerprint(self.hasher.hash(encoding).as_u128())
    }
}

// === impl WireKey ===

impl WireKey {
    /// The text, ASCII.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.text.get(..usize::from(self.len)).unwrap_or_default()).unwrap_or_default()
    }

    fn from_parts(parts: [&[u8]; 2]) -> WireKey {
        let mut key = WireKey { text: [0; WIRE_LEN_MAX], len: 0 };
        for (place, &byte) in key.text.iter_mut().zip(parts.into_iter().flatten()) {
            *place = byte;
            key.len = key.len.saturating_add(1);
        }
        key
    }
}

impl std::fmt::Debug for WireKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Digester ===

impl Digester {
    /// Under the policy's secret, or unkeyed.
    pub fn new(secret: Option<&[u8]>) -> Digester {
        // HMAC takes a key of any length.
        Digester { keyed: secret.and_then(|secret| Hmac::new_from_slice(secret).ok()) }
    }

    /// The wire key of an encoding; `first` is the encoding of its first part alone, if it has more than one.
    pub fn wire_key(&self, encoding: &[u8], first: Option<&[u8]>) -> WireKey {
        let whole = base64url(self.digest(encoding));
        match first {
            None => WireKey::from_parts([&whole, &[]]),
            Some(first) => {
                let tag = base64url(self.digest(first));
                WireKey::from_parts([tag.get(..wire::TAG_LEN).unwrap_or_default(), &whole])
            }
        }
    }

    /// 32 bytes that stand for a value too long to keep.
    pub(crate) fn condense(value: &[u8]) -> [u8; 32] {
        Sha256::digest(value).into()
    }

    fn digest(&self, encoding: &[u8]) -> u128 {
        let bytes: [u8; 32] = match &self.keyed {
            Some(keyed) => {
                keyed.clone().chain_update(DOMAIN).chain_update(encoding).finalize().into_bytes().into()
            }
            None => Sha256::new().chain_update(DOMAIN).chain_update(encoding).finalize().into(),
        };
        bytes.first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes))
    }
}

impl std::fmt::Debug for Digester {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.keyed.is_some() { "Digester(keyed)" } else { "Digester(plain)" })
    }
}

// === impl Encoder ===

impl<'b> Encoder<'b> {
    /// Begins an encoding of so many parts; what the buffer held is dropped.
    pub(crate) fn new(out: &'b mut Vec<u8>, parts: usize) -> Encoder<'b> {
        out.clear();
        out.push(u8::try_from(parts).unwrap_or(u8::MAX));
        Encoder { out }
    }

    /// Adds a part.
    pub(crate) fn part(&mut self, part: Part<'_>) {
        let (source, form, value): (&[u8], u8, &[u8]) = match part {
            Part::Missing => (&[], 0, &[]),
            Part::Whole { source, value } => (source, 1, value),
            Part::Condensed { source, value } => (source, 2, value),
        };
        field(source, self.out);
        self.out.push(form);
        field(value, self.out);
    }
}

/// Appends a text of any content so that where it ends is told before it begins.
pub(crate) fn field(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn base64url(digest: u128) -> [u8; DIGEST_LEN] {
    let mut text = [0; DIGEST_LEN];
    // RFC 4648 section 5: groups of six bits from the most significant; the last one is padded with zeros.
    for (group, place) in (0_u32..).zip(text.iter_mut()) {
        let shift = 122_u32.checked_sub(group.saturating_mul(6));
        let bits = shift.map_or(digest << 4, |shift| digest >> shift) & 63;
        *place = *ALPHABET.get(usize::try_from(bits).unwrap_or(0)).unwrap_or(&b'A');
    }
    text
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
