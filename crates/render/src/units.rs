//! Units that suit a value, and values as words: times in ns, µs, ms, s and sizes in B, KiB, MiB.

use crate::number::{self, BIT_UNITS, SIZE_UNITS, TIME_UNITS, in_threes};
use crate::style::Charset;

/// Quantity of an axis or a value, in its base unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Nanoseconds.
    Time,
    /// Bytes.
    Bytes,
    /// Things counted.
    Count,
    /// Bits a second.
    BitRate,
    /// Events a second.
    Rate,
    /// Hundredths of a whole.
    Percent,
}

/// A unit to print in: its size in base units, and its symbol.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    /// Base units in one of it.
    pub per: f64,
    /// Its symbol; empty for numbers of things.
    pub symbol: &'static str,
}

impl Quantity {
    /// The units of its axes, smallest first: the largest are s, TiB and Gbit/s.
    fn units(self) -> &'static [(f64, &'static str)] {
        match self {
            Self::Time => &TIME_UNITS[..4],
            Self::Bytes => &SIZE_UNITS[..5],
            Self::Count => &[(1.0, "")],
            Self::BitRate => &BIT_UNITS[..4],
            Self::Rate => &[(1.0, "1/s")],
            Self::Percent => &[(1.0, "%")],
        }
    }

    /// The unit of values that are shown as they are.
    pub fn smallest_unit(self) -> Unit {
        self.unit_of(0.0, 1.0)
    }

    /// The largest unit with `span` of at least `at_least` units; without one, the smallest.
    fn unit_of(self, span: f64, at_least: f64) -> Unit {
        let units = self.units();
        let reached = units.iter().rev().find(|(per, _)| span >= per * at_least);
        let &(per, symbol) = reached.unwrap_or(&units[0]);
        Unit { per, symbol }
    }

    /// The unit for the ticks of an axis that covers `span` base units: at least 1.5 of it fit,
    /// so that the ticks need no long fractions.
    pub fn axis_unit(self, span: f64) -> Unit {
        self.unit_of(span, 1.5)
    }

    /// A value with its unit, in three significant digits, as everywhere in reports: `40.2 ms`.
    pub fn words(self, value: f64) -> String {
        // The cast saturates, and makes 0 of a value that is no number.
        let whole = value.round() as u64;
        match self {
            Self::Time => number::time(whole, Charset::Unicode),
            Self::Bytes => number::size(whole),
            Self::Count => number::count(whole),
            Self::BitRate => number::bit_rate(value / 8.0),
            Self::Rate => format!("{}/s", number::count(whole)),
            Self::Percent => format!("{} %", number::count(whole)),
        }
    }
}

/// A number in decimal digits, with a comma between each three digits of its whole part.
pub fn grouped(number: &str) -> String {
    let (sign, number) = match number.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", number),
    };
    let (whole, fraction) = number.split_at(number.find('.').unwrap_or(number.len()));
    format!("{sign}{}{fraction}", in_threes(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped_and_fractions_are_not() {
        let numbers = ["1", "1234", "-1234567", "999", "1000.0625"];
        assert_eq!(numbers.map(grouped), ["1", "1,234", "-1,234,567", "999", "1,000.0625"]);
    }

    #[test]
    fn an_axis_unit_leaves_room_for_ticks() {
        assert_eq!(Quantity::Time.axis_unit(1.2e6).symbol, "µs");
        assert_eq!(Quantity::Time.axis_unit(1.6e6).symbol, "ms");
        assert_eq!(Quantity::Bytes.axis_unit(0.0).symbol, "B");
        assert_eq!(Quantity::Bytes.axis_unit(65_536.0).symbol, "KiB");
    }
}
