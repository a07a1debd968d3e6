//! From values to pixels, and the ticks between: linear and logarithmic axes.
//!
//! Values are in the base unit of their [`Quantity`] (nanoseconds, bytes); pixels may run either
//! way, so that a y axis is a scale whose first pixel is its lower edge.

use crate::units::{Quantity, Unit, grouped};

/// A monotone map of `[low, high]` to pixels; values outside are drawn at the nearer end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    first_px: f64,
    last_px: f64,
    is_log: bool,
}

/// A mark on an axis: where, in base units, and its number.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// The value, in base units.
    pub at: f64,
    /// The number next to the tick, in the unit of the axis.
    pub label: String,
}

/// A scale with its ticks and the words next to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// From values to pixels.
    pub scale: Scale,
    /// In rising order.
    pub ticks: Vec<Tick>,
    /// Name, origin where it is not zero, and unit: `time (ms)`.
    pub label: String,
}

impl Scale {
    /// A linear scale. An empty or non-finite domain becomes one unit wide.
    pub fn linear(low: f64, high: f64, first_px: f64, last_px: f64) -> Self {
        let low = if low.is_finite() { low } else { 0.0 };
        let high = if high.is_finite() && high > low { high } else { low + 1.0 };
        Self { low, high, first_px, last_px, is_log: false }
    }

    /// A logarithmic scale over positive values; a domain that is not is moved to start at 1.
    pub fn log(low: f64, high: f64, first_px: f64, last_px: f64) -> Self {
        let low = if low.is_finite() && low > 0.0 { low } else { 1.0 };
        let high = if high.is_finite() && high > low { high } else { low * 10.0 };
        Self { low, high, first_px, last_px, is_log: true }
    }

    /// Smallest value on the scale.
    pub fn low(&self) -> f64 {
        self.low
    }

    /// Largest value on the scale.
    pub fn high(&self) -> f64 {
        self.high
    }

    /// The pixel of `value`, kept within the scale's ends.
    pub fn px(&self, value: f64) -> f64 {
        let value = if value.is_nan() { self.low } else { value.clamp(self.low, self.high) };
        let share = if self.is_log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.first_px + share * (self.last_px - self.first_px)
    }
}

impl Axis {
    /// A linear axis with about `ticks` ticks. Where the domain lies far from zero its numbers
    /// count from a named origin, which keeps them short.
    pub fn linear(
        name: &str,
        quantity: Quantity,
        (low, high): (f64, f64),
        (first_px, last_px): (f64, f64),
        ticks: usize,
    ) -> Self {
        let scale = Scale::linear(low, high, first_px, last_px);
        let span = scale.high - scale.low;
        let is_far = scale.low > 20.0 * span;
        let unit = quantity.axis_unit(if is_far { span } else { scale.high.max(-scale.low) });
        let step = whole_step(span, unit, ticks);
        let origin = if is_far { (scale.low / step).floor() * step } else { 0.0 };
        Self {
            scale,
            ticks: linear_ticks(&scale, step, origin, unit),
            label: axis_label(name, quantity, origin, unit),
        }
    }

    /// A linear axis from zero to a tick at or above `high`, for lengths of bars.
    pub fn from_zero(
        name: &str,
        quantity: Quantity,
        high: f64,
        px: (f64, f64),
        ticks: usize,
    ) -> Self {
        let high = if high.is_finite() && high > 0.0 { high } else { 1.0 };
        let unit = quantity.axis_unit(high);
        let step = whole_step(high, unit, ticks);
        Self::linear(name, quantity, (0.0, (high / step).ceil() * step), px, ticks)
    }

    /// An axis on which the values in `places` stand equally far apart, at 0, 1, 2 and so on.
    pub fn places(
        name: &str,
        quantity: Quantity,
        places: &[f64],
        (first_px, last_px): (f64, f64),
    ) -> Self {
        let last = places.len().saturating_sub(1) as f64;
        let unit = quantity.smallest_unit();
        let tick = |(index, value): (usize, &f64)| Tick {
            at: index as f64,
            label: grouped(&value.to_string()),
        };
        Self {
            scale: Scale::linear(0.0, last, first_px, last_px),
            ticks: places.iter().enumerate().map(tick).collect(),
            label: axis_label(name, quantity, 0.0, unit),
        }
    }

    /// A logarithmic axis with ticks at powers of two, for sizes and counts that people double.
    pub fn doubling(
        name: &str,
        quantity: Quantity,
        (low, high): (f64, f64),
        (first_px, last_px): (f64, f64),
    ) -> Self {
        const TICK_PX: f64 = 58.0;
        let scale = Scale::log(low, high, first_px, last_px);
        let (first, last) = (scale.low.log2().ceil() as i32, scale.high.log2().floor() as i32);
        let room = ((last_px - first_px).abs() / TICK_PX).max(1.0);
        let step = (f64::from(last - first) / room).ceil().max(1.0) as usize;
        let ticks = (first..=last).step_by(step).map(|exponent| {
            let at = 2f64.powi(exponent);
            Tick { at, label: plain_words(quantity, at) }
        });
        Self { scale, ticks: ticks.collect(), label: name.to_owned() }
    }

    /// A logarithmic axis with a tick at each power of ten, and at 2 and 5 where there is room.
    pub fn log(
        name: &str,
        quantity: Quantity,
        (low, high): (f64, f64),
        (first_px, last_px): (f64, f64),
    ) -> Self {
        let scale = Scale::log(low, high, first_px, last_px);
        let decades = (scale.high / scale.low).log10();
        let is_roomy = (last_px - first_px).abs() / decades > 150.0;
        let factors: &[f64] = if is_roomy { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let mut ticks = Vec::new();
        for exponent in scale.low.log10().floor() as i32..=scale.high.log10().ceil() as i32 {
            for factor in factors {
                let at = factor * 10f64.powi(exponent);
                if at >= scale.low * 0.999 && at <= scale.high * 1.001 {
                    ticks.push(Tick { at, label: short_words(quantity, at) });
                }
            }
        }
        let label = match quantity {
            Quantity::BitRate => format!("{name} (bit/s)"),
            Quantity::Rate => format!("{name} (1/s)"),
            _ => name.to_owned(),
        };
        Self { scale, ticks, label }
    }
}

/// The step of about `ticks` ticks over `span`, in base units, round in `unit`. Base units are
/// whole: there is no half byte, no half packet and no half nanosecond.
fn whole_step(span: f64, unit: Unit, ticks: usize) -> f64 {
    (tick_step(span / unit.per, ticks) * unit.per).max(1.0)
}

/// The step of about `ticks` ticks over `span`: 1, 2 or 5 times a power of ten.
pub fn tick_step(span: f64, ticks: usize) -> f64 {
    let rough = span / ticks.max(1) as f64;
    if !(rough.is_finite() && rough > 0.0) {
        return 1.0;
    }
    let power = 10f64.powi(rough.log10().floor() as i32);
    let factor = match rough / power {
        ratio if ratio <= 1.000_001 => 1.0,
        ratio if ratio <= 2.000_001 => 2.0,
        ratio if ratio <= 5.000_001 => 5.0,
        _ => 10.0,
    };
    factor * power
}

fn linear_ticks(scale: &Scale, step: f64, origin: f64, unit: Unit) -> Vec<Tick> {
    // A step too small to move a value so large would never end.
    if scale.high + step <= scale.high {
        return Vec::new();
    }
    let slack = step * 1e-6;
    let first = ((scale.low - origin - slack) / step).ceil() as i64;
    let last = ((scale.high - origin + slack) / step).floor() as i64;
    let shown_step = step / unit.per;
    let decimals = (-shown_step.log10().floor()).clamp(0.0, 9.0) as usize;
    (first..=last)
        .map(|index| {
            let number = format!("{:.decimals$}", index as f64 * shown_step);
            Tick { at: origin + index as f64 * step, label: grouped(&number) }
        })
        .collect()
}

fn axis_label(name: &str, quantity: Quantity, origin: f64, unit: Unit) -> String {
    let origin_words = match quantity {
        _ if origin == 0.0 => String::new(),
        Quantity::Time => format!(" after {} s", origin / 1e9),
        Quantity::Bytes => format!(" after {} B", grouped(&format!("{origin:.0}"))),
        Quantity::Count | Quantity::BitRate | Quantity::Rate | Quantity::Percent => {
            format!(" after {}", grouped(&format!("{origin:.0}")))
        }
    };
    match unit.symbol {
        "" => format!("{name}{origin_words}"),
        symbol => format!("{name}{origin_words} ({symbol})"),
    }
}

/// As [`plain_words`], of a rate without its unit, which the axis names: `20 M`.
fn short_words(quantity: Quantity, value: f64) -> String {
    let words = plain_words(quantity, value);
    let unit = match quantity {
        Quantity::BitRate => "bit/s",
        Quantity::Rate => "/s",
        _ => "",
    };
    words.strip_suffix(unit).unwrap_or(&words).trim_end().to_owned()
}

/// A round value in its own unit without needless zeros: `20 µs`.
fn plain_words(quantity: Quantity, value: f64) -> String {
    let words = quantity.words(value);
    match words.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(axis: &Axis) -> String {
        let ticks: Vec<_> = axis.ticks.iter().map(|tick| tick.label.as_str()).collect();
        format!("{}: {}", axis.label, ticks.join(" "))
    }

    #[test]
    fn ticks_are_round_and_carry_the_unit_once() {
        let axis = Axis::linear("time", Quantity::Time, (0.0, 43.1e6), (0.0, 700.0), 6);
        assert_eq!(labels(&axis), "time (ms): 0 10 20 30 40");
        let axis = Axis::from_zero("length", Quantity::Bytes, 70_000.0, (100.0, 0.0), 4);
        assert_eq!(labels(&axis), "length (KiB): 0 20 40 60 80");
    }

    #[test]
    fn far_from_zero_the_numbers_count_from_a_named_origin() {
        let axis = Axis::linear("time", Quantity::Time, (9e9, 9.000_05e9), (0.0, 700.0), 5);
        assert_eq!(labels(&axis), "time after 9 s (µs): 0 10 20 30 40 50");
    }

    #[test]
    fn a_log_axis_has_a_tick_each_decade() {
        let axis = Axis::log("delay", Quantity::Time, (1e3, 1e7), (0.0, 400.0));
        assert_eq!(labels(&axis), "delay: 1 µs 10 µs 100 µs 1 ms 10 ms");
        let axis = Axis::log("rate", Quantity::BitRate, (1e5, 1e8), (0.0, 400.0));
        assert_eq!(labels(&axis), "rate (bit/s): 100 k 1 M 10 M 100 M");
    }

    #[test]
    fn an_empty_or_impossible_domain_still_has_an_axis() {
        for domain in [(5.0, 5.0), (f64::NAN, f64::NAN), (0.0, f64::INFINITY), (3.0, -3.0)] {
            let axis = Axis::linear("time", Quantity::Time, domain, (0.0, 100.0), 5);
            assert!(axis.scale.px(1e300).is_finite(), "{domain:?}");
            assert!(axis.ticks.len() < 30, "{domain:?}");
        }
    }

    proptest! {
        #[test]
        fn a_scale_is_monotone_and_stays_within_its_pixels(
            low in -1e12..1e12f64, span in 1e-3..1e15f64, values in prop::array::uniform2(-1e18..1e18f64)
        ) {
            let scale = Scale::linear(low, low + span, 50.0, 750.0);
            let (least, most) = (values[0].min(values[1]), values[0].max(values[1]));
            prop_assert!(scale.px(least) <= scale.px(most));
            prop_assert!((50.0..=750.0).contains(&scale.px(values[0])));
        }

        #[test]
        fn ticks_are_few_lie_inside_and_rise(low in 0.0..1e15f64, span in 1.0..1e15f64, wanted in 2usize..10) {
            let axis = Axis::linear("x", Quantity::Time, (low, low + span), (0.0, 700.0), wanted);
            prop_assert!(axis.ticks.len() <= wanted + 2, "{axis:?}");
            let slack = span * 1e-3;
            for pair in axis.ticks.windows(2) {
                prop_assert!(pair[0].at < pair[1].at);
            }
            for tick in &axis.ticks {
                prop_assert!(tick.at >= low - slack && tick.at <= low + span + slack);
            }
        }

        #[test]
        fn an_axis_from_zero_reaches_its_largest_value(high in 0.5..1e13f64) {
            for quantity in [Quantity::Time, Quantity::Bytes, Quantity::Count] {
                let axis = Axis::from_zero("y", quantity, high, (100.0, 0.0), 4);
                prop_assert!(axis.scale.high() >= high * 0.999_999);
                prop_assert!(axis.ticks.len() >= 2, "{axis:?}");
            }
        }

        #[test]
        fn a_log_scale_is_monotone(low in 1.0..1e6f64, decades in 0.1..9.0f64, share in 0.0..1.0f64) {
            let high = low * 10f64.powf(decades);
            let scale = Scale::log(low, high, 0.0, 500.0);
            let middle = low * (high / low).powf(share);
            prop_assert!((scale.px(middle) - 500.0 * share).abs() < 1e-6);
        }
    }
}
