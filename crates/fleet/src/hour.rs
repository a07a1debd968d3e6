//! Hours and days of the wall clock (UTC).

/// Nanoseconds of an hour.
pub(crate) const HOUR_NS: u64 = 3_600_000_000_000;

/// The folder of a time since 1970: `day=2026-11-27/hour=09`.
pub(crate) fn folder(at_ns: u64) -> String {
    let hours = at_ns / HOUR_NS;
    let (year, month, day) = date(hours / 24);
    format!("day={year:04}-{month:02}-{day:02}/hour={:02}", hours % 24)
}

/// The date of a day since 1970, by the Gregorian calendar.
fn date(mut day: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    loop {
        let days = if is_leap(year) { 366 } else { 365 };
        if day < days {
            break;
        }
        (day, year) = (day - days, year + 1);
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < days {
            break;
        }
        (day, month) = (day - days, month + 1);
    }
    (year, month, day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_the_folder_of_its_hour() {
        let at = |seconds: u64| folder(seconds * 1_000_000_000);
        assert_eq!(at(0), "day=1970-01-01/hour=00");
        assert_eq!(at(951_868_799), "day=2000-02-29/hour=23");
        assert_eq!(at(1_795_771_800), "day=2026-11-27/hour=09");
    }
}
