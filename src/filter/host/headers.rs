//! A header map as the host hands it over.

use std::borrow::Cow;

/// Bytes of one length.
const WORD: usize = 4;

/// The ABI's encoding of a header map: how many, their lengths, then names and values with a final zero each.
#[derive(Debug)]
pub(crate) struct HeaderMap(pub(super) Vec<u8>);

// === impl HeaderMap ===

impl HeaderMap {
    /// The value of a header by lower-case name; repeated fields joined with a comma.
    pub(crate) fn get(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        let mut found: Option<Cow<'_, [u8]>> = None;
        for (_, value) in self.iter().filter(|(known, _)| *known == name.as_bytes()) {
            match &mut found {
                None => found = Some(Cow::Borrowed(value)),
                Some(joined) => {
                    let joined = joined.to_mut();
                    joined.push(b',');
                    joined.extend_from_slice(value);
                }
            }
        }
        found
    }

    /// Names and values; it ends early where the bytes are not what the ABI says.
    fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let count = word(&self.0).map_or(0, |(count, _)| count);
        let (mut lengths, mut texts) = match self.0.get(WORD..) {
            Some(rest) => rest.split_at(rest.len().min(count.saturating_mul(2 * WORD))),
            None => (&[][..], &[][..]),
        };
        std::iter::from_fn(move || {
            let (name_len, rest) = word(lengths)?;
            let (value_len, rest) = word(rest)?;
            lengths = rest;
            Some((text(&mut texts, name_len)?, text(&mut texts, value_len)?))
        })
    }
}

/// The number at the beginning, and what follows it.
fn word(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (word, rest) = bytes.split_first_chunk::<WORD>()?;
    Some((u32::from_le_bytes(*word) as usize, rest))
}

/// The text at the beginning; its final zero is passed over.
fn text<'b>(bytes: &mut &'b [u8], len: usize) -> Option<&'b [u8]> {
    let (text, rest) = bytes.split_at_checked(len)?;
    *bytes = rest.get(1..)?;
    Some(text)
}
