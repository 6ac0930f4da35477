//! A secret that a caller must bring.

use std::path::Path;

use hyper::header::{AUTHORIZATION, HeaderMap};
use subtle::ConstantTimeEq as _;

/// Fewest characters of a token: shorter ones can be guessed.
const LEN_MIN: usize = 16;

/// Most characters of a token.
const LEN_MAX: usize = 1_024;

/// A bearer token. It is never printed.
#[derive(Clone)]
pub struct Token(Box<[u8]>);

impl Token {
    /// Checks a token's form: 16 to 1,024 visible ASCII characters.
    ///
    /// # Errors
    /// What is wrong with it, without its text.
    pub fn new(text: &str) -> Result<Token, String> {
        if !(LEN_MIN..=LEN_MAX).contains(&text.len()) {
            return Err(format!(
                "a token has {LEN_MIN} to {LEN_MAX} characters, this one has {}",
                text.len()
            ));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a token has visible ASCII characters only".to_owned());
        }
        Ok(Token(text.as_bytes().into()))
    }

    /// Reads a token from the command line or a file; blanks around it are dropped.
    ///
    /// # Errors
    /// The file cannot be read, or what it holds is no token.
    pub fn load(text: Option<&str>, file: Option<&Path>) -> Result<Option<Token>, String> {
        match (text, file) {
            (Some(text), _) => Token::new(text.trim()).map(Some),
            (None, Some(file)) => read(file).and_then(|text| Token::new(text.trim()).map(Some)),
            (None, None) => Ok(None),
        }
    }

    /// Whether the request brings it. The time taken does not depend on where they differ.
    #[must_use]
    pub fn admits(&self, headers: &HeaderMap) -> bool {
        let Some(value) = headers.get(AUTHORIZATION) else { return false };
        match value.as_bytes().split_at_checked("Bearer ".len()) {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"Bearer ") => self.0.ct_eq(token).into(),
            _ => false,
        }
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// Reads a small file of text.
///
/// # Errors
/// The file's name and the reason.
pub(crate) fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admits_its_own_text_only() {
        let token = Token::new("0123456789abcdef").unwrap();
        let with = |value: &str| HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
        assert!(token.admits(&with("Bearer 0123456789abcdef")));
        assert!(token.admits(&with("bearer 0123456789abcdef")));
        for other in
            ["Bearer 0123456789abcdeF", "Bearer 0123456789abcde", "Basic 0123456789abcdef", "Bearer", ""]
        {
            assert!(!token.admits(&with(other)), "{other}");
        }
        assert!(!token.admits(&HeaderMap::new()));
    }

    #[test]
    fn refuses_what_can_be_guessed() {
        for bad in ["", "short", "0123456789abcde\u{e9}f", "0123456789 abcdef"] {
            assert!(Token::new(bad).is_err(), "{bad}");
        }
    }
}
