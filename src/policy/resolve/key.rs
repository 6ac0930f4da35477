//! From identities to keys: each identity and each list of identities is worked out at most once for a request.

use super::attribute::{Memo, Reader};
use super::{Resolver, Value};
use crate::digest::{Digester, Encoder, Fingerprint, Fingerprints, Part, WireKey};
use crate::identity::IdentityId;

/// The distinct lists of identities that limits count by, and what makes keys of them.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    resolver: Resolver,
    identities: usize,
    lists: Vec<Vec<IdentityId>>,
    fingerprints: Fingerprints,
    digester: Digester,
}

/// What is known about the request at hand.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyMemo {
    values: Vec<Asked<Value>>,
    lists: Vec<Asked<Known>>,
    encoding: Vec<u8>,
    first: Vec<u8>,
}

/// Something that is worked out at most once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Asked<T> {
    #[default]
    NotYet,
    Nothing,
    Is(T),
}

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) fingerprint: Fingerprint,
    /// Some identity has no value, and stands in the key as missing.
    pub(crate) incomplete: bool,
    wire_key: Option<WireKey>,
}

// === impl Keys ===

impl Keys {
    pub(crate) fn new(resolver: Resolver, fingerprints: Fingerprints, digester: Digester) -> Keys {
        Keys { identities: resolver.identities.len(), resolver, lists: Vec::new(), fingerprints, digester }
    }

    /// The number of a list of identities.
    pub(crate) fn list(&mut self, identities: &[IdentityId]) -> usize {
        self.lists.iter().position(|known| known == identities).unwrap_or_else(|| {
            self.lists.push(identities.to_vec());
            self.lists.len().saturating_sub(1)
        })
    }

    pub(crate) fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    /// Forgets everything, for the next request.
    pub(crate) fn clear(&self, memo: &mut KeyMemo) {
        memo.values.clear();
        memo.values.resize(self.identities, Asked::NotYet);
        memo.lists.clear();
        memo.lists.resize(self.lists.len(), Asked::NotYet);
    }

    /// The value of an identity.
    pub(crate) fn value(
        &self,
        identity: IdentityId,
        memo: &mut KeyMemo,
        reader: &mut Reader<'_>,
    ) -> Option<Value> {
        let asked = memo.values.get_mut(identity.0)?;
        asked.get_or(|| self.resolver.resolve(identity, reader))
    }

    /// The key of a list of identities.
    pub(crate) fn key(&self, list: usize, memo: &mut KeyMemo, reader: &mut Reader<'_>) -> Option<Known> {
        if let Asked::Is(known) = memo.lists.get(list)? {
            return Some(*known);
        }
        let identities = self.lists.get(list)?;
        let mut incomplete = false;
        for &identity in identities {
            incomplete |= self.value(identity, memo, reader).is_none();
        }
        self.encode(identities, &memo.values, reader.memo, &mut memo.encoding);
        let fingerprint = self.fingerprints.of(&memo.encoding);
        let known = Known { fingerprint, incomplete, wire_key: None };
        *memo.lists.get_mut(list)? = Asked::Is(known);
        Some(known)
    }

    /// The key of one identity; `None` if it has no value.
    pub(crate) fn single(
        &self,
        identity: IdentityId,
        memo: &mut KeyMemo,
        reader: &mut Reader<'_>,
    ) -> Option<Fingerprint> {
        self.value(identity, memo, reader)?;
        self.encode(&[identity], &memo.values, reader.memo, &mut memo.encoding);
        Some(self.fingerprints.of(&memo.encoding))
    }

    /// The wire key of a list whose [`Keys::key`] was asked for.
    pub(crate) fn wire_key(&self, list: usize, memo: &mut KeyMemo, bytes: &Memo) -> WireKey {
        if let Some(Asked::Is(Known { wire_key: Some(key), .. })) = memo.lists.get(list) {
            return *key;
        }
        let identities = self.lists.get(list).map_or(&[][..], |list| list);
        self.encode(identities, &memo.values, bytes, &mut memo.encoding);
        let key = match identities {
            [_] | [] => self.digester.wire_key(&memo.encoding, None),
            [first, ..] => {
                self.encode(&[*first], &memo.values, bytes, &mut memo.first);
                self.digester.wire_key(&memo.encoding, Some(&memo.first))
            }
        };
        if let Some(Asked::Is(known)) = memo.lists.get_mut(list) {
            known.wire_key = Some(key);
        }
        key
    }

    fn encode(&self, identities: &[IdentityId], values: &[Asked<Value>], bytes: &Memo, out: &mut Vec<u8>) {
        let mut encoder = Encoder::new(out, identities.len());
        for &IdentityId(identity) in identities {
            encoder.part(match values.get(identity) {
                Some(Asked::Is(value)) => {
                    let (source, bytes) = (self.resolver.descriptor(*value), bytes.bytes(value.span));
                    match value.condensed {
                        false => Part::Whole { source, value: bytes },
                        true => Part::Condensed { source, value: bytes },
                    }
                }
                _ => Part::Missing,
            });
        }
    }
}

// === impl Asked ===

impl<T: Copy> Asked<T> {
    /// The answer, found out now if nobody asked before.
    pub(crate) fn get_or(&mut self, find: impl FnOnce() -> Option<T>) -> Option<T> {
        if let Asked::NotYet = self {
            *self = find().map_or(Asked::Nothing, Asked::Is);
        }
        match *self {
            Asked::Is(value) => Some(value),
            Asked::Nothing | Asked::NotYet => None,
        }
    }
}
