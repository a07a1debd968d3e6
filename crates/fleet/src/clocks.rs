//! The clocks of two hosts, from the segments of connections between them.

use sockscope_record::{ClockPairs, Direction, Kind, Record, marks, tcp_flags};

use crate::recorded::Half;

/// Kinds of records that a sender has of a segment, the latest first.
const SENT: [Kind; 3] = [Kind::InterfaceDequeue, Kind::InterfaceEnqueue, Kind::SendDequeue];
/// Those that a receiver has, the earliest first.
const RECEIVED: [Kind; 3] = [Kind::InputEnqueue, Kind::InputDequeue, Kind::ReceiveEnqueue];

/// Bytes that passed a point for the first time.
struct Passed {
    offset: u64,
    end: u64,
    at_ns: i64,
}

/// Adds the segments of a connection, by both hosts' wall clocks. `is_whole` names the hosts that missed no record.
pub(crate) fn add(
    pairs: &mut ClockPairs,
    halves: [&Half; 2],
    offsets_ns: [i64; 2],
    is_whole: [bool; 2],
) {
    let mut add = |from: usize, sent_ns: i64, received_ns: i64| match from {
        0 => pairs.from_first(sent_ns, received_ns),
        _ => pairs.from_second(sent_ns, received_ns),
    };
    for direction in [Direction::FromClient, Direction::FromServer] {
        let (from, to) = match halves[0].here {
            Some(side) if side == direction.sender() => (0, 1),
            _ => (1, 0),
        };
        let sent = passed(halves[from], direction, &SENT, offsets_ns[from]);
        let received = passed(halves[to], direction, &RECEIVED, offsets_ns[to]);
        for segment in received {
            // The last of its bytes was sent by then. A retransmission was sent later, and the first time bounds too.
            let at = sent.partition_point(|it| it.end < segment.end);
            let Some(sent) = sent.get(at).filter(|it| it.offset < segment.end) else { continue };
            add(from, sent.at_ns, segment.at_ns);
        }
        // The first one of a number is only known where no record was missed.
        if !is_whole[from] {
            continue;
        }
        let sent = acknowledgments(halves[from], direction, &SENT[..2], offsets_ns[from]);
        for (number, at_ns) in
            acknowledgments(halves[to], direction, &RECEIVED[..2], offsets_ns[to])
        {
            if let Ok(at) = sent.binary_search_by_key(&number, |it| it.0) {
                add(from, sent[at].1, at_ns);
            }
        }
    }
}

/// Runs of bytes that passed the first of these points that was observed, by position.
fn passed(half: &Half, direction: Direction, kinds: &[Kind], offset_ns: i64) -> Vec<Passed> {
    let is_of = |record: &&Record, kind| {
        let is_first = !record.is_marked(marks::RETRANSMITTED) && !record.is_marked(marks::DERIVED);
        record.kind == kind && record.len > 0 && is_first
    };
    let records = &half.records[direction as usize];
    for kind in kinds {
        let mut passed: Vec<Passed> = Vec::new();
        for record in records.iter().filter(|record| is_of(record, *kind)) {
            if passed.last().is_none_or(|last| last.end < record.end()) {
                let at_ns = record.at_ns.cast_signed().saturating_add(offset_ns);
                passed.push(Passed { offset: record.offset, end: record.end(), at_ns });
            }
        }
        if !passed.is_empty() {
            return passed;
        }
    }
    Vec::new()
}

/// The first segment with each new acknowledgment at the first of these points that was observed: the acknowledged
/// position, and the time.
fn acknowledgments(
    half: &Half,
    direction: Direction,
    kinds: &[Kind],
    offset_ns: i64,
) -> Vec<(u64, i64)> {
    for kind in kinds {
        let mut all: Vec<(u64, i64)> = Vec::new();
        for record in &half.records[direction as usize] {
            let is_one = record.kind == *kind
                && record.tcp_flags & tcp_flags::ACK != 0
                && !record.is_marked(marks::DERIVED);
            if is_one && all.last().is_none_or(|last| last.0 < record.detail) {
                all.push((record.detail, record.at_ns.cast_signed().saturating_add(offset_ns)));
            }
        }
        if !all.is_empty() {
            return all;
        }
    }
    Vec::new()
}
