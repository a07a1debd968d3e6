//! Times of day as nanoseconds.

const DAY_NS: u64 = 86_400_000_000_000;

/// Reads times that go on past midnight.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    last_ns: Option<u64>,
    days: u64,
}

impl Clock {
    /// `23:12:40.911096` or `0.150001`, in nanoseconds; `None` when it is no time.
    ///
    /// A time of day more than half a day before the last one is on the next day.
    pub(crate) fn read(&mut self, text: &str) -> Option<u64> {
        let is_of_day = text.contains(':');
        let ns = if is_of_day { of_day(text)? } else { seconds(text)? };
        if is_of_day && self.last_ns.is_some_and(|last_ns| ns.saturating_add(DAY_NS / 2) < last_ns)
        {
            self.days += 1;
        }
        self.last_ns = Some(ns);
        (self.days * DAY_NS).checked_add(ns)
    }
}

fn of_day(text: &str) -> Option<u64> {
    let mut parts = text.splitn(3, ':');
    let (hours, minutes) = (number(parts.next()?)?, number(parts.next()?)?);
    let seconds_ns = seconds(parts.next()?)?;
    let is_time = hours < 24 && minutes < 60 && seconds_ns < 61_000_000_000;
    is_time.then(|| (hours * 60 + minutes) * 60_000_000_000 + seconds_ns)
}

/// Seconds with up to nine decimal places.
fn seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 9 {
        return None;
    }
    let fraction_ns = if fraction.is_empty() {
        0
    } else {
        number(fraction)? * 10u64.pow(9 - fraction.len() as u32)
    };
    number(whole)?.checked_mul(1_000_000_000)?.checked_add(fraction_ns)
}

fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_day_and_plain_seconds() {
        let read = |text| Clock::default().read(text);
        assert_eq!(read("00:00:01.5"), Some(1_500_000_000));
        assert_eq!(read("23:12:40.911096"), Some(83_560_911_096_000));
        assert_eq!(read("0.150001"), Some(150_001_000));
        assert_eq!(read("1700000000.123456789"), Some(1_700_000_000_123_456_789));
        for no_time in ["", ":", "24:00:00", "1:60:00", "1:2", "-1.0", "1.0000000001", "1e3", "+1"]
        {
            assert_eq!(read(no_time), None, "{no_time}");
        }
    }

    #[test]
    fn midnight_begins_another_day_and_disorder_does_not() {
        let mut clock = Clock::default();
        let times =
            ["23:59:59.9", "23:59:59.8", "00:00:00.1"].map(|text| clock.read(text).unwrap());
        assert_eq!(times, [86_399_900_000_000, 86_399_800_000_000, 86_400_100_000_000]);
    }
}
