//! How long a caller will wait, and whether that is long enough.

/// The time left to a request by its headers, microseconds; the shortest of what is given.
///
/// `grpc-timeout` is 1 to 8 digits and a unit (the gRPC HTTP/2 protocol); `x-envoy-expected-rq-timeout-ms` is set by
/// a calling Envoy. What does not parse is ignored, as an absent header would be.
pub fn remaining_us(
    grpc_timeout: Option<&[u8]>,
    expected_ms: Option<&[u8]>,
    default_us: Option<u64>,
) -> Option<u64> {
    let expected = expected_ms.and_then(|text| digits(text, 12)).map(|ms| ms.saturating_mul(1_000));
    let told = [grpc_timeout.and_then(grpc_timeout_us), expected].into_iter().flatten().min();
    told.or(default_us)
}

fn grpc_timeout_us(text: &[u8]) -> Option<u64> {
    let (unit, number) = text.split_last()?;
    let number = digits(number, 8)?;
    Some(match unit {
        b'H' => number.saturating_mul(3_600_000_000),
        b'M' => number.saturating_mul(60_000_000),
        b'S' => number.saturating_mul(1_000_000),
        b'm' => number.saturating_mul(1_000),
        b'u' => number,
        b'n' => number / 1_000,
        _ => return None,
    })
}

fn digits(text: &[u8], max: usize) -> Option<u64> {
    if text.is_empty() || max < text.len() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The time a request will likely take if it is let in now, microseconds: the median of the service and the queue
/// before it. Half of the requests are slower, so this refuses only what is more likely lost than not.
pub(super) fn predicted_us(in_flight: f64, limit: f64, capacity: f64, base_us: f64) -> f64 {
    // The median of an exponential service time is ln 2 of its mean; less varied services are nearer to 1, and a
    // request wrongly let in costs less than one wrongly refused.
    let service = std::f64::consts::LN_2 * base_us;
    let queued = (in_flight - limit).max(0.0);
    if 0.0 < capacity { service + queued / capacity * 1e6 } else { service }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_unit() {
        let cases: [(&[u8], Option<u64>); 9] = [
            (b"1H", Some(3_600_000_000)),
            (b"2M", Some(120_000_000)),
            (b"3S", Some(3_000_000)),
            (b"250m", Some(250_000)),
            (b"7u", Some(7)),
            (b"99999999n", Some(99_999)),
            (b"123456789S", None),
            (b"-1S", None),
            (b"5", None),
        ];
        for (text, expected) in cases {
            assert_eq!(remaining_us(Some(text), None, None), expected, "{text:?}");
        }
    }

    #[test]
    fn the_shortest_wins_and_the_default_only_fills_in() {
        assert_eq!(remaining_us(Some(b"1S"), Some(b"250"), Some(1)), Some(250_000));
        assert_eq!(remaining_us(None, Some(b"junk"), Some(9)), Some(9));
        assert_eq!(remaining_us(None, None, None), None);
    }

    #[test]
    fn the_queue_adds_to_the_service() {
        let idle = predicted_us(5.0, 20.0, 800.0, 20_000.0);
        assert!((13_800.0..13_900.0).contains(&idle));
        assert!((predicted_us(28.0, 20.0, 800.0, 20_000.0) - idle - 10_000.0).abs() < 1e-6);
        assert_eq!(predicted_us(9.0, 1.0, 0.0, 0.0), 0.0);
    }
}
