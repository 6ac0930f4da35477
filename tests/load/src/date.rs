//! The date of a report.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, UTC, like `2026-03-01 12:30`.
pub(crate) fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format_minutes(since.as_secs() / 60)
}

/// The civil date of a number of minutes since 1970 (Howard Hinnant, "chrono-compatible low-level date algorithms").
fn format_minutes(minutes: u64) -> String {
    let (days, minute) = (minutes / 1_440 + 719_468, minutes % 1_440);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", minute / 60, minute % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(format_minutes(0), "1970-01-01 00:00 UTC");
        assert_eq!(format_minutes(951_782_399 / 60), "2000-02-28 23:59 UTC");
        assert_eq!(format_minutes(951_782_400 / 60), "2000-02-29 00:00 UTC");
        assert_eq!(format_minutes(1_800_000_000 / 60), "2027-01-15 08:00 UTC");
    }
}
