//! Any segmentation and any order of hits that a path allows conserves bytes; no hit panics.

use proptest::prelude::*;
use sockscope_record::{FlowId, Point, Record};

use super::{CLIENT_FIRST, Decoder, Fields, empty, open, opened, reported, state};
use crate::layout::{RawAny, RawEvent, RawOption, RawRecord, constants as raw};

/// The stages of a path in order, with the hits that they make.
const PATH: [u8; 6] = [
    raw::RAW_WRITE,
    raw::RAW_TRANSMIT,
    raw::RAW_INPUT,
    raw::RAW_RECEIVE,
    raw::RAW_READY,
    raw::RAW_COPY,
];

/// One stage moves on by some bytes: as many as it may, but no more than the stage before did.
#[derive(Debug, Clone, Copy)]
struct Move {
    stage: usize,
    bytes: u32,
    skipped: bool,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = (0..PATH.len(), 1u32..5000).prop_map(|(stage, bytes)| Move {
        stage,
        bytes,
        skipped: false,
    });
    prop::collection::vec(one, 1..200)
}

/// Makes the moves, and those that bring every byte to the reader; `writes` marks the hits of write calls.
fn run(decoder: &mut Decoder, moves: &[Move], writes: u8) -> u32 {
    let mut reached = [0u32; PATH.len()];
    let rest = (0..PATH.len()).map(|stage| Move { stage, bytes: u32::MAX, skipped: false });
    for (at_ns, step) in (10u64..).zip(moves.iter().copied().chain(rest)) {
        let from = reached[step.stage];
        let before = if step.stage == 0 { from } else { reached[step.stage - 1] };
        let may = if step.stage == 0 && step.bytes < u32::MAX { u32::MAX } else { before - from };
        let bytes = step.bytes.min(may);
        reached[step.stage] += bytes;
        if bytes > 0 && !step.skipped {
            decoder.raw(0, &hit(at_ns, PATH[step.stage], from, bytes, writes));
        }
    }
    reached[0]
}

fn hit(at_ns: u64, kind: u8, from: u32, len: u32, writes: u8) -> RawRecord {
    let is_position = kind == raw::RAW_READY || kind == raw::RAW_COPY;
    let seq = CLIENT_FIRST + from + if is_position { len } else { 0 };
    let marks = match kind {
        raw::RAW_WRITE => writes,
        raw::RAW_READY => raw::MARK_WAITED_FOR,
        _ => 0,
    };
    // A reader got its CPU just before.
    let last_arrival_ns = at_ns - 1;
    let hit = Fields { at_ns, flow: 2, kind, seq, len, marks, snd_cwnd: 10, ..Fields::default() };
    Fields { run_delay_ns: 10, last_arrival_ns, ..hit }.raw()
}

fn passed(records: &[Record], point: Point) -> Vec<(u64, u64)> {
    let of_point = records.iter().filter(|r| r.point() == Some(point) && r.flow == FlowId(2));
    of_point.filter(|record| record.len > 0).map(|r| (r.offset, r.end())).collect()
}

proptest! {
    #[test]
    fn every_point_passes_every_byte_once_and_in_order(moves in moves()) {
        let mut decoder = opened();
        let total = run(&mut decoder, &moves, raw::MARK_ROOM);
        decoder.check_gaps();
        decoder.check_gaps();
        decoder.finish();
        for point in Point::ALL {
            let mut reached = 0;
            for (from, to) in passed(reported(&mut decoder), point) {
                prop_assert_eq!(from, reached, "{:?}", point);
                reached = to;
            }
            prop_assert_eq!(reached, u64::from(total), "{:?}", point);
        }
        prop_assert_eq!(decoder.take_gaps().total(), 0);
    }

    #[test]
    fn only_what_is_learnt_later_stands_behind_a_later_time(
        moves in moves(), changes in prop::collection::vec(10u64..200, 0..5),
    ) {
        let mut decoder = opened();
        decoder.calibrate(0);
        for at_ns in changes {
            decoder.event(&RawEvent { at_ns, ..state(3, 8, 5000, 1200) });
        }
        run(&mut decoder, &moves, 0);
        decoder.finish();
        let ordered = decoder.records().iter().filter(|record| record.is_in_order());
        prop_assert!(ordered.is_sorted_by_key(|record| record.at_ns), "{:?}", decoder.records());
    }

    #[test]
    fn a_skipped_packet_is_found_at_the_points_that_missed_it(
        moves in moves(), at in 0usize..200, len in 1u32..2000,
    ) {
        // Each packet is seen at a point at least once, or the point could be one that is not there.
        let seen = (0..PATH.len()).map(|stage| Move { stage, bytes: 10, skipped: false });
        let written = [Move { stage: 0, bytes: len, skipped: false }];
        let drained = (1..=3).map(|stage| Move { stage, bytes: u32::MAX, skipped: false });
        let missed = (1..=3).map(|stage| Move { stage, bytes: len, skipped: true });
        let (first, second) = moves.split_at(at.min(moves.len()));
        let all: Vec<Move> = seen
            .chain(first.iter().copied())
            .chain(drained)
            .chain(written)
            .chain(missed)
            .chain(second.iter().copied())
            .collect();
        let mut decoder = opened();
        run(&mut decoder, &all, raw::MARK_ROOM);
        decoder.check_gaps();
        decoder.check_gaps();
        let holes = decoder.take_gaps().points;
        prop_assert_eq!(&holes[..3], [0, 1, 1]);
        prop_assert_eq!(&holes[3..], [1, 1, 1, 0, 0]);
    }

    #[test]
    fn no_hit_and_no_event_panics(steps in prop::collection::vec(hostile(), 1..200)) {
        let mut decoder = empty();
        decoder.calibrate(i64::MIN);
        decoder.event(&open(1, 6));
        decoder.event(&state(2, 1, u32::MAX, 0));
        for step in steps {
            match step {
                Step::Hit(hit) => decoder.raw(3, &hit),
                Step::Event(event) => decoder.event(&event),
                Step::Option(option) => decoder.option(&option),
                Step::Look => decoder.check_gaps(),
                Step::Expire(now_ns) => decoder.expire(now_ns),
            }
        }
        decoder.finish();
        decoder.take_changed();
    }
}

#[derive(Debug, Clone)]
enum Step {
    Hit(RawRecord),
    Event(Box<RawEvent>),
    Option(RawOption),
    Look,
    Expire(u64),
}

/// Numbers near the limits of their type, or any.
fn edge() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..3u64,
        any::<u64>(),
        (0..3u64).prop_map(|n| u64::MAX - n),
        any::<u32>().prop_map(u64::from)
    ]
}

fn hostile() -> impl Strategy<Value = Step> {
    let hit = (prop::array::uniform8(edge()), any::<[u8; 3]>(), 0u8..16).prop_map(
        |([at_ns, flow, seq, len, ack, window, b, c], [code, tcp_flags, marks], kind)| {
            let any = RawAny {
                at_ns,
                flow: flow as u32 & if marks & 128 != 0 { u32::MAX } else { 3 },
                words: [seq, len, ack, window].map(|word| word as u32),
                kind,
                code,
                tcp_flags,
                marks,
                word: window as u32,
                longs: [b, c],
                ..RawAny::default()
            };
            Step::Hit(RawRecord { any })
        },
    );
    let event = (prop::array::uniform8(edge()), any::<[u8; 4]>(), 0u32..8).prop_map(
        |([at_ns, socket, flow, seq, offset, more, connection, wide], bytes, kind)| {
            let [protocol, new_state, wscale, family] = bytes;
            Step::Event(Box::new(RawEvent {
                at_ns,
                kind,
                connection: if wide & 1 == 0 { connection as u32 & 3 } else { connection as u32 },
                flow: flow as u32,
                protocol,
                new_state: new_state & 15,
                family,
                snd_wscale: wscale,
                rcv_wscale: wscale,
                snd_seq: seq as u32,
                rcv_seq: more as u32,
                copied_seq: wide as u32,
                snd_offset: offset,
                rcv_offset: more,
                number: socket as u32 & 3,
                rcvlowat: wide as u32,
                ..RawEvent::default()
            }))
        },
    );
    let option = prop::array::uniform8(edge()).prop_map(
        |[at_ns, receive, flow, level, option, value, most, buffer]| {
            Step::Option(RawOption {
                at_ns,
                flow: flow as u32,
                level: level as u32,
                option: option as u32,
                value: value as u32,
                most: most as u32,
                sndbuf: buffer as u32,
                rcvbuf: receive as u32,
                ..RawOption::default()
            })
        },
    );
    prop_oneof![
        8 => hit,
        2 => event,
        1 => option,
        1 => Just(Step::Look),
        1 => edge().prop_map(Step::Expire),
    ]
}
