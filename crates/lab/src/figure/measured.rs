//! The meaning of a number's name.
//!
//! Its end is the unit: `_bytes`, `_ns`, `_us`, `_ms`, `_s`, `_bits_per_s`, `_per_s`, `_percent`.

use sockscope_render::units::Quantity;
use toml::Value;

/// The meaning of a name for its number.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measured {
    /// The name in words, without its unit.
    pub words: String,
    /// The quantity.
    pub quantity: Quantity,
    /// Base units in one of the name's.
    pub factor: f64,
}

impl Measured {
    pub(super) fn of(name: &str) -> Self {
        const ENDS: [(&str, Quantity, f64); 8] = [
            ("_bits_per_s", Quantity::BitRate, 1.0),
            ("_per_s", Quantity::Rate, 1.0),
            ("_bytes", Quantity::Bytes, 1.0),
            ("_percent", Quantity::Percent, 1.0),
            ("_ns", Quantity::Time, 1.0),
            ("_us", Quantity::Time, 1e3),
            ("_ms", Quantity::Time, 1e6),
            ("_s", Quantity::Time, 1e9),
        ];
        let (stem, part) = name.split_once('.').unwrap_or((name, ""));
        // `seconds.uiomove`: the routine makes the difference.
        if stem == "seconds" {
            return Self { words: part.to_owned(), quantity: Quantity::Time, factor: 1e9 };
        }
        let found = ENDS.iter().find_map(|(end, quantity, factor)| {
            Some((stem.strip_suffix(end)?, *quantity, *factor))
        });
        let (stem, quantity, factor) = found.unwrap_or((stem, Quantity::Count, 1.0));
        let words = format!("{} {part}", stem.replace('_', " "));
        // The number of values in a distribution is not one of them.
        let quantity = if part == "n" { Quantity::Count } else { quantity };
        Self { words: words.trim_end().to_owned(), quantity, factor }
    }

    /// The name of the quantity on an axis that several names share.
    pub(super) fn quantity_words(&self) -> &'static str {
        match self.quantity {
            Quantity::Time => "time",
            Quantity::Bytes => "size",
            Quantity::Count => "number",
            Quantity::BitRate => "throughput",
            Quantity::Rate => "rate",
            Quantity::Percent => "share",
        }
    }
}

/// A number of any type.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_unit() {
        let told = |name| {
            let Measured { words, quantity, factor } = Measured::of(name);
            (words, quantity, factor)
        };
        assert_eq!(told("read_delay_us"), ("read delay".to_owned(), Quantity::Time, 1e3));
        assert_eq!(told("cells_per_s"), ("cells".to_owned(), Quantity::Rate, 1.0));
        assert_eq!(told("call_ns.p50"), ("call p50".to_owned(), Quantity::Time, 1.0));
        assert_eq!(told("call_ns.n"), ("call n".to_owned(), Quantity::Count, 1.0));
        assert_eq!(told("clients"), ("clients".to_owned(), Quantity::Count, 1.0));
    }
}
