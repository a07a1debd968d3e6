//! The time of one host's clock on another's clock, with the band in which the truth is.

use std::fmt;

use serde::{Deserialize, Serialize};
use sockscope_record::{ClockBounds, ClockLine, ClockPairs};

/// A recording is halved at most so often where the clocks' rates are not steady.
const HALVINGS_MAX: u32 = 6;

/// Parts of the band's edges in each part of a recording.
const PARTS: u64 = 16;

/// How well the clock of a host is known on the clock of another one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ClockBand {
    /// The host whose times were moved.
    pub host: String,
    /// The host on whose clock they are.
    pub base: String,
    /// Segments from that host, and to it, that bound the difference of the clocks.
    pub segments: [u64; 2],
    /// Parts of the recording in each of which one straight line fits.
    pub lines: u32,
    /// Least and greatest rate by which the host's clock is slower, in parts per billion, over all parts.
    pub slower_ppb: [i64; 2],
    /// The edges of the band, which are straight between these moments.
    pub edges: Vec<ClockEdge>,
}

/// The band at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ClockEdge {
    /// Time of the trace, nanoseconds.
    pub at_ns: u64,
    /// An event of the host with this time may have been earlier by this, nanoseconds.
    pub early_ns: u64,
    /// And later by this, nanoseconds.
    pub late_ns: u64,
}

impl ClockBand {
    /// By how much an event of the host at this time may have been earlier and later, nanoseconds. `None` outside the
    /// recording.
    pub fn at(&self, at_ns: u64) -> Option<(u64, u64)> {
        let next = self.edges.partition_point(|edge| edge.at_ns <= at_ns);
        let before = self.edges.get(next.checked_sub(1)?)?;
        if before.at_ns == at_ns {
            return Some((before.early_ns, before.late_ns));
        }
        let after = self.edges.get(next)?;
        let between = |from: u64, to: u64| {
            let (part, whole) = (at_ns - before.at_ns, after.at_ns - before.at_ns);
            let change = (i128::from(to) - i128::from(from)) * i128::from(part);
            let ns = i128::from(from) + change.div_euclid(i128::from(whole)) + 1;
            u64::try_from(ns).unwrap_or(0)
        };
        Some((between(before.early_ns, after.early_ns), between(before.late_ns, after.late_ns)))
    }

    /// The same band where all times are moved.
    pub(crate) fn on_clock(&self, moved: impl Fn(u64) -> u64) -> Self {
        let edges = self.edges.iter().map(|edge| ClockEdge { at_ns: moved(edge.at_ns), ..*edge });
        Self { edges: edges.collect(), ..self.clone() }
    }

    /// The side that is a trace of several hosts, merged before, by their names. The band is that of the hosts between
    /// which the segments went: times of the other hosts have the errors of both bands.
    pub fn with_merged(&self) -> Option<&str> {
        [&self.host, &self.base].into_iter().find(|name| name.contains(" + ")).map(String::as_str)
    }

    /// The widest part of the band: earlier and later, nanoseconds.
    pub fn widest_ns(&self) -> (u64, u64) {
        let most = |of: fn(&ClockEdge) -> u64| self.edges.iter().map(of).max().unwrap_or(0);
        (most(|edge| edge.early_ns), most(|edge| edge.late_ns))
    }
}

impl fmt::Display for NoBand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OneDirection => {
                "no TCP segments of a connection that both saw open went in both directions"
            }
            Self::NoLine => "the segments between them fit no steady clocks",
            Self::Missed => "records are missing, so that the segments between them bound nothing",
        })
    }
}

/// A segment that left one host and reached the other; nanoseconds, each of its own host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Crossing {
    /// On the clock of the host whose times are to be moved.
    pub(crate) moved_ns: u64,
    /// On the clock to which they are moved.
    pub(crate) base_ns: u64,
}

/// The clock of a host on another one, in parts with a line each.
#[derive(Debug, Clone)]
pub(crate) struct HostClock {
    parts: Vec<Part>,
    segments: [u64; 2],
}

#[derive(Debug, Clone)]
struct Part {
    /// First and last time of the moved clock.
    from_ns: u64,
    until_ns: u64,
    /// Of the moved clock minus the other one, and the line in their middle.
    bounds: ClockBounds,
    line: ClockLine,
}

impl Part {
    /// From the crossings in it. `None` without one in each direction, and where no line fits.
    fn of([from_moved, to_moved]: [&[Crossing]; 2], [from_ns, until_ns]: [u64; 2]) -> Option<Self> {
        let mut pairs = ClockPairs::default();
        for it in to_moved {
            pairs.from_first(it.base_ns.cast_signed(), it.moved_ns.cast_signed());
        }
        for it in from_moved {
            pairs.from_second(it.moved_ns.cast_signed(), it.base_ns.cast_signed());
        }
        let bounds = pairs.bounds().filter(|bounds| bounds.is_consistent)?;
        Some(Self { from_ns, until_ns, line: bounds.line(), bounds })
    }

    fn moved(&self, at_ns: u64) -> u64 {
        minus(at_ns, self.line.at(at_ns.cast_signed()))
    }

    /// The earliest and the latest time on the other clock.
    fn range(&self, at_ns: u64) -> (u64, u64) {
        let (lowest, highest) = self.bounds.range_at(at_ns.cast_signed());
        (minus(at_ns, highest), minus(at_ns, lowest))
    }

    /// The least and the greatest rate, parts per billion by which the moved clock is slower.
    fn slower_ppb(&self) -> [i64; 2] {
        let (slowest, fastest) = self.bounds.drift();
        [(-fastest * 1e9).floor() as i64, (-slowest * 1e9).ceil() as i64]
    }
}

fn minus(at_ns: u64, difference_ns: i64) -> u64 {
    at_ns.saturating_add_signed(difference_ns.saturating_neg())
}

/// Why the difference of two clocks is not bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoBand {
    /// There is no segment in one of the directions.
    OneDirection,
    /// No lines fit: a clock was set, or times are wrong.
    NoLine,
    /// A host missed records, or some of its records are damaged.
    Missed,
}

impl HostClock {
    /// From segments from the host and to it, for times of its clock from `from_ns` to `until_ns`.
    pub(crate) fn of(
        mut from_moved: Vec<Crossing>,
        mut to_moved: Vec<Crossing>,
        [from_ns, until_ns]: [u64; 2],
    ) -> Result<Self, NoBand> {
        if from_moved.is_empty() || to_moved.is_empty() {
            return Err(NoBand::OneDirection);
        }
        from_moved.sort_unstable();
        to_moved.sort_unstable();
        let segments = [from_moved.len(), to_moved.len()].map(|count| count as u64);
        let mut parts = Vec::new();
        let fits =
            add_parts(&mut parts, [&from_moved, &to_moved], [from_ns, until_ns], HALVINGS_MAX);
        if fits { Ok(Self { parts, segments }) } else { Err(NoBand::NoLine) }
    }

    /// A time of the host on the other clock. Later times are never earlier there.
    pub(crate) fn moved(&self, at_ns: u64) -> u64 {
        let next = self.parts.partition_point(|part| part.from_ns <= at_ns).max(1);
        let [before, part] = match self.parts[..next] {
            [.., ref before, ref part] => [Some(before), Some(part)],
            [ref part] => [None, Some(part)],
            [] => return at_ns,
        };
        let end_ns = before.map_or(0, |before| before.moved(before.until_ns));
        part.map_or(at_ns, |part| part.moved(at_ns)).max(end_ns)
    }

    /// The band, for the description of a bundle.
    pub(crate) fn band(&self, host: &str, base: &str) -> ClockBand {
        let mut edges: Vec<ClockEdge> = Vec::new();
        let mut slower_ppb = [i64::MAX, i64::MIN];
        for part in &self.parts {
            let length_ns = part.until_ns.saturating_sub(part.from_ns);
            for step in 0..=PARTS {
                let share = u128::from(length_ns) * u128::from(step) / u128::from(PARTS);
                let own_ns = part.from_ns + share as u64;
                let at_ns = self.moved(own_ns);
                let (earliest_ns, latest_ns) = part.range(own_ns);
                let edge = ClockEdge {
                    at_ns,
                    early_ns: at_ns.saturating_sub(earliest_ns),
                    late_ns: latest_ns.saturating_sub(at_ns),
                };
                match edges.last_mut().filter(|last| last.at_ns == at_ns) {
                    Some(last) => {
                        last.early_ns = last.early_ns.max(edge.early_ns);
                        last.late_ns = last.late_ns.max(edge.late_ns);
                    }
                    None => edges.push(edge),
                }
            }
            let [least, most] = part.slower_ppb();
            slower_ppb = [slower_ppb[0].min(least), slower_ppb[1].max(most)];
        }
        ClockBand {
            host: host.to_owned(),
            base: base.to_owned(),
            segments: self.segments,
            lines: self.parts.len() as u32,
            slower_ppb,
            edges,
        }
    }
}

/// Adds the part in which these crossings are, in halves where no line fits them all. Returns whether lines fit.
fn add_parts(
    parts: &mut Vec<Part>,
    [from_moved, to_moved]: [&[Crossing]; 2],
    [from_ns, until_ns]: [u64; 2],
    halvings: u32,
) -> bool {
    if let Some(part) = Part::of([from_moved, to_moved], [from_ns, until_ns]) {
        parts.push(part);
        return true;
    }
    let times =
        |crossings: &[Crossing]| Some([crossings.first()?.moved_ns, crossings.last()?.moved_ns]);
    let (Some([a, b]), Some([c, d])) = (times(from_moved), times(to_moved)) else { return false };
    let middle_ns = u64::midpoint(a.min(c), b.max(d));
    if halvings == 0 || middle_ns <= from_ns || middle_ns >= until_ns {
        return false;
    }
    let cut = |crossings: &[Crossing]| crossings.partition_point(|it| it.moved_ns <= middle_ns);
    let (left_from, right_from) = from_moved.split_at(cut(from_moved));
    let (left_to, right_to) = to_moved.split_at(cut(to_moved));
    add_parts(parts, [left_from, left_to], [from_ns, middle_ns], halvings - 1)
        && add_parts(parts, [right_from, right_to], [middle_ns + 1, until_ns], halvings - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Round trips of 40 ns every millisecond of a host whose clock is behind by `behind` at that millisecond.
    fn clock(behind: impl Fn(u64) -> u64) -> Result<HostClock, NoBand> {
        let (mut from_moved, mut to_moved) = (Vec::new(), Vec::new());
        for ms in 1..100 {
            let moved_ns = ms * 1_000_000;
            to_moved.push(Crossing { moved_ns, base_ns: moved_ns + behind(ms) - 10 });
            from_moved.push(Crossing { moved_ns, base_ns: moved_ns + behind(ms) + 30 });
        }
        HostClock::of(from_moved, to_moved, [0, 100_000_000])
    }

    #[test]
    fn a_steady_clock_has_one_line() {
        let band = clock(|ms| 5_000 + ms * 10).unwrap().band("b", "a");
        assert_eq!((band.lines, band.segments), (1, [99, 99]));
        let [least, most] = band.slower_ppb;
        assert!(least <= 10_000 && 10_000 <= most, "{least} {most}");
        let (early, late) = band.at(50_000_000).unwrap();
        assert!(early + late < 50 && early > 0 && late > 0, "{early} {late}");
    }

    #[test]
    fn a_clock_that_is_slewed_has_several_lines_and_times_stay_in_order() {
        let clock = clock(|ms| 5_000 + if ms < 50 { ms * 100 } else { 5_000 }).unwrap();
        assert!(clock.parts.len() > 1);
        let moved: Vec<u64> = (0..1_000).map(|at| clock.moved(at * 100_000)).collect();
        assert!(moved.is_sorted());
        let truth = |ns: u64| ns + 5_000 + if ns < 50_000_000 { ns / 10_000 } else { 5_000 };
        let band = clock.band("b", "a");
        for ns in (1_000_000..99_000_000).step_by(1_000_000) {
            let at_ns = clock.moved(ns);
            let (early, late) = band.at(at_ns).unwrap();
            let (low, high) = (at_ns - early, at_ns + late);
            assert!(low <= truth(ns) && truth(ns) <= high, "{ns}: {low} {} {high}", truth(ns));
        }
    }

    #[test]
    fn a_clock_that_is_set_again_and_again_has_no_band() {
        assert_eq!(clock(|ms| 5_000 + ms % 2 * 900_000).err(), Some(NoBand::NoLine));
    }
}
