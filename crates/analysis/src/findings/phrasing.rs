//! The phrases of findings: times, sizes and sides.

use sockscope_record::statistics::percentile;
use sockscope_record::{Connection, Side};

pub(super) use sockscope_record::counted;

use crate::{Evidence, Finding};

/// `850 ns`, `12.5 us`, `40.2 ms`, `1.35 s`: three figures, as a reader takes them in.
pub(super) fn time(ns: u64) -> String {
    let ns_f = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} us", three_figures(ns_f / 1e3)),
        1_000_000..1_000_000_000 => format!("{} ms", three_figures(ns_f / 1e6)),
        _ => format!("{} s", three_figures(ns_f / 1e9)),
    }
}

/// Bytes in a time as `47.9 Mbit/s`; nothing where no time passed.
pub(super) fn bit_rate(bytes: u64, ns: u64) -> Option<String> {
    let bits_per_s = (ns > 0).then(|| bytes as f64 * 8e9 / ns as f64)?;
    Some(match bits_per_s {
        0.0..1e3 => format!("{bits_per_s:.0} bit/s"),
        1e3..1e6 => format!("{} kbit/s", three_figures(bits_per_s / 1e3)),
        1e6..1e9 => format!("{} Mbit/s", three_figures(bits_per_s / 1e6)),
        _ => format!("{} Gbit/s", three_figures(bits_per_s / 1e9)),
    })
}

fn three_figures(value: f64) -> String {
    match value {
        0.0..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// `part` of `whole` as `42 %`; 0 % of nothing.
pub(super) fn percent(part: u64, whole: u64) -> String {
    let share = if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    format!("{:.0} %", share * 100.0)
}

/// The mean of `count` times as `40.2 ms on average`; of a single one there is no average.
pub(super) fn on_average(total_ns: u64, count: u64) -> String {
    match count {
        1 => time(total_ns),
        _ => format!("{} on average", time(total_ns / count.max(1))),
    }
}

/// The spread of several times: `43.6 ms to 44.4 ms, median 44.0 ms`; `44.0 ms each` where three figures are
/// the same for all; of a single one its time; nothing of none.
pub(super) fn spread(times_ns: impl IntoIterator<Item = u64>) -> String {
    let mut times_ns: Vec<u64> = times_ns.into_iter().collect();
    times_ns.sort_unstable();
    let [least, median, most] =
        [0, 50, 100].map(|percent| percentile(&times_ns, percent).map(time));
    let (Some(least), Some(median), Some(most)) = (least, median, most) else {
        return String::new();
    };
    match times_ns.len() {
        1 => least,
        _ if least == most => format!("{least} each"),
        _ => format!("{least} to {most}, median {median}"),
    }
}

/// `client (python3, pid 812)`; the side alone when no process was seen there.
pub(super) fn who(connection: &Connection, side: Side) -> String {
    let process = connection.processes.iter().find(|process| process.side == side);
    match process {
        Some(process) => format!("{} ({}, pid {})", side.name(), process.comm, process.pid),
        None => side.name().to_owned(),
    }
}

/// `curl`; the side where no process was seen there.
pub(super) fn program(connection: &Connection, side: Side) -> &str {
    let process = connection.processes.iter().find(|process| process.side == side);
    process.map_or(side.name(), |process| &process.comm)
}

/// Evidence in the order of discovery; text for a full list is not even formatted.
#[derive(Debug, Default)]
pub(super) struct Notes(Vec<Evidence>);

impl Notes {
    pub(super) fn add(&mut self, at_ns: u64, text: impl FnOnce() -> String) {
        if self.0.len() < Finding::EVIDENCE_MAX {
            self.0.push(Evidence { at_ns, text: text() });
        }
    }

    /// The evidence, earliest first.
    pub(super) fn into_evidence(mut self) -> Vec<Evidence> {
        self.0.sort_by_key(|evidence| evidence.at_ns);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_figures_and_the_unit_that_suits() {
        let said = [999, 1_000, 12_345, 999_999, 40_200_000, 1_350_000_000].map(time);
        assert_eq!(said, ["999 ns", "1.00 us", "12.3 us", "1000 us", "40.2 ms", "1.35 s"]);
    }

    #[test]
    fn times_of_several_have_their_range_and_median() {
        let said = |ms: &[u64]| spread(ms.iter().map(|ms| ms * 1_000_000));
        assert_eq!(said(&[44]), "44.0 ms");
        assert_eq!(said(&[44, 44]), "44.0 ms each");
        // A mean would be 147 ms, which none of them took.
        assert_eq!(said(&[40, 41, 42, 465]), "40.0 ms to 465 ms, median 41.0 ms");
        assert_eq!(said(&[]), "");
    }

    #[test]
    fn a_share_of_nothing_is_none() {
        assert_eq!([percent(1, 3), percent(5, 0)], ["33 %", "0 %"]);
    }
}
