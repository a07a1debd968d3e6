//! Hits that are in no list: as counted, and as told to the decoder.

use sockscope_record::{LossCounts, Point};

use crate::decode::point_of_raw;
use crate::layout::constants as raw;

/// Hits that are in no list, as counted so far.
#[derive(Clone, Default)]
pub(super) struct MissedHits {
    /// That found no room, by raw kind.
    pub(super) by_kind: Vec<u64>,
    /// The same of connections that other users asked for.
    pub(super) of_others: Vec<u64>,
    /// For which the kernel ran no probe, as the same one was under way on that CPU.
    pub(super) interrupted: LossCounts,
}

/// Hits missed by a time.
pub(super) struct LostByNow {
    /// What is counted later was lost after this.
    pub(super) since_ns: u64,
    pub(super) missed: MissedHits,
    /// What is counted was lost before this.
    pub(super) until_ns: u64,
}

impl LostByNow {
    pub(super) fn read(clock: impl Fn() -> u64, missed: impl FnOnce() -> MissedHits) -> Self {
        let since_ns = clock();
        let missed = missed();
        Self { since_ns, missed, until_ns: clock() }
    }
}

/// Hits missed of which the decoder knows. What is written down as lost is counted apart: a hit can be
/// lost between the two.
pub(super) struct Doubts {
    pub(super) missed: MissedHits,
    /// What is counted later was lost after this.
    pub(super) looked_ns: u64,
}

/// Which hits were lost since the last look.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fresh {
    /// That found no room.
    pub(super) any: bool,
    /// Of these points' hits.
    pub(super) points: Vec<Point>,
    /// The same of connections that other users asked for, if any found no room.
    pub(super) of_others: Option<Vec<Point>>,
    /// As of these points, by probes that were not run.
    pub(super) interrupted: Vec<Point>,
    /// Of datagrams at their sockets.
    pub(super) at_sockets: bool,
}

impl Doubts {
    /// What was lost since the last call, by what is counted now.
    pub(super) fn look(&mut self, now: MissedHits) -> Fresh {
        const AT_SOCKETS: [Point; 3] =
            [Point::InputDequeue, Point::ReceiveEnqueue, Point::ReceiveDequeue];
        let before = std::mem::replace(&mut self.missed, now);
        let now = &self.missed;
        let points = fresh_points(&before.by_kind, &now.by_kind);
        let of_others = (now.of_others != before.of_others)
            .then(|| fresh_points(&before.of_others, &now.of_others));
        let interrupted = now.interrupted.since(&before.interrupted).by_point();
        let interrupted = interrupted.filter(|(_, count)| *count > 0);
        let interrupted: Vec<_> = interrupted.filter_map(|(point, _)| point).collect();
        Fresh {
            any: now.by_kind != before.by_kind,
            at_sockets: points
                .iter()
                .chain(of_others.iter().flatten())
                .chain(&interrupted)
                .any(|point| AT_SOCKETS.contains(point)),
            points,
            of_others,
            interrupted,
        }
    }
}

/// The points of which more was counted than before.
fn fresh_points(before: &[u64], now: &[u64]) -> Vec<Point> {
    let is_fresh = |kind: &u8| now[usize::from(*kind)] > before[usize::from(*kind)];
    (0..raw::RAW_KINDS).filter(is_fresh).filter_map(point_of_raw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> Vec<u64> {
        vec![0; usize::from(raw::RAW_KINDS)]
    }

    #[test]
    fn what_is_lost_while_it_is_counted_lies_in_the_interval_told() {
        let now_ns = std::cell::Cell::new(10);
        let clock = || now_ns.replace(now_ns.get() + 1);
        let read = LostByNow::read(clock, || {
            now_ns.set(500);
            MissedHits { by_kind: vec![1], ..MissedHits::default() }
        });
        assert_eq!((read.since_ns, read.missed.by_kind, read.until_ns), (10, vec![1], 500));
    }

    #[test]
    fn a_loss_is_doubted_once_whatever_was_written_down_meanwhile() {
        let lost = |kind: u8, count| {
            let mut by_kind = none();
            by_kind[usize::from(kind)] = count;
            MissedHits { by_kind, of_others: none(), ..MissedHits::default() }
        };
        let mut doubts = Doubts { missed: lost(raw::RAW_COPY, 1), looked_ns: 0 };
        let fresh = |points: &[Point], at_sockets| Fresh {
            any: !points.is_empty(),
            points: points.to_vec(),
            of_others: None,
            interrupted: Vec::new(),
            at_sockets,
        };
        assert_eq!(doubts.look(lost(raw::RAW_COPY, 1)), fresh(&[], false));
        // Lost after this look, and written down before the next one.
        assert_eq!(doubts.look(lost(raw::RAW_COPY, 2)), fresh(&[Point::ReceiveDequeue], true));
        assert_eq!(doubts.look(lost(raw::RAW_COPY, 2)), fresh(&[], false));
        let mut doubts = Doubts { missed: lost(raw::RAW_TRANSMIT, 1), looked_ns: 0 };
        assert_eq!(
            doubts.look(lost(raw::RAW_TRANSMIT, 2)),
            fresh(&[Point::InterfaceDequeue], false)
        );
    }

    #[test]
    fn a_probe_that_was_not_run_is_doubted_as_of_its_point_and_asks_for_no_anchor() {
        let interrupted = |point, count| {
            let mut interrupted = LossCounts::default();
            interrupted.add(point, count);
            MissedHits { by_kind: none(), of_others: none(), interrupted }
        };
        let mut doubts = Doubts { missed: interrupted(None, 0), looked_ns: 0 };
        for (point, at_sockets) in [(Point::ReceiveEnqueue, true), (Point::InterfaceDequeue, false)]
        {
            let fresh = doubts.look(interrupted(Some(point), 2));
            assert_eq!(
                fresh,
                Fresh {
                    any: false,
                    points: vec![],
                    of_others: None,
                    interrupted: vec![point],
                    at_sockets
                }
            );
            doubts.missed = interrupted(None, 0);
        }
        // Beside the points there is nothing to doubt.
        let fresh = doubts.look(interrupted(None, 3));
        assert_eq!(
            fresh,
            Fresh {
                any: false,
                points: vec![],
                of_others: None,
                interrupted: vec![],
                at_sockets: false
            }
        );
    }

    #[test]
    fn hits_of_others_that_found_no_room_are_doubted_apart() {
        let lost = |count| {
            let mut of_others = none();
            of_others[usize::from(raw::RAW_COPY)] = count;
            MissedHits { by_kind: none(), of_others, ..MissedHits::default() }
        };
        let mut doubts = Doubts { missed: lost(1), looked_ns: 0 };
        let fresh = doubts.look(lost(2));
        assert_eq!((fresh.any, fresh.points), (false, vec![]));
        assert_eq!(fresh.of_others, Some(vec![Point::ReceiveDequeue]));
        assert_eq!(doubts.look(lost(2)).of_others, None);
    }
}
