//! Columns of curves as short text, for the script of the page to read.
//!
//! A list is base64 of numbers of 7 bits a byte, the low ones first (as in LEB128). A signed number is twice itself, or
//! twice its distance from -1 plus 1.
//!
//! A curve: a number `8 * skip + flags`, then the changed column. `skip` columns before it stay at the value before. Flag
//! 1: its last value is unknown; else the difference from the value before follows. Flag 2: its smallest value differs
//! from the last one, and the distance follows. Flag 4: likewise the largest one. Columns after the end stay as they are.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sockscope_analysis::{Columns, LedgerPart};

const LAST_UNKNOWN: u64 = 1;
const HAS_MIN: u64 = 2;
const HAS_MAX: u64 = 4;

/// A list of numbers.
#[derive(Debug, Default)]
pub(super) struct Packed {
    bytes: Vec<u8>,
}

impl Packed {
    pub(super) fn put(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    fn put_signed(&mut self, number: i64) {
        self.put(((number << 1) ^ (number >> 63)) as u64);
    }

    pub(super) fn text(&self) -> String {
        STANDARD.encode(&self.bytes)
    }
}

/// Rising times, nanoseconds after `start_ns`.
pub(super) fn times(times_ns: &[u64], start_ns: u64) -> String {
    let mut packed = Packed::default();
    let mut before_ns = start_ns;
    for &at_ns in times_ns {
        packed.put(at_ns.saturating_sub(before_ns));
        before_ns = before_ns.max(at_ns);
    }
    packed.text()
}

/// A value of a curve: positions and lengths are whole numbers.
fn whole(value: f64) -> Option<i64> {
    (!value.is_nan()).then_some(value as i64)
}

/// The columns of one curve; `None` where nothing of it is known.
pub(super) fn curve(columns: &Columns) -> Option<String> {
    let mut packed = Packed::default();
    let (mut base, mut before, mut skip, mut is_known) = (0, None, 0, false);
    for ((&min, &max), &last) in columns.min.iter().zip(&columns.max).zip(&columns.last) {
        let (min, max, last) = (whole(min), whole(max), whole(last));
        if (min, max, last) == (before, before, before) {
            skip += 1;
            continue;
        }
        is_known |= max.is_some();
        let reference = last.unwrap_or(base);
        let (low, high) = (min.unwrap_or(reference), max.unwrap_or(reference));
        // Without a last value, both show that there were known ones.
        let is_ended = last.is_none() && max.is_some();
        let mut flags = if last.is_none() { LAST_UNKNOWN } else { 0 };
        flags |= if low != reference || is_ended { HAS_MIN } else { 0 };
        flags |= if high != reference || is_ended { HAS_MAX } else { 0 };
        packed.put(8 * skip + flags);
        if let Some(last) = last {
            packed.put_signed(last.wrapping_sub(base));
            base = last;
        }
        if flags & HAS_MIN != 0 {
            packed.put_signed(reference.wrapping_sub(low));
        }
        if flags & HAS_MAX != 0 {
            packed.put_signed(high.wrapping_sub(reference));
        }
        (before, skip) = (last, 0);
    }
    is_known.then(|| packed.text())
}

/// The ledger: of each column `2 * place` where the byte was in one place all the time. Else `2 * places + 1`, and for each
/// of them its number and its share in thousandths.
pub(super) fn ledger(columns: &[[u64; LedgerPart::ALL.len()]]) -> String {
    let mut packed = Packed::default();
    for column in columns {
        let total_ns: u64 = column.iter().sum();
        let places = column.iter().enumerate().filter(|(_, ns)| **ns > 0);
        let count = places.clone().count() as u64;
        if let (1, Some((place, _))) = (count, places.clone().next()) {
            packed.put(2 * place as u64);
            continue;
        }
        packed.put(2 * count + 1);
        for (place, ns) in places {
            packed.put(place as u64);
            // A place with any time shows.
            let share = u128::from(*ns) * 1000 / u128::from(total_ns.max(1));
            packed.put((share as u64).max(1));
        }
    }
    packed.text()
}

/// Marks at times in order: nanoseconds after the one before, position and length.
pub(super) fn marks(marks: &[(u64, u64, u32)], start_ns: u64) -> String {
    let mut packed = Packed::default();
    let (mut before_ns, mut before) = (start_ns, 0);
    for &(at_ns, offset, len) in marks {
        packed.put(at_ns.saturating_sub(before_ns));
        packed.put_signed(offset.wrapping_sub(before) as i64);
        packed.put(len.into());
        (before_ns, before) = (before_ns.max(at_ns), offset);
    }
    packed.text()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads as the script of the page does.
    struct Reader(Vec<u8>, usize);

    impl Reader {
        fn new(text: &str) -> Self {
            Self(STANDARD.decode(text).unwrap(), 0)
        }

        fn next(&mut self) -> Option<u64> {
            let (mut number, mut shift) = (0, 0);
            loop {
                let byte = *self.0.get(self.1)?;
                self.1 += 1;
                number |= u64::from(byte & 0x7f) << shift;
                if byte < 0x80 {
                    return Some(number);
                }
                shift += 7;
            }
        }

        fn signed(&mut self) -> i64 {
            let number = self.next().unwrap();
            (number >> 1) as i64 ^ -((number & 1) as i64)
        }
    }

    fn unpacked(text: &str, count: usize) -> Columns {
        let mut reader = Reader::new(text);
        let mut columns = Columns::default();
        let put = |columns: &mut Columns, [min, max, last]: [f64; 3]| {
            columns.min.push(min);
            columns.max.push(max);
            columns.last.push(last);
        };
        let (mut base, mut before) = (0_i64, f64::NAN);
        while let Some(head) = reader.next() {
            (0..head / 8).for_each(|_| put(&mut columns, [before; 3]));
            if head & LAST_UNKNOWN == 0 {
                base += reader.signed();
            }
            before = if head & LAST_UNKNOWN == 0 { base as f64 } else { f64::NAN };
            let (mut min, mut max) = (before, before);
            if head & HAS_MIN != 0 {
                min = (base - reader.signed()) as f64;
            }
            if head & HAS_MAX != 0 {
                max = (base + reader.signed()) as f64;
            }
            put(&mut columns, [min, max, before]);
        }
        while columns.min.len() < count {
            put(&mut columns, [before; 3]);
        }
        columns
    }

    fn whole_columns(columns: &Columns) -> Vec<[Option<i64>; 3]> {
        let rows = columns.min.iter().zip(&columns.max).zip(&columns.last);
        rows.map(|((min, max), last)| [min, max, last].map(|value| whole(*value))).collect()
    }

    #[test]
    fn a_steady_curve_takes_three_bytes() {
        let columns = Columns { min: vec![5.0; 4000], max: vec![5.0; 4000], last: vec![5.0; 4000] };
        assert_eq!(STANDARD.decode(curve(&columns).unwrap()).unwrap(), [0, 10]);
        let unknown = vec![f64::NAN; 9];
        let columns = Columns { min: unknown.clone(), max: unknown.clone(), last: unknown };
        assert_eq!(curve(&columns), None);
    }

    #[test]
    fn a_column_of_the_ledger_has_a_place_or_shares() {
        let mut columns = [[0; LedgerPart::ALL.len()]; 2];
        columns[0][4] = 7;
        (columns[1][0], columns[1][2]) = (999_999, 1);
        let mut reader = Reader::new(&ledger(&columns));
        let numbers: Vec<_> = std::iter::from_fn(|| reader.next()).collect();
        assert_eq!(numbers, [8, 5, 0, 999, 2, 1]);
    }

    proptest! {
        #[test]
        fn columns_read_back_as_they_are(
            cells in prop::collection::vec(
                (prop::option::weighted(0.9, 0i64..1 << 40), 0i64..3, 0i64..3, any::<bool>()), 1..60)
        ) {
            let mut columns = Columns::default();
            for (last, below, above, is_ended) in cells {
                let value = |by: i64| last.map_or(f64::NAN, |last| (last + by) as f64);
                columns.min.push(value(-below));
                columns.max.push(value(above));
                columns.last.push(if is_ended && above == 1 { f64::NAN } else { value(0) });
            }
            let Some(text) = curve(&columns) else {
                prop_assert!(columns.max.iter().all(|value| value.is_nan()));
                return Ok(());
            };
            let back = unpacked(&text, columns.min.len());
            prop_assert_eq!(whole_columns(&back), whole_columns(&columns));
        }
    }
}
