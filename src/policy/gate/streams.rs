//! All requests that have begun and not ended.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::class::Class;
use crate::gate::stream::Stream;

/// Streams that are kept to be used again.
const SPARE_MAX: usize = 256;

/// Requests by the number of their context.
///
/// They are boxed: a request changes hands many times while it is decided about, and each time would be a copy.
#[derive(Debug, Default)]
pub(super) struct Streams {
    map: HashMap<u32, Box<Stream>, BuildHasherDefault<ByNumber>>,
    #[expect(clippy::vec_box, reason = "the boxes are what is used again")]
    spare: Vec<Box<Stream>>,
}

/// Spreads numbers that the proxy hands out in order. Clients have no say in them, so nothing has to be kept secret.
#[derive(Debug, Default)]
struct ByNumber(u64);

// === impl Streams ===

impl Streams {
    /// A request that met nothing yet; it is not among the others until it is inserted.
    pub(super) fn begin(&mut self, class: Class, random: u64) -> Box<Stream> {
        match self.spare.pop() {
            Some(mut stream) => {
                stream.restart(class, random);
                stream
            }
            None => Box::new(Stream::new(class, random)),
        }
    }

    pub(super) fn get(&self, id: u32) -> Option<&Stream> {
        self.map.get(&id).map(|stream| &**stream)
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        self.map.get_mut(&id).map(|stream| &mut **stream)
    }

    pub(super) fn insert(&mut self, id: u32, stream: Box<Stream>) {
        self.map.insert(id, stream);
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<Box<Stream>> {
        self.map.remove(&id)
    }

    /// Takes back a request that is over.
    pub(super) fn reuse(&mut self, stream: Box<Stream>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(stream);
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
