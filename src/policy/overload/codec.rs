//! Fixed little-endian layouts, read from bytes that anybody may have written.

/// Reads values one after another; `None` once the bytes run out.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes }
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        let (head, rest) = self.bytes.split_first_chunk::<8>()?;
        self.bytes = rest;
        Some(u64::from_le_bytes(*head))
    }

    /// A finite number that is not negative; anything else is not one of ours.
    pub(super) fn amount(&mut self) -> Option<f64> {
        let value = f64::from_bits(self.u64()?);
        (value.is_finite() && 0.0 <= value).then_some(value)
    }

    pub(super) fn u64s<const N: usize>(&mut self) -> Option<[u64; N]> {
        let mut values = [0; N];
        for value in &mut values {
            *value = self.u64()?;
        }
        Some(values)
    }

    pub(super) fn amounts<const N: usize>(&mut self) -> Option<[f64; N]> {
        let mut values = [0.0; N];
        for value in &mut values {
            *value = self.amount()?;
        }
        Some(values)
    }

    /// A count of what follows, refused above `max` so that junk cannot make anybody allocate.
    pub(super) fn count(&mut self, max: usize) -> Option<usize> {
        usize::try_from(self.u64()?).ok().filter(|count| *count <= max)
    }
}

/// Writes what [`Reader`] reads.
#[derive(Debug, Default)]
pub(super) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn amount(&mut self, value: f64) {
        let sane = if value.is_finite() { value.max(0.0) } else { 0.0 };
        self.u64(sane.to_bits());
    }

    pub(super) fn u64s(&mut self, values: &[u64]) {
        values.iter().for_each(|value| self.u64(*value));
    }

    pub(super) fn amounts(&mut self, values: &[f64]) {
        values.iter().for_each(|value| self.amount(*value));
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
