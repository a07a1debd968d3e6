//! A trace of the times at which a line can send.

use std::str::FromStr;

use crate::error::SettingsError;

const MS: u64 = 1_000_000;

/// Times at which a line can send 1,500 bytes, as in a trace of Mahimahi. They repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opportunities {
    /// Nanoseconds from the begin, in order; the last one is the length of the trace and above 0.
    at_ns: Vec<u64>,
}

impl FromStr for Opportunities {
    type Err = SettingsError;

    /// A time in milliseconds on each line. Several lines with one time send as many packets then.
    fn from_str(text: &str) -> Result<Self, SettingsError> {
        const WEEK_MS: u64 = 7 * 86_400_000;
        let mut at_ns: Vec<u64> = Vec::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let ms = line.trim().parse::<u64>().ok().filter(|ms| *ms <= WEEK_MS);
            let ns = ms.map(|ms| ms * MS).filter(|ns| at_ns.last().is_none_or(|last| last <= ns));
            at_ns.push(ns.ok_or(SettingsError::Trace { line: index + 1 })?);
        }
        match at_ns.last() {
            None | Some(0) => Err(SettingsError::EmptyTrace),
            Some(_) => Ok(Self { at_ns }),
        }
    }
}

impl Opportunities {
    fn period_ns(&self) -> u64 {
        self.at_ns.last().copied().unwrap_or(MS)
    }

    /// Of the opportunity with this number, from 0 on, through all repetitions.
    pub(crate) fn time_ns(&self, number: u64) -> u64 {
        let length = self.at_ns.len() as u64;
        let at_ns = self.at_ns[(number % length) as usize];
        (number / length).saturating_mul(self.period_ns()).saturating_add(at_ns)
    }

    /// The number of the first one at `at_ns` or later.
    pub(crate) fn first_at(&self, at_ns: u64) -> u64 {
        let length = self.at_ns.len() as u64;
        // A time at the end of a period may also be that of an opportunity at 0 of the next one.
        let round = (at_ns / self.period_ns()).saturating_sub(1);
        let mut number = round * length;
        while self.time_ns(number + length - 1) < at_ns {
            number += length;
        }
        let within = at_ns.saturating_sub(number / length * self.period_ns());
        number + self.at_ns.partition_point(|time_ns| *time_ns < within) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_that_sends_nothing_or_runs_backwards_is_refused() {
        for text in ["", "\n\n", "0", "0\n0"] {
            assert_eq!(text.parse::<Opportunities>(), Err(SettingsError::EmptyTrace));
        }
        for (text, line) in [("1\nx", 2), ("5\n\n4", 3), ("-1", 1), ("9999999999999999", 1)] {
            assert_eq!(text.parse::<Opportunities>(), Err(SettingsError::Trace { line }));
        }
    }
}
