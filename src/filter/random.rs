//! Chance, for jitter, samples and names; seeded once from the proxy's entropy.

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
#[derive(Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// Seeded from the proxy; `otherwise` is the seed where the proxy gives none.
    pub(crate) fn new(otherwise: u64) -> Self {
        let mut seed = [0; 8];
        #[cfg(target_arch = "wasm32")]
        let seeded = getrandom::getrandom(&mut seed).is_ok();
        #[cfg(not(target_arch = "wasm32"))]
        let seeded = false;
        if !seeded {
            seed = otherwise.to_le_bytes();
        }
        Random { state: u64::from_le_bytes(seed) }
    }

    /// 64 uniform bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
