//! Slots of a Redis Cluster.

/// How many there are.
pub(crate) const SLOTS: usize = 16_384;

/// The slot of a hash tag: CRC16 (XMODEM) modulo 16,384, see the Redis Cluster specification.
pub(crate) fn of_tag(tag: &[u8]) -> u16 {
    let crc = tag.iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    });
    crc % 16_384
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // The check value of the CRC, and what CLUSTER KEYSLOT answers.
        assert_eq!(of_tag(b"123456789"), 0x31c3);
        assert_eq!(of_tag(b"foo"), 12_182);
        assert_eq!(of_tag(b""), 0);
    }
}
