//! Work that costs processor time.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// A loop of known speed. When the machine has no core to spare the same work takes longer, as real work does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Burner {
    rounds_per_us: f64,
}

impl Burner {
    /// Measures the speed of the loop, for about 50 ms.
    pub(crate) fn calibrate() -> Burner {
        let start = Instant::now();
        let mut rounds = 0_u64;
        while start.elapsed() < Duration::from_millis(50) {
            spin(10_000);
            rounds += 10_000;
        }
        Burner { rounds_per_us: rounds as f64 / start.elapsed().as_micros().max(1) as f64 }
    }

    /// Burns what takes `us` microseconds on an idle core.
    pub(crate) fn burn(self, us: u64) {
        spin((us as f64 * self.rounds_per_us) as u64);
    }
}

fn spin(rounds: u64) {
    let mut x = black_box(88_172_645_463_325_252_u64);
    for _ in 0..rounds {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x);
}
