//! A bound of the bundles that are kept.

use std::collections::VecDeque;

const HOUR_NS: u64 = 3_600_000_000_000;

/// Allows so many bundles in any hour.
#[derive(Debug)]
pub struct Quota {
    most: usize,
    /// Times of those that were allowed in the last hour.
    allowed: VecDeque<u64>,
    refused: u64,
}

impl Quota {
    /// With none kept yet.
    pub fn new(most: usize) -> Self {
        Self { most, allowed: VecDeque::new(), refused: 0 }
    }

    /// Whether one more is allowed now; it then counts.
    pub fn allows(&mut self, now_ns: u64) -> bool {
        while self.allowed.front().is_some_and(|at_ns| now_ns.saturating_sub(*at_ns) >= HOUR_NS) {
            self.allowed.pop_front();
        }
        if self.allowed.len() >= self.most {
            self.refused += 1;
            return false;
        }
        self.allowed.push_back(now_ns);
        true
    }

    /// Those that were refused since the start.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_hour_has_more() {
        let mut quota = Quota::new(2);
        let minutes = [0, 10, 20, 59, 60, 65, 70, 71];
        let allowed = minutes.map(|minute| quota.allows(minute * HOUR_NS / 60));
        assert_eq!(allowed, [true, true, false, false, true, false, true, false]);
        assert_eq!(quota.refused(), 4);
    }
}
