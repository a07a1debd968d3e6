//! Connections that sampling leaves out on the way.

use sockscope_record::{Kind, Record};

use super::{Fields, feed, open, opened, seen, state};
use crate::decode::Decoder;
use crate::layout::{RawEvent, constants as raw};

const SECOND_NS: u64 = 1_000_000_000;
const UDP: u8 = 17;

fn left_out(at_ns: u64) -> RawEvent {
    let kind = u32::from(raw::EVENT_LEFT_OUT);
    RawEvent { at_ns, kind, connection: 1, ..RawEvent::default() }
}

/// The kinds of the records so far, and times.
fn kinds(decoder: &mut Decoder) -> Vec<(u64, Kind)> {
    decoder.report_events(u64::MAX);
    decoder.records().drain(..).map(|record| (record.at_ns, record.kind)).collect()
}

#[test]
fn a_stream_has_its_records_until_then_a_record_of_it_and_none_after() {
    let mut decoder = opened();
    decoder.event(&left_out(35));
    feed(
        &mut decoder,
        "10 write 1000+100 room | 20 transmit 1000+100 taken=5 | 30 input 1000+100 | 40 receive 1000+100
         50 ready 1100 | 60 copy 1100",
    );
    decoder.event(&RawEvent { at_ns: 70, ..state(2, 4, 1100, 5000) });
    decoder.event(&RawEvent { at_ns: 71, ..state(2, 7, 1100, 5000) });
    let expected = [
        (10, Kind::WriteCall),
        (10, Kind::SendEnqueue),
        (15, Kind::SendDequeue),
        (20, Kind::InterfaceEnqueue),
        (20, Kind::InterfaceDequeue),
        (30, Kind::InputEnqueue),
        (35, Kind::LeftOut),
    ];
    let found = kinds(&mut decoder);
    let found: Vec<_> = found.into_iter().filter(|(_, kind)| *kind != Kind::TcpState).collect();
    assert_eq!(found, expected);
    decoder.check_gaps();
    decoder.check_gaps();
    decoder.expire(3 * SECOND_NS);
    assert_eq!((decoder.unknown(), decoder.take_gaps().total()), (0, 0));
    assert_eq!(decoder.take_forgotten(), [1], "memory follows the connections that are recorded");
    let rows = decoder.take_changed();
    assert!(rows.iter().all(|row| row.closed_ns.is_none()), "it is open: {rows:?}");
}

#[test]
fn a_hit_whose_slot_was_freed_under_it_is_not_missed() {
    for (flow, unknown) in [(0, 0), (1, 0), (u32::MAX, 0), (u32::MAX - 1, 0), (8, 1)] {
        let mut decoder = opened();
        let hit = Fields { at_ns: 34, flow, kind: raw::RAW_READY, ..Fields::default() };
        decoder.event(&left_out(35));
        decoder.raw(0, &hit.raw());
        assert_eq!(decoder.unknown(), unknown, "{flow}");
        // Without one that is left out it shows an error.
        let mut decoder = opened();
        decoder.raw(0, &hit.raw());
        assert_eq!(decoder.unknown(), 1, "{flow}");
    }
}

#[test]
fn the_thread_of_a_last_hit_is_named() {
    let mut decoder = opened();
    decoder.event(&left_out(35));
    decoder.event(&RawEvent { at_ns: 36, ..seen(2, 7, c"late") });
    let names: Vec<String> = decoder
        .take_changed()
        .into_iter()
        .flat_map(|row| row.processes)
        .map(|one| one.comm)
        .collect();
    assert_eq!(names, ["late"]);
}

#[test]
fn a_datagram_that_waits_then_and_its_read_are_no_miss() {
    let mut decoder = super::empty();
    decoder.event(&open(1, UDP));
    let hit = |at_ns, kind| {
        let hit =
            Fields { at_ns, flow: 2, kind, len: 50, marks: raw::MARK_UDP, ..Fields::default() };
        Fields { buffer: u32::from(kind != raw::RAW_READY), socket: 1, ..hit }
    };
    let send = |decoder: &mut Decoder, at_ns| {
        for kind in [raw::RAW_TRANSMIT, raw::RAW_INPUT, raw::RAW_RECEIVE, raw::RAW_READY] {
            decoder.raw(0, &hit(at_ns, kind).raw());
        }
    };
    send(&mut decoder, 10);
    // One is at the device, one in the receive queue.
    decoder.raw(0, &hit(20, raw::RAW_TRANSMIT).raw());
    decoder.event(&left_out(25));
    decoder.raw(0, &hit(30, raw::RAW_INPUT).raw());
    let read = Fields { left_plus_one: 1, ..hit(40, raw::RAW_COPY) };
    decoder.raw(0, &read.raw());
    let records: Vec<(u64, Kind)> = kinds(&mut decoder);
    assert_eq!(records.last(), Some(&(25, Kind::LeftOut)), "{records:?}");
    decoder.check_gaps();
    for second in 1..30 {
        decoder.expire(second * SECOND_NS);
    }
    let all: Vec<Record> = decoder.records().drain(..).collect();
    assert_eq!(all, [], "no loss");
    assert_eq!((decoder.unknown(), decoder.take_unplaced_reads(), decoder.remembered()), (0, 0, 0));
}

#[test]
fn one_that_was_never_announced_has_no_record() {
    let mut decoder = super::empty();
    decoder.event(&left_out(35));
    assert_eq!(kinds(&mut decoder), []);
}
