//! One call of the script: its keys, its argument, and what its reply means.

use std::collections::HashMap;
use std::fmt;

use sluicegate_policy::limit::{Algorithm, Align};
use sluicegate_policy::verdict::Standing;

/// Most keys in one call: Redis serves nobody else meanwhile, about a millisecond at this size.
pub const KEYS_MAX: usize = 1_000;

/// Numbers in the reply for each ask.
const PER_ASK: usize = 6;

/// One run of the script.
#[derive(Debug, Default)]
pub struct Call {
    keys: Vec<String>,
    argument: Vec<u8>,
    /// Asks of each take, in order.
    asks: Vec<usize>,
}

/// A reply that is not what the script returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadReply {
    /// It is no string of bytes.
    Type,
    /// It is no flat array of whole numbers.
    Form,
    /// It has more or fewer numbers than the call has asks.
    Length,
    /// A number cannot be what it stands for.
    Number,
}

/// Gathers what goes into one call.
#[derive(Debug, Default)]
pub(super) struct Builder {
    at: usize,
    keys: Vec<String>,
    key_index: HashMap<String, u64>,
    limits: Section,
    limit_index: HashMap<usize, u64>,
    refunds: Section,
    charges: Section,
    takes: Section,
    asks: Vec<usize>,
}

/// A part of the argument: how many records, and their numbers.
#[derive(Debug, Default)]
struct Section {
    records: u64,
    numbers: Vec<u64>,
}

/// A key under a limit, resolved.
#[derive(Clone, Debug)]
pub(super) struct Resolved<'a> {
    pub(super) redis_key: String,
    /// Index of the limit in the batch.
    pub(super) limit: usize,
    pub(super) algorithm: &'a Algorithm,
}

// === impl Call ===

impl Call {
    /// A call without limits, refunds, charges and takes.
    pub(super) fn about_nothing(key: String) -> Call {
        Call { keys: vec![key], ..Builder::default().build() }
    }

    /// KEYS, never empty; the first tells the slot.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// ARGV\[1\]. There is no other: a second one would set the clock, which only tests do.
    pub fn argument(&self) -> &[u8] {
        &self.argument
    }

    /// The hash tag that all keys share in a Cluster: what chooses the slot.
    pub fn tag(&self) -> &str {
        let first = self.keys.first().map_or("", String::as_str);
        first.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or("", |(tag, _)| tag)
    }

    /// The command that runs the script known to Redis under this hash.
    pub fn command(&self, hash: &str) -> redis::Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(hash).arg(self.keys.len()).arg(&self.keys).arg(self.argument());
        command
    }

    /// How many takes, or parts of takes, the call decides.
    pub fn takes(&self) -> usize {
        self.asks.len()
    }

    /// The standings of each take, in order.
    ///
    /// # Errors
    ///
    /// When the reply is anything but a complete answer to this call.
    pub fn decode(&self, reply: &redis::Value) -> Result<Vec<Vec<Standing>>, BadReply> {
        let bytes = match reply {
            redis::Value::BulkString(bytes) => bytes,
            _ => return Err(BadReply::Type),
        };
        let numbers = read_numbers(bytes).ok_or(BadReply::Form)?;
        if numbers.len() != PER_ASK * self.asks.iter().sum::<usize>() {
            return Err(BadReply::Length);
        }
        let mut standings = numbers.chunks_exact(PER_ASK).map(standing);
        self.asks.iter().map(|&n| standings.by_ref().take(n).collect()).collect()
    }
}

fn standing(numbers: &[u64]) -> Result<Standing, BadReply> {
    match *numbers {
        [allowed @ (0 | 1), granted, remaining, reset_us, retry_after_us, delay_us] => {
            Ok(Standing { allowed: allowed == 1, granted, remaining, reset_us, retry_after_us, delay_us })
        }
        _ => Err(BadReply::Number),
    }
}

// === impl BadReply ===

impl fmt::Display for BadReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadReply::Type => "reply of the script is no bulk string",
            BadReply::Form => "reply of the script is no array of whole numbers",
            BadReply::Length => "reply of the script has the wrong length",
            BadReply::Number => "reply of the script has a number out of range",
        })
    }
}

impl std::error::Error for BadReply {}

// === impl Builder ===

impl Builder {
    /// For the call at this place in the plan.
    pub(super) fn new(at: usize) -> Builder {
        Builder { at, ..Builder::default() }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn keys(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn takes(&self) -> usize {
        self.asks.len()
    }

    pub(super) fn refund(&mut self, ask: Resolved<'_>, slot: u64, n: u64) {
        let (key, limit) = self.place(ask);
        self.refunds.push(&[key, limit, slot, n]);
    }

    pub(super) fn charge(&mut self, ask: Resolved<'_>, n: u64) {
        let (key, limit) = self.place(ask);
        self.charges.push(&[key, limit, n]);
    }

    /// Asks with cost and "at least".
    pub(super) fn take(&mut self, slot: u64, asks: Vec<(Resolved<'_>, u64, u64)>) {
        self.asks.push(asks.len());
        self.takes.push(&[slot, asks.len() as u64]);
        for (ask, cost, at_least) in asks {
            let (key, limit) = self.place(ask);
            self.takes.numbers.extend([key, limit, cost, at_least]);
        }
    }

    pub(super) fn build(self) -> Call {
        let sections = [&self.limits, &self.refunds, &self.charges, &self.takes];
        let length: usize = sections.iter().map(|section| 1 + section.numbers.len()).sum();
        let mut argument = Vec::with_capacity(5 + 3 * length);
        argument.push(0xdd);
        argument.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
        for section in sections {
            write_number(&mut argument, section.records);
            section.numbers.iter().for_each(|&number| write_number(&mut argument, number));
        }
        Call { keys: self.keys, argument, asks: self.asks }
    }

    /// Indices of a key and of a limit in this call, from 1.
    fn place(&mut self, ask: Resolved<'_>) -> (u64, u64) {
        let Resolved { redis_key, limit, algorithm } = ask;
        let key = match self.key_index.get(&redis_key) {
            Some(&key) => key,
            None => {
                self.keys.push(redis_key.clone());
                let key = self.keys.len() as u64;
                self.key_index.insert(redis_key, key);
                key
            }
        };
        let limits = &mut self.limits;
        let limit = *self.limit_index.entry(limit).or_insert_with(|| {
            limits.push(&numbers(algorithm));
            limits.records
        });
        (key, limit)
    }
}

// === impl Section ===

impl Section {
    fn push(&mut self, record: &[u64]) {
        self.records += 1;
        self.numbers.extend(record);
    }
}

/// A limit as the script reads it: kind, size, and what the kind needs.
fn numbers(algorithm: &Algorithm) -> [u64; 6] {
    match algorithm {
        Algorithm::TokenBucket(bucket) => {
            [1, bucket.burst, 0, bucket.rate.tokens, bucket.rate.period_us, bucket.burst]
        }
        Algorithm::LeakyBucket(bucket) => {
            let (size, frac) = bucket.fullest();
            [1, size, frac, bucket.rate.tokens, bucket.rate.period_us, bucket.burst]
        }
        Algorithm::FixedWindow(window) => {
            [2, window.limit, window.per_us, u64::from(window.align == Align::Epoch), 0, 0]
        }
        Algorithm::SlidingWindow(window) => [3, window.limit, window.per_us, 0, 0, 0],
        Algorithm::SlidingLog(log) => [4, log.limit, log.per_us, 0, 0, 0],
        Algorithm::Concurrency(places) => [5, places.max, places.release_after_us, 0, 0, 0],
    }
}

/// Appends a MessagePack unsigned integer in its shortest form.
fn write_number(out: &mut Vec<u8>, number: u64) {
    match number {
        0..=0x7f => out.push(number as u8),
        0x80..=0xff => out.extend([0xcc, number as u8]),
        0x100..=0xffff => {
            out.push(0xcd);
            out.extend((number as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xce);
            out.extend((number as u32).to_be_bytes());
        }
        _ => {
            out.push(0xcf);
            out.extend(number.to_be_bytes());
        }
    }
}

/// A MessagePack array of integers that are not negative, and nothing after it.
fn read_numbers(bytes: &[u8]) -> Option<Vec<u64>> {
    let (&head, rest) = bytes.split_first()?;
    let (length, mut rest) = match head {
        0x90..=0x9f => (u64::from(head & 0x0f), rest),
        0xdc => read_be(rest, 2)?,
        0xdd => read_be(rest, 4)?,
        _ => return None,
    };
    // Each number takes a byte at least, so a longer array would be a lie.
    let mut numbers = Vec::with_capacity(usize::try_from(length).ok().filter(|&n| n <= rest.len())?);
    for _ in 0..length {
        let (&head, tail) = rest.split_first()?;
        // cmsgpack writes whole numbers as signed or unsigned, whichever is shorter.
        let (number, tail) = match head {
            0x00..=0x7f => (u64::from(head), tail),
            0xcc | 0xd0 => read_be(tail, 1)?,
            0xcd | 0xd1 => read_be(tail, 2)?,
            0xce | 0xd2 => read_be(tail, 4)?,
            0xcf | 0xd3 => read_be(tail, 8)?,
            _ => return None,
        };
        let bits = match head {
            0xd0 => 7,
            0xd1 => 15,
            0xd2 => 31,
            0xd3 => 63,
            _ => 64,
        };
        if bits < 64 && number >> bits != 0 {
            return None;
        }
        numbers.push(number);
        rest = tail;
    }
    rest.is_empty().then_some(numbers)
}

fn read_be(bytes: &[u8], width: usize) -> Option<(u64, &[u8])> {
    let (head, tail) = bytes.split_at_checked(width)?;
    Some((head.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)), tail))
}
