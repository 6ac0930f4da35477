//! The ABI's encoding of a header map: how many, their lengths, then names and values with a final zero each.

use super::process::Headers;

/// As the host hands it over.
pub(super) fn encode(headers: &Headers) -> Vec<u8> {
    let number = |n: usize| u32::try_from(n).expect("a short header").to_le_bytes();
    let lengths = headers.iter().flat_map(|(name, value)| [number(name.len()), number(value.len())]);
    let mut bytes: Vec<u8> = std::iter::once(number(headers.len())).chain(lengths).flatten().collect();
    for text in headers.iter().flat_map(|(name, value)| [name.as_bytes(), value]) {
        bytes.extend_from_slice(text);
        bytes.push(0);
    }
    bytes
}

/// As the filter hands it over.
pub(super) fn decode(bytes: &[u8]) -> Vec<(String, String)> {
    let number = |at: usize| {
        bytes.get(at..at + 4).map_or(0, |b| u32::from_le_bytes(b.try_into().expect("four bytes"))) as usize
    };
    let count = if bytes.is_empty() { 0 } else { number(0) };
    let mut at = 4 + 8 * count;
    let mut next = |len: usize| {
        let text = String::from_utf8_lossy(&bytes[at..at + len]).into_owned();
        at += len + 1;
        text
    };
    (0..count).map(|nth| (next(number(4 + 8 * nth)), next(number(8 + 8 * nth)))).collect()
}
