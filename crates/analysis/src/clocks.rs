//! How well a time that begins on the clock of one host and ends on that of another is known.
//!
//! Times of one host are exact. Those of another one are moved to its clock, with an error inside a band. A stage with
//! its ends on two hosts is longer or shorter by the error.

/// The clocks of the hosts that recorded a trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum HostClocks {
    /// All times are of one clock.
    #[default]
    One,
    /// All but one host have a band: moments with their time, and by how much an event of the host may have been
    /// earlier and later, in nanoseconds. Straight lines between them contain the band.
    Bounded(Vec<Vec<[u64; 3]>>),
    /// The difference of some clocks is not known.
    Unknown,
}

/// Error of a time between two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uncertainty {
    /// Longer or shorter by so many nanoseconds at most.
    AtMost(u64),
    /// By any time.
    Unknown,
}

impl Uncertainty {
    /// Nanoseconds by which the time may be longer or shorter; `None` where no bound is known.
    pub fn at_most_ns(self) -> Option<u64> {
        match self {
            Self::AtMost(ns) => Some(ns),
            Self::Unknown => None,
        }
    }
}

impl HostClocks {
    /// Error of times between two hosts within an interval; `None` where there is one clock.
    pub(crate) fn between(&self, from_ns: u64, until_ns: u64) -> Option<Uncertainty> {
        match self {
            Self::One => None,
            Self::Unknown => Some(Uncertainty::Unknown),
            // With several bands the two hosts may be any of them: the errors add up.
            Self::Bounded(bands) => {
                let mut widest = bands.iter().map(|edges| widest_ns(edges, from_ns, until_ns));
                let sum = widest.try_fold(0_u64, |sum, one| Some(sum.saturating_add(one?)));
                Some(sum.map_or(Uncertainty::Unknown, Uncertainty::AtMost))
            }
        }
    }
}

/// The largest error in an interval, in either direction; `None` of a band without edges.
fn widest_ns(edges: &[[u64; 3]], from_ns: u64, until_ns: u64) -> Option<u64> {
    let first = edges.partition_point(|[at_ns, ..]| *at_ns <= from_ns).saturating_sub(1);
    let last =
        edges.partition_point(|[at_ns, ..]| *at_ns < until_ns).min(edges.len().checked_sub(1)?);
    edges.get(first.min(last)..=last)?.iter().map(|[_, early, late]| *early.max(late)).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Uncertainty::{AtMost, Unknown};

    #[test]
    fn the_error_is_that_of_the_widest_part_of_the_band_in_the_interval() {
        let edges = vec![[100, 9, 2], [200, 3, 4], [300, 1, 1], [400, 1, 6]];
        let of =
            |from_ns, until_ns| HostClocks::Bounded(vec![edges.clone()]).between(from_ns, until_ns);
        assert_eq!(of(100, 400), Some(AtMost(9)));
        assert_eq!(of(200, 300), Some(AtMost(4)));
        // Between two edges the wider one is the bound.
        assert_eq!(of(250, 260), Some(AtMost(4)));
        assert_eq!(of(301, 399), Some(AtMost(6)));
        // Events outside of the moved host's times have none of its own.
        assert_eq!(of(500, 600), Some(AtMost(6)));
        assert_eq!(of(0, 10), Some(AtMost(9)));
    }

    #[test]
    fn errors_of_several_hosts_add_up_and_one_that_is_unknown_makes_all_unknown() {
        let band = vec![[100, 9, 2], [200, 3, 4]];
        assert_eq!(HostClocks::Bounded(vec![band.clone(); 2]).between(100, 200), Some(AtMost(18)));
        assert_eq!(HostClocks::Bounded(vec![band, vec![]]).between(100, 200), Some(Unknown));
        assert_eq!(HostClocks::Unknown.between(1, 2), Some(Unknown));
        assert_eq!(HostClocks::One.between(1, 2), None);
    }
}
