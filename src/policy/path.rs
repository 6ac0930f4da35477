//! Paths, normalised for matching.
//!
//! What goes upstream is never rewritten: this is only about which limits a request meets. Many spellings reach one
//! page, and a limiter that sees texts where the backend sees pages is dodged by respelling
//! (<https://github.com/coder/coder/pull/27273>). In normal form each path has one spelling (RFC 3986 section 6.2.2,
//! and beyond it, on the side of counting):
//!
//! 1. The scheme and host of an absolute URI go, and everything from the first `?` or `#`.
//! 2. Path parameters go: `/login;v=1` is `/login`, and `/x/..;/login` is too, since servlet containers read them so.
//! 3. A triplet for a character that may stand in a segment for itself is decoded (`%6c`, `%2e`, `%40`); any other
//!    stays, in capitals. A character that may not stand there is encoded, and so is a `%` without two digits.
//!    `%2F`, `%3B`, `%5C` stay what they are: not separators.
//! 4. Empty and `.` segments go, *then* `..` takes the segment before it, as nginx and Go read paths: `/a//../b` is
//!    `/b`. (Envoy's `normalize_path` resolves dots first; with `merge_slashes` beside it nothing is left to differ.)
//! 5. A slash at the end goes: `/login/` is `/login`.
//!
//! Case matters: `/LOGIN` is another path. `*` (of `OPTIONS *`) stays. An empty path is `/`.
//!
//! Time is linear. A path of more than [`RAW_MAX`] bytes is not looked at: it meets every limit, whatever its path
//! condition, and no exemption (Envoy's own bound on all headers is 60 KiB by default).

use std::borrow::Cow;

/// Longest path that is normalised, bytes, query not counted.
pub const RAW_MAX: usize = 65_536;

/// The path a request or a pattern names, in normal form; borrowed when it was already normal.
///
/// Normalising twice changes nothing.
pub fn normalize(raw: &[u8]) -> Cow<'_, [u8]> {
    let path = without_query(raw);
    match normal_len(path) {
        Some(len) => Cow::Borrowed(path.get(..len).unwrap_or_default()),
        None => {
            let mut out = Vec::with_capacity(path.len().saturating_add(1));
            rewrite(path, &mut out);
            Cow::Owned(out)
        }
    }
}

/// The part of `:path` before its query and fragment.
pub fn without_query(raw: &[u8]) -> &[u8] {
    let end = raw.iter().position(|&byte| matches!(byte, b'?' | b'#')).unwrap_or(raw.len());
    raw.get(..end).unwrap_or_default()
}

/// The query of `:path`, without its `?` and without a fragment; empty when there is none.
pub fn query(raw: &[u8]) -> &[u8] {
    let end = raw.iter().position(|&byte| byte == b'#').unwrap_or(raw.len());
    let raw = raw.get(..end).unwrap_or_default();
    let start = raw.iter().position(|&byte| byte == b'?').map_or(end, |at| at.saturating_add(1));
    raw.get(start..).unwrap_or_default()
}

/// How much of a path that is already normal, a slash at the end aside, is its normal form; `None` if it is not.
pub(crate) fn normal_len(path: &[u8]) -> Option<usize> {
    if path == b"*" {
        return Some(1);
    }
    // Where the segment at hand begins.
    let mut start = 1_usize;
    if path.first() != Some(&b'/') {
        return None;
    }
    for (at, &byte) in path.iter().enumerate().skip(1) {
        if is_plain(byte) {
            continue;
        }
        match byte {
            b'/' if is_dots(path.get(start..at)?) => return None,
            b'/' => start = at.saturating_add(1),
            b'%' => {
                let digits = path.get(at.saturating_add(1)..)?;
                if is_plain(triplet(digits)?) || digits.iter().take(2).any(u8::is_ascii_lowercase) {
                    return None;
                }
            }
            _ => return None,
        }
    }
    match path.get(start..)? {
        // Nothing after the last slash.
        [] => Some(start.saturating_sub(1).max(1)),
        last if is_dots(last) => None,
        _ => Some(path.len()),
    }
}

/// Whether a segment is not one in normal form: empty, `.` or `..`.
fn is_dots(segment: &[u8]) -> bool {
    matches!(segment, [] | [b'.'] | [b'.', b'.'])
}

/// Appends the normal form of any path, without query, to `out`.
pub(crate) fn rewrite(path: &[u8], out: &mut Vec<u8>) {
    if path == b"*" {
        out.push(b'*');
        return;
    }
    let start = out.len();
    for raw in without_origin(path).split(|&byte| byte == b'/') {
        let before = out.len();
        out.push(b'/');
        segment(raw, out);
        match out.get(before..).unwrap_or_default() {
            b"/" | b"/." => out.truncate(before),
            b"/.." => {
                out.truncate(before);
                let parent = out.get(start..).unwrap_or_default().iter().rposition(|&byte| byte == b'/');
                out.truncate(start.saturating_add(parent.unwrap_or(0)));
            }
            _ => {}
        }
    }
    if out.len() == start {
        out.push(b'/');
    }
}

/// A URI of `http` or `https` from its path on: `http://host/x` is `/x`, `http://host` is empty.
fn without_origin(path: &[u8]) -> &[u8] {
    let origins = [&b"http://"[..], b"https://"];
    let rest = origins.into_iter().find_map(|origin| {
        let (start, rest) = path.split_at_checked(origin.len())?;
        start.eq_ignore_ascii_case(origin).then_some(rest)
    });
    let Some(rest) = rest else { return path };
    let slash = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
    rest.get(slash..).unwrap_or_default()
}

/// Appends one segment: no parameters, each character in its one spelling.
fn segment(raw: &[u8], out: &mut Vec<u8>) {
    let end = raw.iter().position(|&byte| byte == b';').unwrap_or(raw.len());
    let mut rest = raw.get(..end).unwrap_or_default();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        match triplet(tail).filter(|_| byte == b'%') {
            Some(value) => {
                rest = tail.get(2..).unwrap_or_default();
                spell(value, out);
            }
            None => spell(byte, out),
        }
    }
}

/// Appends a character as itself where it may stand for itself, as a triplet otherwise.
fn spell(byte: u8, out: &mut Vec<u8>) {
    if is_plain(byte) {
        out.push(byte);
    } else {
        out.extend([b'%', digit(byte >> 4), digit(byte & 15)]);
    }
}

/// The value of the two digits after a `%`.
fn triplet(digits: &[u8]) -> Option<u8> {
    let high = char::from(*digits.first()?).to_digit(16)?;
    let low = char::from(*digits.get(1)?).to_digit(16)?;
    u8::try_from(high << 4 | low).ok()
}

fn digit(value: u8) -> u8 {
    if value < 10 { b'0'.saturating_add(value) } else { b'A'.saturating_add(value.saturating_sub(10)) }
}

/// `pchar` of RFC 3986 without `;`: what stands in a segment for itself.
fn is_plain(byte: u8) -> bool {
    PLAIN.get(usize::from(byte)) == Some(&true)
}

/// [`is_plain`] as a table: it is asked for every byte of every path.
const PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    while let Some(next) = byte.checked_add(1) {
        // Only ASCII is plain, so 255 may be left out.
        #[allow(clippy::indexing_slicing, reason = "a byte is below 256")]
        {
            table[byte as usize] = stands_for_itself(byte);
        }
        byte = next;
    }
    table
};

const fn stands_for_itself(byte: u8) -> bool {
    matches!(byte,
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~'
        | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b'=' | b':' | b'@')
}
