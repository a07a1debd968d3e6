//! Streams and messages between two Unix sockets.

use sockscope_record::{Kind, Protocol, Record, Side};

use super::{CONNECTION, empty};
use crate::decode::Decoder;
use crate::layout::{
    RawEvent, RawRecord, RawTcpCopy, RawTcpDrop, RawTcpReady, RawWrite, constants as raw,
};

/// The client sends; bytes that are in its queue and in the server's from before.
fn opened(name: &[u8], before: [u64; 2]) -> Decoder {
    opened_by(opening(name, before))
}

fn opened_by(event: RawEvent) -> Decoder {
    let mut decoder = empty();
    decoder.event(&event);
    decoder
}

fn opening(name: &[u8], before: [u64; 2]) -> RawEvent {
    let mut event = RawEvent {
        at_ns: 1,
        kind: u32::from(raw::EVENT_OPEN),
        connection: CONNECTION,
        family: 1,
        flow: CONNECTION * 2,
        inode: [41, 42],
        snd_offset: before[0],
        rcv_offset: before[1],
        name_len: name.len() as u32,
        ..RawEvent::default()
    };
    for (to, from) in event.name.iter_mut().zip(name) {
        *to = (*from).cast_signed();
    }
    event
}

fn write(at_ns: u64, start_seq: u32, left_len: u32, began_ns: u64) -> RawRecord {
    let (flow, kind) = (CONNECTION * 2, raw::RAW_WRITE);
    RawRecord {
        write: RawWrite { at_ns, flow, start_seq, left_len, kind, began_ns, ..RawWrite::default() },
    }
}

fn ready(at_ns: u64, rcv_nxt: u32) -> RawRecord {
    let (flow, kind) = (CONNECTION * 2, raw::RAW_READY);
    RawRecord { tcp_ready: RawTcpReady { at_ns, flow, rcv_nxt, kind, ..RawTcpReady::default() } }
}

fn copy(at_ns: u64, copied_seq: u32) -> RawRecord {
    let (flow, kind) = (CONNECTION * 2, raw::RAW_COPY);
    RawRecord { tcp_copy: RawTcpCopy { at_ns, flow, copied_seq, kind, ..RawTcpCopy::default() } }
}

/// As `TIME KIND OFFSET+LEN`.
fn decoded(decoder: &mut Decoder, hits: &[RawRecord]) -> Vec<String> {
    hits.iter().for_each(|hit| decoder.raw(0, hit));
    let shown = |record: Record| {
        format!("{} {:?} {}+{}", record.at_ns, record.kind, record.offset, record.len)
    };
    decoder.records().drain(..).map(shown).collect()
}

#[test]
fn a_call_that_waits_for_room_enters_both_queues_chunk_by_chunk() {
    let mut decoder = opened(b"/run/s", [0; 2]);
    let hits = [
        write(10, 0, 100, 5),
        ready(10, 60),
        copy(20, 60),
        write(30, 60, 40, 5),
        ready(30, 100),
        copy(31, 100),
    ];
    assert_eq!(
        decoded(&mut decoder, &hits),
        [
            "5 WriteCall 0+100",
            "10 ReceiveEnqueue 0+60",
            "10 SendEnqueue 0+60",
            "20 ReceiveDequeue 0+60",
            "30 ReceiveEnqueue 60+40",
            "30 SendEnqueue 60+40",
            "31 ReceiveDequeue 60+40",
        ]
    );
}

#[test]
fn bytes_that_are_read_before_they_are_announced_have_all_three_points() {
    let mut decoder = opened(b"/run/s", [0; 2]);
    let hits = [copy(11, 50), write(12, 0, 50, 9), ready(12, 50)];
    let records = decoded(&mut decoder, &hits);
    assert_eq!(
        records,
        [
            "11 ReceiveEnqueue 0+50",
            "11 ReceiveDequeue 0+50",
            "9 WriteCall 0+50",
            "12 SendEnqueue 0+50"
        ]
    );
}

#[test]
fn a_call_without_room_asks_and_takes_nothing() {
    let mut decoder = opened(b"/run/s", [0; 2]);
    let hits = [write(10, 0, 10, 9), ready(10, 10), write(20, 10, 30, 19)];
    let records = decoded(&mut decoder, &hits);
    assert_eq!(records.last().unwrap(), "19 WriteCall 10+30");
    decoder.finish();
    assert!(decoder.records().iter().all(|record| record.kind != Kind::SendEnqueue));
}

#[test]
fn bytes_from_before_the_recording_are_read_and_were_never_written() {
    let mut decoder = opened(b"/run/s", [30, 0]);
    let hits = [write(10, 30, 20, 9), ready(10, 50), copy(20, 50)];
    let records = decoded(&mut decoder, &hits);
    assert_eq!(
        records,
        [
            "9 WriteCall 30+20",
            "10 ReceiveEnqueue 30+20",
            "10 SendEnqueue 30+20",
            "20 ReceiveDequeue 0+50"
        ]
    );
    assert!(decoder.take_changed()[0].preexisting);
}

#[test]
fn ends_have_the_names_of_their_sockets() {
    for (name, shown) in [
        (&b"/run/s"[..], "/run/s"),
        (b"/run/s\0rest", "/run/s"),
        (b"\0abstract", "@abstract"),
        (b"", "unix:42"),
    ] {
        let row = opened(name, [0; 2]).take_changed().remove(0);
        assert_eq!((row.protocol, row.both_ends_here), (Protocol::Unix, true));
        assert_eq!(row.end(Side::Client).to_string(), "unix:41");
        assert_eq!(row.end(Side::Server).to_string(), shown);
    }
}

#[test]
fn the_end_closes_the_connection() {
    let mut decoder = opened(b"/run/s", [0; 2]);
    let kind = u32::from(raw::EVENT_GONE);
    decoder.event(&RawEvent { at_ns: 90, kind, connection: CONNECTION, ..RawEvent::default() });
    assert_eq!(decoder.take_changed()[0].closed_ns, Some(90));
}

#[test]
fn each_message_has_a_record_of_its_own_and_an_unread_one_is_dropped() {
    let mut decoder = opened_by(RawEvent { protocol: 2, ..opening(b"/run/s", [0; 2]) });
    let drop = RawTcpDrop {
        at_ns: 50,
        flow: CONNECTION * 2,
        seq: 30,
        len: 12,
        kind: raw::RAW_DROP,
        reason: 4,
        ..RawTcpDrop::default()
    };
    let hits = [
        write(10, 0, 10, 9),
        ready(10, 10),
        write(20, 10, 20, 19),
        ready(20, 30),
        write(30, 30, 12, 29),
        ready(30, 42),
        copy(40, 10),
        copy(41, 30),
        RawRecord { tcp_drop: drop },
    ];
    let records = decoded(&mut decoder, &hits);
    let of = |kind: &str| -> Vec<&str> {
        records.iter().filter(|it| it.contains(kind)).map(String::as_str).collect()
    };
    let entered = ["10 ReceiveEnqueue 0+10", "20 ReceiveEnqueue 10+20", "30 ReceiveEnqueue 30+12"];
    assert_eq!(of("ReceiveEnqueue"), entered);
    assert_eq!(of("SendEnqueue").len(), 3);
    assert_eq!(of("ReceiveDequeue"), ["40 ReceiveDequeue 0+10", "41 ReceiveDequeue 10+20"]);
    assert_eq!(of("Drop"), ["50 Drop 30+12"]);
    assert_eq!(decoder.take_changed()[0].protocol, Protocol::UnixDatagram);
}

/// The points of a later message of the same pair do not cover the message before it.
#[test]
fn a_message_behind_an_unread_one_keeps_its_bounds() {
    let mut decoder = opened_by(RawEvent { protocol: 5, ..opening(b"/run/s", [0; 2]) });
    let drop = RawTcpDrop {
        at_ns: 30,
        flow: CONNECTION * 2,
        len: 10,
        kind: raw::RAW_DROP,
        ..RawTcpDrop::default()
    };
    let hits = [write(10, 0, 10, 9), ready(10, 10), RawRecord { tcp_drop: drop }];
    decoded(&mut decoder, &hits);
    let hits = [write(40, 10, 5, 39), ready(40, 15), copy(50, 15)];
    assert_eq!(decoded(&mut decoder, &hits).last().unwrap(), "50 ReceiveDequeue 10+5");
    assert_eq!(decoder.take_changed()[0].protocol, Protocol::UnixSeqpacket);
}

#[test]
fn sockets_that_are_older_than_the_recording_are_known_as_such() {
    let mut decoder = opened_by(RawEvent { old_state: 1, ..opening(b"/run/s", [0; 2]) });
    assert!(decoder.take_changed()[0].preexisting);
    let mut decoder = opened(b"/run/s", [0; 2]);
    assert!(!decoder.take_changed()[0].preexisting);
}

#[test]
fn a_peer_has_the_process_of_its_credentials_until_it_calls() {
    let mut decoder = opened(b"/run/s", [0; 2]);
    let thread = |old_state, pid| RawEvent {
        at_ns: 2,
        kind: u32::from(raw::EVENT_THREAD),
        flow: CONNECTION * 2 + 1,
        old_state,
        pid,
        ..RawEvent::default()
    };
    let pids = |decoder: &mut Decoder| -> Vec<(u32, Side)> {
        let row = decoder.take_changed().remove(0);
        row.processes.iter().map(|it| (it.pid, it.side)).collect()
    };
    decoder.event(&thread(1, 7));
    assert_eq!(pids(&mut decoder), [(7, Side::Server)]);
    decoder.event(&thread(0, 8));
    assert_eq!(pids(&mut decoder), [(8, Side::Server)]);
}

mod random {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Chunks and reads of any size, some read before they are announced: each byte passes points 1, 7 and 8 once.
        #[test]
        fn every_byte_passes_each_point_once(
            steps in proptest::collection::vec((1u32..50_000, 0u32..50_000, any::<bool>()), 1..60),
        ) {
            let mut decoder = opened(b"", [0; 2]);
            let (mut sent, mut read, mut now) = (0, 0, 10);
            for (chunk, reads, is_overtaken) in steps {
                now += 10;
                let start = sent;
                sent += chunk;
                let enters = [write(now, start, chunk, now - 1), ready(now, sent)];
                read = sent.min(read + reads);
                let copies = (read > 0).then(|| copy(now + 1, read));
                let (first, last) = if is_overtaken { (2, 0) } else { (0, 2) };
                for part in [first, last] {
                    if part == 0 {
                        enters.iter().for_each(|hit| decoder.raw(0, hit));
                    } else {
                        copies.iter().for_each(|hit| decoder.raw(1, hit));
                    }
                }
            }
            decoder.finish();
            for (kind, end) in
                [(Kind::SendEnqueue, sent), (Kind::ReceiveEnqueue, sent), (Kind::ReceiveDequeue, read)]
            {
                let mut at = 0;
                for record in decoder.records().iter().filter(|record| record.kind == kind) {
                    prop_assert_eq!(record.offset, at, "{:?}", kind);
                    at = record.end();
                }
                prop_assert_eq!(at, u64::from(end), "{:?}", kind);
            }
        }
    }
}
