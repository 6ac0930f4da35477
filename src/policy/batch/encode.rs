//! Writes the body of a batch by hand: this is the hot path, and every part but the numbers is known beforehand.

use crate::batch::{Note, Take};
use crate::decimal::Decimal;
use crate::wire;

/// Bytes of one ask at most: index, key, two numbers and punctuation.
const ASK_MAX: usize = wire::KEY_MAX + 64;

/// Bytes kept for what follows the takes: charges, releases and the end.
const TAIL_MAX: usize = 256 * 1_024;

/// Writes one body after the other, in buffers that are used again.
#[derive(Debug)]
pub(super) struct Encoder {
    /// `{"version":1,"namespace":"..."`
    head: String,
    /// What stands for a limit in a body, by index; empty when undefined.
    fragments: Vec<Box<str>>,
    /// Where a limit is in the body under way, by index; `u32::MAX` when it is not.
    places: Vec<u32>,
    /// The limits of the body under way, in order.
    limits: Vec<usize>,
    limits_len: usize,
    /// Whether the list under way has an element.
    begun: bool,
}

// === impl Encoder ===

impl Encoder {
    pub(super) fn new(namespace: &str) -> Self {
        // A namespace is `[a-z0-9_-]`: nothing to escape.
        Encoder {
            head: format!("{{\"version\":{},\"namespace\":\"{namespace}\"", wire::VERSION),
            fragments: Vec::new(),
            places: Vec::new(),
            limits: Vec::new(),
            limits_len: 0,
            begun: false,
        }
    }

    pub(super) fn define(&mut self, limit: usize, fragment: &wire::WireLimit) {
        if self.fragments.len() <= limit {
            self.fragments.resize(limit + 1, Box::default());
            self.places.resize(limit + 1, u32::MAX);
        }
        // Plain data always serializes.
        if let (Some(place), Ok(text)) = (self.fragments.get_mut(limit), serde_json::to_string(fragment)) {
            *place = text.into();
        }
    }

    pub(super) fn begin(&mut self, body: &mut Vec<u8>) {
        for limit in self.limits.drain(..) {
            if let Some(place) = self.places.get_mut(limit) {
                *place = u32::MAX;
            }
        }
        self.limits_len = 0;
        self.begun = false;
        body.clear();
        body.extend_from_slice(self.head.as_bytes());
        body.extend_from_slice(b",\"takes\":[");
    }

    /// Whether a take of so many asks fits in a body of bounded length.
    pub(super) fn has_room(&self, body: &[u8], asks: usize) -> bool {
        let fragments = asks * 256;
        let len = body.len() + self.limits_len + TAIL_MAX + asks * ASK_MAX + fragments;
        len <= wire::BODY_MAX && self.limits.len() + asks <= wire::LIMITS_MAX
    }

    pub(super) fn take(&mut self, body: &mut Vec<u8>, take: &Take) {
        self.separate(body);
        body.extend_from_slice(b"{\"asks\":[");
        for (nth, ask) in take.asks.iter().enumerate() {
            if nth > 0 {
                body.push(b',');
            }
            self.entry(body, ask.variant, ask.key.as_str());
            push_number(body, ask.cost);
            body.push(b',');
            push_number(body, ask.at_least);
            body.push(b']');
        }
        body.push(b']');
        if let Some(slot) = take.slot {
            body.extend_from_slice(b",\"slot\":");
            push_number(body, slot);
        }
        body.push(b'}');
    }

    /// Ends the takes, begins the charges.
    pub(super) fn charges(&mut self, body: &mut Vec<u8>) {
        body.extend_from_slice(b"],\"charges\":[");
        self.begun = false;
    }

    /// Writes the note if it is a charge and there is room.
    pub(super) fn charge(&mut self, body: &mut Vec<u8>, note: &Note) -> bool {
        let Note::Charge { variant, key, amount } = note else { return false };
        self.note(body, *variant, key.as_str(), *amount)
    }

    /// Ends the charges, begins the releases.
    pub(super) fn releases(&mut self, body: &mut Vec<u8>) {
        body.extend_from_slice(b"],\"releases\":[");
        self.begun = false;
    }

    /// Writes the note if it is a release and there is room.
    pub(super) fn release(&mut self, body: &mut Vec<u8>, note: &Note) -> bool {
        let Note::Release { variant, key, slot } = note else { return false };
        self.note(body, *variant, key.as_str(), *slot)
    }

    /// Ends the releases; the limits come last, when it is known which are named.
    pub(super) fn end(&mut self, body: &mut Vec<u8>) {
        body.extend_from_slice(b"],\"limits\":[");
        for (nth, limit) in self.limits.iter().enumerate() {
            if nth > 0 {
                body.push(b',');
            }
            body.extend_from_slice(self.fragments.get(*limit).map_or(b"", |fragment| fragment.as_bytes()));
        }
        body.extend_from_slice(b"]}");
    }

    fn note(&mut self, body: &mut Vec<u8>, limit: usize, key: &str, number: u64) -> bool {
        if body.len() + self.limits_len + ASK_MAX + 1_024 > wire::BODY_MAX {
            return false;
        }
        self.separate(body);
        self.entry(body, limit, key);
        push_number(body, number);
        body.push(b']');
        true
    }

    /// `[limit,"key",`
    fn entry(&mut self, body: &mut Vec<u8>, limit: usize, key: &str) {
        let place = self.place(limit);
        body.push(b'[');
        push_number(body, place.into());
        body.extend_from_slice(b",\"");
        body.extend_from_slice(key.as_bytes());
        body.extend_from_slice(b"\",");
    }

    /// Where the limit is in this body's list; it is added to it when first named.
    fn place(&mut self, limit: usize) -> u32 {
        let next = u32::try_from(self.limits.len()).unwrap_or(u32::MAX);
        let Some(place) = self.places.get_mut(limit) else { return 0 };
        if *place == u32::MAX {
            *place = next;
            self.limits.push(limit);
            self.limits_len += self.fragments.get(limit).map_or(0, |fragment| fragment.len() + 1);
        }
        *place
    }

    fn separate(&mut self, body: &mut Vec<u8>) {
        if std::mem::replace(&mut self.begun, true) {
            body.push(b',');
        }
    }
}

fn push_number(body: &mut Vec<u8>, number: u64) {
    body.extend_from_slice(Decimal::new(number).as_bytes());
}
