//! Dates and times of day, in coordinated universal time: the same text on every machine.

/// As `2026-11-23 08:45:12 +00:00`, of nanoseconds since 1970-01-01 00:00:00 UTC.
pub fn date(realtime_ns: u64) -> String {
    let seconds = realtime_ns / 1_000_000_000;
    let (year, month, day) = civil(seconds / 86_400);
    let [hour, minute, second] = of_day(seconds);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} +00:00")
}

/// The time of day to the microsecond, as `08:45:12.203412`.
pub fn time(realtime_ns: u64) -> String {
    let [hour, minute, second] = of_day(realtime_ns / 1_000_000_000);
    let micros = realtime_ns % 1_000_000_000 / 1000;
    format!("{hour:02}:{minute:02}:{second:02}.{micros:06}")
}

fn of_day(seconds: u64) -> [u64; 3] {
    let second = seconds % 86_400;
    [second / 3600, second / 60 % 60, second % 60]
}

/// Year, month and day of the Gregorian calendar, by days since 1970-01-01. It counts from 0000-03-01, so that the
/// leap day is the last of its year; 400 years have 146,097 days.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months from March on have 31, 30, 31, 30, 31 days, twice and a bit.
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let january_or_february = u64::from(month >= 10);
    let year = era * 400 + year_of_era + january_or_february;
    (year, if month < 10 { month + 3 } else { month - 9 }, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Expected values are those of `date -u -d @SECONDS`.
    #[test]
    fn a_date_is_that_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00:00 +00:00"),
            (951_782_399, "2000-02-28 23:59:59 +00:00"),
            (951_782_400, "2000-02-29 00:00:00 +00:00"),
            (951_868_800, "2000-03-01 00:00:00 +00:00"),
            (1_795_423_512, "2026-11-23 08:45:12 +00:00"),
            (4_107_542_399, "2100-02-28 23:59:59 +00:00"),
            (4_107_542_400, "2100-03-01 00:00:00 +00:00"),
            (18_446_744_073, "2554-07-21 23:34:33 +00:00"),
        ] {
            assert_eq!(date(seconds * SECOND), expected, "{seconds}");
        }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut before = civil(0);
        for day in 1..200_000 {
            let (year, month, date) = civil(day);
            let is_next = (year, month, date) == (before.0, before.1, before.2 + 1);
            let is_next_month =
                date == 1 && before.2 >= 28 && (year, month) == (before.0, before.1 + 1);
            let is_next_year = (year, month, date) == (before.0 + 1, 1, 1) && before.1 == 12;
            assert!(is_next || is_next_month || is_next_year, "{before:?} {year} {month} {date}");
            before = (year, month, date);
        }
    }

    #[test]
    fn a_time_of_day_has_microseconds() {
        assert_eq!(time(1_795_423_512 * SECOND + 203_412_999), "08:45:12.203412");
        assert_eq!(time(0), "00:00:00.000000");
    }
}
