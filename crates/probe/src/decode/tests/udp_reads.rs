//! Missed reads of datagrams never make the records of the others wrong.

use std::collections::{HashMap, VecDeque};

use proptest::prelude::*;
use sockscope_record::{Kind, Point, Record, marks};

use super::super::Decoder;
use super::{Fields, empty, open};
use crate::layout::constants as raw;

const SOCKET: u32 = 1;
const THREAD: u32 = 7;
const FLOWS: [u32; 2] = [2, 3];

/// One step of a socket; a read of an empty queue does nothing.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A datagram arrives, of one of two flows.
    Comes { flow: usize, len: u32 },
    /// A datagram arrives that is not logged.
    Unlogged,
    /// A read that a probe records, and whether the number left stays the same meanwhile.
    Read { is_left_known: bool },
    /// A read that no probe sees.
    Missed,
}

/// A datagram, by flow and position; `None` if it is not logged.
type Datagram = Option<(u32, u64)>;

/// The real socket, and the decoder with a part of its hits.
struct Truth {
    decoder: Decoder,
    queue: VecDeque<(Datagram, u32)>,
    positions: [u64; 2],
    left_ns: HashMap<(u32, u64), u64>,
    missed: u64,
    now_ns: u64,
}

impl Truth {
    /// A socket whose first datagram was read at once.
    fn new() -> Self {
        let mut decoder = empty();
        decoder.event(&open(1, 17));
        let (queue, left_ns) = (VecDeque::new(), HashMap::new());
        let mut truth = Self { decoder, queue, positions: [0; 2], left_ns, missed: 0, now_ns: 10 };
        truth.step(Step::Comes { flow: 0, len: 90 });
        truth.step(Step::Read { is_left_known: true });
        truth
    }

    fn hit(&mut self, kind: u8, hit: Fields) {
        let hit = Fields { at_ns: self.now_ns, kind, marks: raw::MARK_UDP, ..hit };
        self.decoder.raw(0, &hit.raw());
    }

    fn step(&mut self, step: Step) {
        self.now_ns += 10;
        match step {
            Step::Comes { flow, len } => self.comes(flow, len),
            Step::Unlogged => self.queue.push_back((None, 90)),
            Step::Missed => self.missed += u64::from(self.take().is_some()),
            Step::Read { is_left_known } => {
                let Some(len) = self.take() else { return };
                let left_plus_one = if is_left_known { self.queue.len() as u32 + 1 } else { 0 };
                let read = Fields { flow: FLOWS[0], len, socket: SOCKET, ..Fields::default() };
                self.hit(raw::RAW_COPY, Fields { thread: THREAD, left_plus_one, ..read });
            }
        }
    }

    fn comes(&mut self, flow: usize, len: u32) {
        let hit = Fields { flow: FLOWS[flow], len, ..Fields::default() };
        self.hit(raw::RAW_RECEIVE, Fields { buffer: 1, ..hit });
        self.hit(raw::RAW_READY, Fields { socket: SOCKET, ..hit });
        self.queue.push_back((Some((FLOWS[flow], self.positions[flow])), len));
        self.positions[flow] += u64::from(len);
    }

    /// Takes a datagram, and returns its length.
    fn take(&mut self) -> Option<u32> {
        let (datagram, len) = self.queue.pop_front()?;
        self.left_ns.extend(datagram.map(|datagram| (datagram, self.now_ns)));
        Some(len)
    }

    /// Every reported read took place then; each datagram reported as gone had left.
    fn check(&mut self) -> Result<(), TestCaseError> {
        let reported = self.decoder.records().iter().filter(|record| record.point() == READ);
        for Record { at_ns, flow, offset, marks, .. } in reported.copied() {
            let left_ns = self.left_ns.get(&(flow.0, offset)).copied();
            if marks & marks::DERIVED == 0 {
                prop_assert_eq!(Some(at_ns), left_ns, "{:?} {}", flow, offset);
            } else {
                prop_assert!(
                    left_ns.is_some_and(|left_ns| left_ns <= at_ns),
                    "{left_ns:?} {at_ns}"
                );
            }
        }
        Ok(())
    }

    /// Reads reported with their time.
    fn placed(&mut self) -> u64 {
        let is_placed =
            |record: &&Record| record.point() == READ && !record.is_marked(marks::DERIVED);
        self.decoder.records().iter().filter(is_placed).count() as u64
    }

    /// Datagrams that losses count.
    fn lost(&mut self) -> u64 {
        let losses = self.decoder.records().iter().filter(|record| record.kind == Kind::Loss);
        losses.filter(|loss| loss.is_marked(marks::DERIVED)).map(|loss| loss.detail).sum()
    }
}

const READ: Option<Point> = Some(Point::ReceiveDequeue);

fn comes() -> impl Strategy<Value = Step> {
    (0..2_usize, prop_oneof![Just(90_u32), Just(91), 1_u32..200])
        .prop_map(|(flow, len)| Step::Comes { flow, len })
}

fn read() -> impl Strategy<Value = Step> {
    prop::bool::weighted(0.8).prop_map(|is_left_known| Step::Read { is_left_known })
}

fn seen() -> impl Strategy<Value = Step> {
    Just(Step::Read { is_left_known: true })
}

fn steps(one: impl Strategy<Value = Step>) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(one, 1..120)
}

#[test]
fn a_read_behind_missed_announcements_is_not_of_the_last_one_that_was_announced() {
    let is_placed = |doubt: fn(&mut Decoder, u64)| {
        let mut truth = Truth::new();
        truth.step(Step::Comes { flow: 0, len: 90 });
        truth.decoder.records().clear();
        doubt(&mut truth.decoder, truth.now_ns);
        truth.step(Step::Read { is_left_known: true });
        let is_read = |record: &Record| {
            record.kind == Kind::ReceiveDequeue && !record.is_marked(marks::DERIVED)
        };
        truth.decoder.records().iter().any(is_read)
    };
    assert!(is_placed(Decoder::mark_reads_uncertain));
    assert!(!is_placed(Decoder::mark_announcements_uncertain));
}

proptest! {
    /// Each read shows the number left: only the datagrams with a missed read are unknown.
    #[test]
    fn reads_missed_and_not_counted_cost_their_own_datagrams(
        steps in steps(prop_oneof![6 => comes(), 5 => seen(), 1 => Just(Step::Missed)]),
    ) {
        let mut truth = Truth::new();
        let reads = 1 + steps.iter().filter(|step| matches!(step, Step::Missed)).count() as u64;
        steps.into_iter().for_each(|step| truth.step(step));
        while !truth.queue.is_empty() {
            truth.step(Step::Read { is_left_known: true });
        }
        // Shows that those missed last are gone.
        truth.step(Step::Comes { flow: 0, len: 90 });
        truth.step(Step::Read { is_left_known: true });
        truth.check()?;
        let missed = truth.missed;
        prop_assert!(missed < reads);
        prop_assert_eq!((truth.lost(), truth.decoder.take_unplaced_reads()), (missed, missed));
        let left = truth.left_ns.len() as u64;
        prop_assert_eq!(truth.placed() + missed, left);
    }

    /// Some reads do not show the number left, but the recorder knows between which looks it lost some.
    #[test]
    fn reads_missed_and_counted_never_make_others_wrong(
        looks in prop::collection::vec(
            steps(prop_oneof![6 => comes(), 5 => read(), 1 => Just(Step::Missed)]), 1..6),
    ) {
        let mut truth = Truth::new();
        for look in looks {
            if look.iter().any(|step| matches!(step, Step::Missed)) {
                let until_ns = truth.now_ns + 10 * look.len() as u64;
                truth.decoder.mark_reads_uncertain(until_ns);
            }
            look.into_iter().for_each(|step| truth.step(step));
            truth.check()?;
        }
        truth.decoder.detaching(truth.now_ns);
        truth.decoder.check_gaps();
        truth.check()?;
        let read = truth.left_ns.len() as u64;
        prop_assert!(truth.placed() + truth.lost() >= read, "what was read waits to the end");
    }

    /// Datagrams that are not logged arrive at the same socket, or waited there before.
    #[test]
    fn datagrams_that_nobody_logs_never_make_others_wrong(
        waited in 0..4_usize,
        steps in steps(prop_oneof![6 => comes(), 6 => seen(), 1 => Just(Step::Unlogged)]),
    ) {
        let mut truth = Truth::new();
        (0..waited).for_each(|_| truth.step(Step::Unlogged));
        steps.into_iter().for_each(|step| truth.step(step));
        truth.check()?;
        // Once they have gone, all is known again.
        for _ in 0..=truth.queue.len() {
            truth.step(Step::Comes { flow: 0, len: 90 });
            truth.step(Step::Read { is_left_known: true });
        }
        let expected = truth.placed() + u64::from(!truth.queue.is_empty());
        truth.step(Step::Read { is_left_known: true });
        truth.check()?;
        prop_assert_eq!(truth.placed(), expected);
    }
}
