//! All requests that have begun and not ended.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::gate::hit::Hit;
use crate::gate::stream::Stream;

/// Lists of hits that are kept to be used again.
const SPARE_MAX: usize = 256;

/// Requests by the number of their context.
#[derive(Debug, Default)]
pub(super) struct Streams {
    map: HashMap<u32, Stream, BuildHasherDefault<ByNumber>>,
    spare: Vec<Vec<Hit>>,
}

/// Spreads numbers that the proxy hands out in order. Clients have no say in them, so nothing has to be kept secret.
#[derive(Debug, Default)]
struct ByNumber(u64);

// === impl Streams ===

impl Streams {
    pub(super) fn get(&self, id: u32) -> Option<&Stream> {
        self.map.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        self.map.get_mut(&id)
    }

    pub(super) fn insert(&mut self, id: u32, stream: Stream) {
        self.map.insert(id, stream);
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<Stream> {
        self.map.remove(&id)
    }

    /// An empty list of hits, an old one if there is one.
    pub(super) fn hits(&mut self) -> Vec<Hit> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes back the list of a request that is over.
    pub(super) fn reuse(&mut self, mut hits: Vec<Hit>) {
        if self.spare.len() < SPARE_MAX {
            hits.clear();
            self.spare.push(hits);
        }
    }
}

// === impl ByNumber ===

impl Hasher for ByNumber {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        // The golden ratio: neighbours differ in the low bits, which choose the place, and in the high ones, which
        // tell those at one place apart.
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
