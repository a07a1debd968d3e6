//! Times, rates, sizes and shares as people write them: `20ms`, `100mbit`, `64kb`, `1%`.

use std::fmt;
use std::str::FromStr;

use crate::error::SettingsError;

/// An interval of time, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Interval(pub u64);

/// A rate, in bits per second; never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bandwidth(pub u64);

/// A size, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// A probability, in parts of 2^32: from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Share(u64);

const CERTAIN: u64 = 1 << 32;

impl Share {
    /// Never.
    pub const ZERO: Self = Self(0);
    /// Always.
    pub const ONE: Self = Self(CERTAIN);

    /// `None` outside of 0 to 1.
    pub fn new(share: f64) -> Option<Self> {
        (0.0..=1.0).contains(&share).then(|| Self((share * CERTAIN as f64).round() as u64))
    }

    /// From 0 to 2^32.
    pub(crate) fn of_2_32(self) -> u64 {
        self.0
    }

    /// From 0 to 1.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / CERTAIN as f64
    }
}

/// The number of `text` times the factor of its unit; without a unit only 0.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%' || c == 'µ');
    let number: f64 = digits.trim().parse().ok()?;
    let unit = text[digits.len()..].to_ascii_lowercase();
    if unit.is_empty() && number == 0.0 {
        return Some(0.0);
    }
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    let value = number * factor;
    (value.is_finite() && value >= 0.0).then_some(value)
}

fn refused(text: &str, kind: &'static str, example: &'static str) -> SettingsError {
    SettingsError::Quantity { text: text.to_owned(), kind, example }
}

impl FromStr for Interval {
    type Err = SettingsError;

    /// `20ms`, with one of the units `ns`, `us`, `ms` and `s`; at most a day.
    fn from_str(text: &str) -> Result<Self, SettingsError> {
        const DAY_NS: f64 = 86_400e9;
        let units = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
        let ns = scaled(text, &units).filter(|ns| *ns <= DAY_NS);
        ns.map(|ns| Self(ns.round() as u64)).ok_or_else(|| refused(text, "time", "20ms"))
    }
}

impl FromStr for Bandwidth {
    type Err = SettingsError;

    /// `100mbit`, with one of the units `bit`, `kbit`, `mbit` and `gbit` (a second; powers of 1,000).
    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let units = [("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
        let bits = scaled(text, &units).map(f64::round).filter(|bits| (1.0..=1e12).contains(bits));
        bits.map(|bits| Self(bits as u64)).ok_or_else(|| refused(text, "rate", "100mbit"))
    }
}

impl FromStr for Bytes {
    type Err = SettingsError;

    /// `64kb`, with one of the units `b`, `kb` and `mb` (powers of 1,000), `kib` and `mib` (of 1,024).
    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let units = [("b", 1.0), ("kb", 1e3), ("mb", 1e6), ("kib", 1_024.0), ("mib", 1_048_576.0)];
        let bytes =
            scaled(text, &units).map(f64::round).filter(|bytes| (1.0..=1e12).contains(bytes));
        bytes.map(|bytes| Self(bytes as u64)).ok_or_else(|| refused(text, "size", "64kb"))
    }
}

impl FromStr for Share {
    type Err = SettingsError;

    /// `1%`, from 0 to 100.
    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let share = scaled(text, &[("%", 0.01)]).and_then(Self::new);
        share.ok_or_else(|| refused(text, "probability", "1%"))
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000 => write!(f, "{}ns", self.0),
            1_000..1_000_000 => write!(f, "{}us", self.0 as f64 / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{}ms", self.0 as f64 / 1e6),
            _ => write!(f, "{}s", self.0 as f64 / 1e9),
        }
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000 => write!(f, "{}bit", self.0),
            1_000..1_000_000 => write!(f, "{}kbit", self.0 as f64 / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{}mbit", self.0 as f64 / 1e6),
            _ => write!(f, "{}gbit", self.0 as f64 / 1e9),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Parts of 2^32 have up to ten digits; six of them are those that were given.
        let percent = format!("{:.6}", self.as_f64() * 100.0);
        write!(f, "{}%", percent.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantities_have_their_units() {
        let ns =
            ["0", "15ns", "1.5us", "20ms", "2s"].map(|text| text.parse::<Interval>().unwrap().0);
        assert_eq!(ns, [0, 15, 1_500, 20_000_000, 2_000_000_000]);
        let bits = ["9600bit", "56kbit", "1.5mbit", "10GBIT"];
        let bits = bits.map(|text| text.parse::<Bandwidth>().unwrap().0);
        assert_eq!(bits, [9_600, 56_000, 1_500_000, 10_000_000_000]);
        let bytes = ["1500b", "64kb", "64kib", "1mib"].map(|text| text.parse::<Bytes>().unwrap().0);
        assert_eq!(bytes, [1_500, 64_000, 65_536, 1_048_576]);
        let shares = ["0%", "0", "50%", "100%"].map(|text| text.parse::<Share>().unwrap().as_f64());
        assert_eq!(shares, [0.0, 0.0, 0.5, 1.0]);
    }

    #[test]
    fn others_are_refused_with_an_example() {
        for text in ["", "ms", "20", "-1ms", "20 parsec", "nan s", "inf s", "1e300s", "2 days"] {
            let error = text.parse::<Interval>().unwrap_err().to_string();
            assert_eq!(error, format!("{text:?} is no time; write it as 20ms"));
        }
        assert!("0mbit".parse::<Bandwidth>().is_err(), "a rate of 0 would end nothing");
        assert!("101%".parse::<Share>().is_err() && "0.5".parse::<Share>().is_err());
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_again(ns in 0u64..1 << 46, bits in 1u64..1 << 39, parts in 0u32..1_000_000) {
            let close = |left: u64, right: u64| left.abs_diff(right) <= right >> 40;
            prop_assert!(close(Interval(ns).to_string().parse::<Interval>().unwrap().0, ns));
            prop_assert!(close(Bandwidth(bits).to_string().parse::<Bandwidth>().unwrap().0, bits));
            let share = Share::new(f64::from(parts) / 1e6).unwrap();
            prop_assert_eq!(share.to_string().parse::<Share>().unwrap(), share);
        }
    }
}
