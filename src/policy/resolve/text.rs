//! Finding a value inside a header.
//!
//! Results are an offset and a length inside the text that was given, never blank.

/// Space and tab: optional white space of RFC 9110.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// The text without white space around it.
pub(super) fn trimmed(text: &[u8]) -> Option<(usize, usize)> {
    trimmed_within(text, 0, text.len())
}

/// What follows an authentication scheme, whatever its case and the white space after it (RFC 9110 section 11.1).
pub(super) fn after_scheme(text: &[u8], scheme: &str) -> Option<(usize, usize)> {
    let (start, len) = trimmed(text)?;
    let word = text.get(start..)?.get(..len)?;
    let word_len = word.iter().position(|&byte| is_space(byte))?;
    if !word.get(..word_len)?.eq_ignore_ascii_case(scheme.as_bytes()) {
        return None;
    }
    trimmed_within(text, start.saturating_add(word_len), start.saturating_add(len))
}

/// The first cookie of that name that has a value (RFC 6265 section 4.2.1), without quotes around it.
///
/// A comma ends a value too. It may not stand in one, and is what stands between two `Cookie` fields that were
/// joined like any other field: otherwise a second field would make a new value of the same cookie.
pub(super) fn cookie(text: &[u8], name: &str) -> Option<(usize, usize)> {
    let mut start = 0;
    text.split(|byte| matches!(byte, b';' | b',')).find_map(|pair| {
        let end = start + pair.len();
        let equals = pair.iter().position(|&byte| byte == b'=').map(|at| start + at);
        let found = equals.and_then(|equals| {
            let (name_start, name_len) = trimmed_within(text, start, equals)?;
            if text.get(name_start..)?.get(..name_len)? != name.as_bytes() {
                return None;
            }
            let (start, len) = trimmed_within(text, equals + 1, end)?;
            match text.get(start..)?.get(..len)? {
                [b'"', inner @ .., b'"'] => trimmed_within(text, start + 1, start + 1 + inner.len()),
                _ => Some((start, len)),
            }
        });
        start = end + 1;
        found
    })
}

/// The still encoded value of the first query parameter of that name that has one.
pub(super) fn parameter<'q>(query: &'q [u8], name: &str) -> Option<&'q [u8]> {
    query.split(|&byte| byte == b'&').find_map(|pair| {
        let equals = pair.iter().position(|&byte| byte == b'=')?;
        let (key, value) = pair.split_at_checked(equals)?;
        let value = value.get(1..)?;
        let is_it = decoded(key).eq(name.bytes()) && !decoded(value).all(is_space);
        is_it.then_some(value)
    })
}

/// `%` triplets and `+` decoded, as in `application/x-www-form-urlencoded`; a `%` without two digits is itself.
pub(super) fn decoded(text: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (&byte, tail) = rest.split_first()?;
        rest = tail;
        Some(match byte {
            b'+' => b' ',
            b'%' => match triplet(tail) {
                Some(value) => {
                    rest = tail.get(2..).unwrap_or_default();
                    value
                }
                None => b'%',
            },
            byte => byte,
        })
    })
}

fn triplet(digits: &[u8]) -> Option<u8> {
    let high = char::from(*digits.first()?).to_digit(16)?;
    let low = char::from(*digits.get(1)?).to_digit(16)?;
    u8::try_from(high << 4 | low).ok()
}

fn trimmed_within(text: &[u8], start: usize, end: usize) -> Option<(usize, usize)> {
    let part = text.get(start..end)?;
    let before = part.iter().position(|&byte| !is_space(byte))?;
    let last = part.iter().rposition(|&byte| !is_space(byte))?;
    Some((start + before, last + 1 - before))
}
