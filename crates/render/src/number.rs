//! Numbers for people: times, sizes, rates and shares with three significant digits.
//!
//! Nothing here panics or writes more than nine characters for any time or size: tables stay
//! aligned on hostile input.

use crate::style::Charset;

/// A time, as `43.1 ms`.
pub fn time(ns: u64, charset: Charset) -> String {
    scaled(ns as f64, &time_units(charset))
}

/// A size, as `78.1 KiB`; below 1 KiB it is exact.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        _ => scaled(bytes as f64, &SIZE_UNITS),
    }
}

/// A rate of bytes, as `9.21 KiB/s`.
pub fn rate(bytes_per_s: f64) -> String {
    format!("{}/s", scaled(bytes_per_s, &SIZE_UNITS))
}

/// The same rate as networks count it, as `75.4 kbit/s`.
pub fn bit_rate(bytes_per_s: f64) -> String {
    scaled(bytes_per_s * 8.0, &BIT_UNITS)
}

/// A figure in a sentence, with `at least` where it is a lower bound.
pub fn bound(figure: impl std::fmt::Display, is_lower_bound: bool) -> String {
    let at_least = if is_lower_bound { "at least " } else { "" };
    format!("{at_least}{figure}")
}

/// As `1 run`, `1,200 runs`.
pub fn counted(value: u64, one: &str) -> String {
    format!("{} {one}{}", count(value), if value == 1 { "" } else { "s" })
}

/// A whole number in groups of three digits, as `12,345`.
pub fn count(value: u64) -> String {
    in_threes(&value.to_string())
}

/// Decimal digits with a comma between each three.
pub(crate) fn in_threes(digits: &str) -> String {
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Tenths of a percent as `94.9 %`.
pub fn percent(tenths: u64) -> String {
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// `part` of `whole` as `94.9 %`; a share too small to show is `<0.1 %`, of nothing `?`.
pub fn percent_of(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "?".to_owned();
    }
    let tenths = (u128::from(part) * 2000 / u128::from(whole)).div_ceil(2);
    match u64::try_from(tenths).unwrap_or(u64::MAX) {
        0 if part > 0 => "<0.1 %".to_owned(),
        tenths => percent(tenths),
    }
}

/// When, relative to the trace's start, in seconds to the microsecond, as `+1.203412 s`.
pub fn since(start_ns: u64, at_ns: u64) -> String {
    let (sign, distance_ns) =
        if at_ns < start_ns { ('-', start_ns - at_ns) } else { ('+', at_ns - start_ns) };
    format!("{sign}{}.{:06} s", distance_ns / 1_000_000_000, distance_ns % 1_000_000_000 / 1000)
}

/// A mean as a whole number, for a quantity in base units; unknown when it is no number.
pub fn rounded(mean: f64) -> Option<u64> {
    mean.is_finite().then(|| mean.round().max(0.0) as u64)
}

/// Shares `total` out over `parts` in their proportion, so that the result adds up to `total`
/// exactly (the method of largest remainders). All zero when the parts are.
pub fn apportion(parts: &[u64], total: u64) -> Vec<u64> {
    let sum: u128 = parts.iter().map(|&part| u128::from(part)).sum();
    if sum == 0 {
        return vec![0; parts.len()];
    }
    let products: Vec<u128> =
        parts.iter().map(|&part| u128::from(part) * u128::from(total)).collect();
    // A part is at most the sum, so a quotient is at most `total`.
    let mut shares: Vec<u64> = products.iter().map(|product| (product / sum) as u64).collect();
    let missing = total - shares.iter().sum::<u64>();
    let mut by_remainder: Vec<usize> = (0..parts.len()).collect();
    by_remainder.sort_unstable_by_key(|&index| (std::cmp::Reverse(products[index] % sum), index));
    for &index in by_remainder.iter().take(usize::try_from(missing).unwrap_or(usize::MAX)) {
        shares[index] += 1;
    }
    shares
}

/// One unit for a whole column: name and value, chosen by the largest value in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ColumnUnit {
    /// Goes into the column's head.
    pub name: &'static str,
    factor: f64,
}

impl ColumnUnit {
    /// The unit for times up to `ns_max`.
    pub fn for_times(ns_max: u64, charset: Charset) -> Self {
        Self::choose(ns_max, &time_units(charset))
    }

    /// The unit for sizes up to `bytes_max`.
    pub fn for_sizes(bytes_max: u64) -> Self {
        Self::choose(bytes_max, &SIZE_UNITS)
    }

    /// `value` in this unit, at most three decimals; `<0.001` for a value that would look like 0.
    pub fn cell(self, value: u64) -> String {
        let scaled = value as f64 / self.factor;
        match value {
            0 => "0".to_owned(),
            _ if scaled < 0.001 => "<0.001".to_owned(),
            _ if scaled < 1.0 => format!("{scaled:.3}"),
            _ => significant(scaled),
        }
    }

    fn choose(max: u64, units: &[(f64, &'static str)]) -> Self {
        let (factor, name) = unit_for(max as f64, units);
        Self { name, factor }
    }
}

/// Base units in one of each unit, and its symbol. Seconds go to 9999; longer times are in days.
pub(crate) static TIME_UNITS: [(f64, &str); 5] =
    [(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s"), (86_400e9, "d")];

pub(crate) static SIZE_UNITS: [(f64, &str); 7] = [
    (1.0, "B"),
    (1024.0, "KiB"),
    (1048576.0, "MiB"),
    (1073741824.0, "GiB"),
    (1099511627776.0, "TiB"),
    (1125899906842624.0, "PiB"),
    (1152921504606846976.0, "EiB"),
];

pub(crate) static BIT_UNITS: [(f64, &str); 5] =
    [(1.0, "bit/s"), (1e3, "kbit/s"), (1e6, "Mbit/s"), (1e9, "Gbit/s"), (1e12, "Tbit/s")];

fn time_units(charset: Charset) -> [(f64, &'static str); 5] {
    let mut units = TIME_UNITS;
    if charset == Charset::Ascii {
        units[1].1 = "us";
    }
    units
}

fn scaled(value: f64, units: &[(f64, &'static str)]) -> String {
    if !value.is_finite() || value < 0.0 {
        return "?".to_owned();
    }
    let (factor, name) = unit_for(value, units);
    if factor == 1.0 && value.fract() == 0.0 {
        return format!("{value:.0} {name}");
    }
    format!("{} {name}", significant(value / factor))
}

/// The largest unit that `value`, as it will be printed, reaches.
fn unit_for(value: f64, units: &[(f64, &'static str)]) -> (f64, &'static str) {
    let reached = units.windows(2).take_while(|pair| printed_reaches(value, pair[0].0, pair[1]));
    units[reached.count()]
}

fn printed_reaches(value: f64, below: f64, (factor, name): (f64, &str)) -> bool {
    match name {
        "d" => value >= 9999.5e9,
        // 999.6 µs would be printed as 1000 µs: it belongs to the next unit already.
        _ => (value / below).round() * below >= factor,
    }
}

/// Three significant digits; all digits before the point.
fn significant(value: f64) -> String {
    match value {
        _ if value < 9.995 => format!("{value:.2}"),
        _ if value < 99.95 => format!("{value:.1}"),
        _ if value < 999_999.5 => format!("{value:.0}"),
        _ => format!("{value:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CELL_MAX: usize = 9;

    fn times(values: &[u64]) -> String {
        values.iter().map(|&ns| time(ns, Charset::Unicode)).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn times_have_three_significant_digits_and_change_unit_before_a_fourth() {
        insta::assert_snapshot!(
            times(&[0, 999, 1000, 9994, 9995, 99_950, 999_499, 999_500, 43_120_000, 999_600_000]),
            @"0 ns | 999 ns | 1.00 µs | 9.99 µs | 10.0 µs | 100 µs | 999 µs | 1.00 ms | 43.1 ms | 1.00 s"
        );
        insta::assert_snapshot!(times(&[9_999_000_000_000, 10_000_000_000_000]), @"9999 s | 0.12 d");
    }

    #[test]
    fn sizes_are_exact_below_1_kib() {
        let sizes: Vec<_> = [0, 1023, 1024, 80_000, 1 << 20, u64::MAX].map(size).into();
        insta::assert_snapshot!(sizes.join(" | "), @"0 B | 1023 B | 1.00 KiB | 78.1 KiB | 1.00 MiB | 16.0 EiB");
    }

    #[test]
    fn rates_of_nonsense_are_unknown() {
        assert_eq!(rate(f64::NAN), "?/s");
        assert_eq!(bit_rate(f64::INFINITY), "?");
        assert_eq!(bit_rate(9431.0), "75.4 kbit/s");
    }

    #[test]
    fn a_small_share_is_not_called_nothing() {
        let cells = [(0, 10), (1, 100_000), (1, 3), (10, 10), (1, 0)];
        let cells = cells.map(|(part, whole)| percent_of(part, whole));
        assert_eq!(cells, ["0.0 %", "<0.1 %", "33.3 %", "100.0 %", "?"]);
    }

    #[test]
    fn evidence_before_the_start_has_a_minus() {
        assert_eq!(since(5_000_000, 6_500_000), "+0.001500 s");
        assert_eq!(since(5_000_000, 3_500_000), "-0.001500 s");
    }

    #[test]
    fn a_column_keeps_one_unit() {
        let unit = ColumnUnit::for_times(8_170_000_000, Charset::Ascii);
        let cells = [8_170_000_000, 43_000_000, 12_000, 0].map(|ns| unit.cell(ns));
        assert_eq!((unit.name, cells.join(" ")), ("s", "8.17 0.043 <0.001 0".to_owned()));
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0, 1, 1000].map(|value| counted(value, "run")),
            ["0 runs", "1 run", "1,000 runs"]
        );
    }

    proptest! {
        #[test]
        fn every_time_and_size_fits_its_cell(value in any::<u64>(), shift in 0u32..64) {
            let value = value >> shift;
            prop_assert!(time(value, Charset::Unicode).chars().count() <= CELL_MAX);
            prop_assert!(size(value).chars().count() <= CELL_MAX);
            prop_assert!(ColumnUnit::for_times(value, Charset::Ascii).cell(value).len() <= CELL_MAX);
        }

        #[test]
        fn any_float_is_a_short_rate(value in any::<f64>()) {
            prop_assert!(rate(value).chars().count() <= 16);
            prop_assert!(bit_rate(value).chars().count() <= 16);
        }

        #[test]
        fn shares_add_up_and_stay_within_one_of_the_truth(
            parts in prop::collection::vec(any::<u64>(), 1..20),
            total in 0u64..100_000,
        ) {
            let shares = apportion(&parts, total);
            let sum: u128 = parts.iter().map(|&part| u128::from(part)).sum();
            prop_assert_eq!(shares.iter().sum::<u64>(), if sum == 0 { 0 } else { total });
            for (&part, &share) in parts.iter().zip(&shares).filter(|_| sum > 0) {
                let floor = u128::from(part) * u128::from(total) / sum;
                prop_assert!(u128::from(share) == floor || u128::from(share) == floor + 1);
            }
        }
    }
}
