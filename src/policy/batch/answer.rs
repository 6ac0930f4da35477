//! Reads the answer to a batch, strictly: what is not well-formed and complete is a failure.

use crate::batch::Ask;
use crate::verdict::Standing;
use crate::wire;

/// Numbers beyond this cannot have come from a sane store: Lua's integers end here.
const NUMBER_MAX: u64 = 1 << 53;

/// Why an answer is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// No cluster, no endpoint, timeout, reset, or a status other than 200.
    NoAnswer,
    /// Not the JSON that the protocol asks for, or too long.
    Syntax,
    /// Another version of the protocol.
    Version,
    /// A verdict or a standing too few or too many.
    Incomplete,
    /// A number that makes no sense: out of range, or granted more than asked.
    Number,
}

// === impl Malformed ===

impl Malformed {
    /// For logs.
    pub fn reason(self) -> &'static str {
        match self {
            Malformed::NoAnswer => "no answer",
            Malformed::Syntax => "an answer that is not understood",
            Malformed::Version => "an answer in another version",
            Malformed::Incomplete => "an incomplete answer",
            Malformed::Number => "an answer with impossible numbers",
        }
    }
}

type Verdicts = Vec<Option<Vec<Standing>>>;

/// One verdict for each of `takes`.
pub(super) fn parse<'a>(body: &[u8], takes: impl Iterator<Item = &'a [Ask]>) -> Result<Verdicts, Malformed> {
    if body.len() > wire::BODY_MAX {
        return Err(Malformed::Syntax);
    }
    let mut cursor = Cursor { rest: body };
    let mut version = None;
    let mut verdicts = None;
    let mut takes = Some(takes);
    cursor.expect(b'{')?;
    loop {
        match cursor.name()? {
            b"version" if version.is_none() => version = Some(cursor.number()?),
            b"verdicts" => match takes.take() {
                Some(takes) => verdicts = Some(cursor.verdicts(takes)?),
                None => return Err(Malformed::Syntax),
            },
            _ => return Err(Malformed::Syntax),
        }
        if !cursor.more(b'}')? {
            break;
        }
    }
    if !cursor.is_at_end() {
        return Err(Malformed::Syntax);
    }
    if version != Some(wire::VERSION.into()) {
        return Err(Malformed::Version);
    }
    verdicts.ok_or(Malformed::Incomplete)
}

/// What is left to read.
struct Cursor<'a> {
    rest: &'a [u8],
}

// === impl Cursor ===

impl<'a> Cursor<'a> {
    fn verdicts<'t>(&mut self, takes: impl Iterator<Item = &'t [Ask]>) -> Result<Verdicts, Malformed> {
        let mut verdicts = Vec::with_capacity(takes.size_hint().0);
        self.expect(b'[')?;
        for (nth, asks) in takes.enumerate() {
            if nth > 0 && !self.more(b']')? {
                return Err(Malformed::Incomplete);
            }
            if nth == 0 && self.peek() == Some(b']') {
                return Err(Malformed::Incomplete);
            }
            verdicts.push(if self.null() { None } else { Some(self.standings(asks)?) });
        }
        self.close()?;
        Ok(verdicts)
    }

    fn standings(&mut self, asks: &[Ask]) -> Result<Vec<Standing>, Malformed> {
        let mut standings = Vec::with_capacity(asks.len());
        self.expect(b'[')?;
        for (nth, ask) in asks.iter().enumerate() {
            if nth > 0 && !self.more(b']')? {
                return Err(Malformed::Incomplete);
            }
            if self.peek() == Some(b']') {
                return Err(Malformed::Incomplete);
            }
            standings.push(self.standing(ask)?);
        }
        self.close()?;
        Ok(standings)
    }

    fn standing(&mut self, ask: &Ask) -> Result<Standing, Malformed> {
        let mut numbers = [0; 6];
        self.expect(b'[')?;
        for (nth, place) in numbers.iter_mut().enumerate() {
            if nth > 0 {
                self.expect(b',')?;
            }
            *place = self.number()?;
        }
        self.expect(b']')?;
        let [allowed, granted, remaining, reset_us, retry_after_us, delay_us] = numbers;
        if allowed > 1 || granted > ask.cost {
            return Err(Malformed::Number);
        }
        let allowed = allowed == 1;
        Ok(Standing { allowed, granted, remaining, reset_us, retry_after_us, delay_us })
    }

    /// A string without escapes, as all names and none of the values here are.
    fn name(&mut self) -> Result<&'a [u8], Malformed> {
        self.expect(b'"')?;
        let len = self.rest.iter().position(|byte| *byte == b'"').ok_or(Malformed::Syntax)?;
        let (name, rest) = self.rest.split_at_checked(len).ok_or(Malformed::Syntax)?;
        self.rest = rest.get(1..).unwrap_or_default();
        self.expect(b':')?;
        Ok(name)
    }

    /// A whole number without sign, fraction, exponent or leading zeros, below 2^53.
    fn number(&mut self) -> Result<u64, Malformed> {
        self.skip_space();
        let len = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.rest.split_at_checked(len).ok_or(Malformed::Syntax)?;
        if digits.is_empty() || (len > 1 && digits.starts_with(b"0")) {
            return Err(Malformed::Syntax);
        }
        if matches!(rest.first(), Some(b'.' | b'e' | b'E')) || len > 16 {
            return Err(Malformed::Number);
        }
        self.rest = rest;
        let number = digits.iter().fold(0u64, |number, digit| number * 10 + u64::from(digit - b'0'));
        if number < NUMBER_MAX { Ok(number) } else { Err(Malformed::Number) }
    }

    fn null(&mut self) -> bool {
        self.skip_space();
        match self.rest.strip_prefix(b"null") {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// After an element: true for a comma, false for the closing bracket.
    fn more(&mut self, close: u8) -> Result<bool, Malformed> {
        match self.next() {
            Some(b',') => Ok(true),
            Some(byte) if byte == close => Ok(false),
            _ => Err(Malformed::Syntax),
        }
    }

    /// The end of a list that must not go on.
    fn close(&mut self) -> Result<(), Malformed> {
        match self.next() {
            Some(b']') => Ok(()),
            Some(b',') => Err(Malformed::Incomplete),
            _ => Err(Malformed::Syntax),
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), Malformed> {
        if self.next() == Some(byte) { Ok(()) } else { Err(Malformed::Syntax) }
    }

    fn next(&mut self) -> Option<u8> {
        self.skip_space();
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn peek(&mut self) -> Option<u8> {
        self.skip_space();
        self.rest.first().copied()
    }

    fn is_at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    fn skip_space(&mut self) {
        while let Some((b' ' | b'\t' | b'\n' | b'\r', rest)) = self.rest.split_first() {
            self.rest = rest;
        }
    }
}
