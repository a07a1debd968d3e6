//! Sequence numbers: 32 bits that wrap.
//!
//! Before and after mean anything only for numbers less than 2^31 apart (RFC 9293 §3.4), which
//! windows of up to 30 bits guarantee for every number of a sane connection.

use std::ops::{Add, AddAssign, Sub};

/// A TCP sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seq(pub u32);

impl Seq {
    /// The distance from `earlier` to this number; negative when this one is before it.
    pub fn since(self, earlier: Self) -> i32 {
        self.0.wrapping_sub(earlier.0) as i32
    }

    /// Whether this number is before the other.
    pub fn is_before(self, other: Self) -> bool {
        self.since(other) < 0
    }

    /// Whether this number is after the other.
    pub fn is_after(self, other: Self) -> bool {
        self.since(other) > 0
    }

    /// The later of two numbers.
    #[must_use]
    pub fn later(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }
}

impl Add<u32> for Seq {
    type Output = Self;

    fn add(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl Sub<u32> for Seq {
    type Output = Self;

    fn sub(self, bytes: u32) -> Self {
        Self(self.0.wrapping_sub(bytes))
    }
}

impl AddAssign<u32> for Seq {
    fn add_assign(&mut self, bytes: u32) {
        *self = *self + bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn order_holds_across_the_wrap() {
        let last = Seq(u32::MAX);
        assert!(last.is_before(last + 1) && (last + 1).is_after(last));
        assert_eq!((last + 5).since(last), 5);
        assert_eq!(last.since(last + 5), -5);
        assert_eq!(last.later(Seq(3)), Seq(3));
        assert_eq!(Seq(3) - 4, last);
    }

    proptest! {
        #[test]
        fn numbers_less_than_half_the_circle_apart_are_ordered(start: u32, by in 1u32..1 << 31) {
            let (first, second) = (Seq(start), Seq(start) + by);
            prop_assert!(first.is_before(second) && second.is_after(first));
            prop_assert!(!first.is_after(second) && !second.is_before(first));
            prop_assert_eq!(second.since(first), by as i32);
            prop_assert_eq!(first.later(second), second);
        }
    }
}
