//! Decimal digits, without the machinery of formatting: numbers are on the way of every request.

/// The digits of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    /// At the end; zeros before.
    digits: [u8; 20],
    len: u8,
}

// === impl Decimal ===

impl Decimal {
    /// The digits of this number.
    pub fn new(mut number: u64) -> Decimal {
        let mut decimal = Decimal { digits: [b'0'; 20], len: 0 };
        for place in decimal.digits.iter_mut().rev() {
            *place = b'0' + (number % 10) as u8;
            number /= 10;
            decimal.len += 1;
            if number == 0 {
                break;
            }
        }
        decimal
    }

    /// As ASCII.
    pub fn as_bytes(&self) -> &[u8] {
        self.digits.get(self.digits.len() - usize::from(self.len)..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_standard_library_writes_them() {
        for number in [0, 1, 9, 10, 99, 100, 1_234_567_890, u64::MAX] {
            assert_eq!(Decimal::new(number).as_bytes(), number.to_string().as_bytes());
        }
    }
}
