//! Tests that read like traces: hits of probes in, records out.
//!
//! A hit is `TIME [<]WHAT [SEQ][+LEN] [WORD…]`; hits are separated by `|` or line ends. `<` is the
//! server's flow. The client's first byte has sequence number 1000, the server's 5000. `WHAT` is
//! `write`, `queued`, `transmit`, `input`, `receive`, `ready`, `copy`, `retransmit`, `drop`,
//! `congestion`, `anchor`, `write-return` or `read-return`. A `WORD` is `fin`, `syn`, `rst`, `room`,
//! `waited`, `again` (a retransmission), `forwarded`, `udp`, or `ack=N`, `thread=N`, `taken=NS` (since TCP
//! took it), `delay=NS` (the reader's run delay so far), `left=N` (datagrams in the queue after a read),
//! `code=N`, `dups=N`, `buffer=N` (which holds the datagram). `adrift` says that records before were missed, `odd` that an odd number of anchors
//! was written; an anchor's are `SEQ` for `snd_una`, `ack=N` for `rcv_nxt`, `copied=N`, and the socket's
//! counters `acked=N` and `received=N`.
//!
//! Records come as `TIME POINTS OFFSET+LEN`, points that follow one another at one time on one
//! line: `20 2d 3n 4n 0+100`. Letters are marks: `d` derived, `n` no queue, `r` retransmitted,
//! `w` waited for. Events stand by name; those of the sender's state are left out.

mod anchors;
mod datagrams;
mod described;
mod holes;
mod random;
mod reads;
mod streams;

use std::ffi::CStr;

use sockscope_record::{Kind, Record, marks, tcp_flags};

use super::Decoder;
use crate::layout::{RawEvent, RawRecord, constants as raw};

const CLIENT_FIRST: u32 = 1000;
const SERVER_FIRST: u32 = 5000;
const CONNECTION: u32 = 1;
const ESTABLISHED: u8 = 1;

/// A decoder that saw nothing yet.
pub(super) fn empty() -> Decoder {
    let mut decoder = Decoder::default();
    decoder.see_input(true);
    decoder
}

/// A decoder that saw connection 1 open, with both ends on this host.
pub(super) fn opened() -> Decoder {
    opened_for(false)
}

/// The same of a connection that another user asked for.
pub(super) fn opened_for(of_others: bool) -> Decoder {
    let mut decoder = opened_by(&RawEvent { of_others: of_others.into(), ..open(1, 6) });
    decoder.event(&state(3, ESTABLISHED, SERVER_FIRST, CLIENT_FIRST));
    told(&mut decoder).clear();
    decoder
}

/// As [`opened`], but of the server's socket nothing is seen: it is on another host.
pub(super) fn opened_to_peer() -> Decoder {
    opened_by(&open(1, 6))
}

fn opened_by(opening: &RawEvent) -> Decoder {
    let mut decoder = empty();
    decoder.event(opening);
    decoder.event(&state(2, ESTABLISHED, CLIENT_FIRST, SERVER_FIRST));
    feed(&mut decoder, "1 transmit 999 syn | 1 <transmit 4999 syn ack=1000");
    told(&mut decoder).clear();
    decoder
}

pub(super) fn open(at_ns: u64, protocol: u8) -> RawEvent {
    RawEvent {
        at_ns,
        kind: u32::from(raw::EVENT_OPEN),
        connection: CONNECTION,
        protocol,
        family: 2,
        client_addr: [127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        server_addr: [127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        client_port: 40_000,
        server_port: 80,
        ..RawEvent::default()
    }
}

/// A thread, which is its own process, is seen at the end that sends `flow`.
pub(super) fn seen(flow: u32, thread: u32, name: &CStr) -> RawEvent {
    let mut event = RawEvent {
        kind: u32::from(raw::EVENT_THREAD),
        flow,
        thread,
        pid: thread,
        ..RawEvent::default()
    };
    for (to, from) in event.comm.iter_mut().zip(name.to_bytes()) {
        *to = *from as _;
    }
    event
}

/// The socket that sends `flow` comes into a state, having written and received so far.
pub(super) fn state(flow: u32, new_state: u8, snd_seq: u32, rcv_seq: u32) -> RawEvent {
    RawEvent {
        at_ns: 1,
        kind: u32::from(raw::EVENT_STATE),
        connection: flow / 2,
        flow,
        new_state,
        snd_seq,
        rcv_seq,
        ..RawEvent::default()
    }
}

/// Decodes the hits of `text`.
pub(super) fn feed(decoder: &mut Decoder, text: &str) {
    let hits = text.lines().flat_map(|line| line.split('|')).map(str::trim);
    for hit in hits.filter(|hit| !hit.is_empty()) {
        decoder.raw(0, &parse(hit));
    }
}

fn parse(hit: &str) -> RawRecord {
    let mut words = hit.split_whitespace();
    let at_ns = words.next().unwrap().parse().unwrap();
    let what = words.next().unwrap();
    let (what, direction) = what.strip_prefix('<').map_or((what, 0), |what| (what, 1));
    let kind = match what {
        "write" => raw::RAW_WRITE,
        "queued" => raw::RAW_QUEUED,
        "transmit" => raw::RAW_TRANSMIT,
        "input" => raw::RAW_INPUT,
        "receive" => raw::RAW_RECEIVE,
        "ready" => raw::RAW_READY,
        "copy" => raw::RAW_COPY,
        "retransmit" => raw::RAW_RETRANSMIT,
        "drop" => raw::RAW_DROP,
        "congestion" => raw::RAW_CONGESTION,
        "anchor" => raw::RAW_ANCHOR,
        "write-return" => raw::RAW_WRITE_RETURN,
        "read-return" => raw::RAW_READ_RETURN,
        other => panic!("what is {other}?"),
    };
    let own = [raw::RAW_QUEUED, raw::RAW_TRANSMIT].contains(&kind);
    let flow = CONNECTION * 2 + direction;
    let hit = RawRecord { at_ns, kind, flow, b: u64::from(own) * 10, ..RawRecord::default() };
    words.fold(hit, word)
}

fn word(hit: RawRecord, word: &str) -> RawRecord {
    let number = |text: &str| text.parse::<u32>().unwrap();
    match word.split_once('=') {
        Some(("ack", n)) => {
            RawRecord { ack: number(n), tcp_flags: hit.tcp_flags | tcp_flags::ACK, ..hit }
        }
        Some(("thread", n)) => RawRecord { thread: number(n), ..hit },
        Some(("socket", n)) => RawRecord { ack: number(n), ..hit },
        Some(("each", n)) => RawRecord { seq: number(n), ..hit },
        Some(("buffer", n)) if hit.kind == raw::RAW_READY => RawRecord { window: number(n), ..hit },
        Some(("buffer", n)) => RawRecord { ack: number(n), ..hit },
        Some(("left", n)) => RawRecord { window: number(n) + 1, ..hit },
        Some(("delay", n)) => RawRecord { b: u64::from(number(n)), ..hit },
        Some(("copied", n)) => RawRecord { window: number(n), ..hit },
        Some(("acked", n)) => RawRecord { b: n.parse().unwrap(), ..hit },
        Some(("received", n)) => RawRecord { c: n.parse().unwrap(), ..hit },
        Some(("taken", n)) => RawRecord { a: number(n), ..hit },
        Some(("code", n)) => RawRecord { code: number(n) as u8, ..hit },
        Some(("dups", n)) => RawRecord { window: number(n), ..hit },
        Some((name, _)) => panic!("what is {name}?"),
        None => match word {
            "fin" => RawRecord { tcp_flags: hit.tcp_flags | tcp_flags::FIN, ..hit },
            "rst" => RawRecord { tcp_flags: hit.tcp_flags | tcp_flags::RST, ..hit },
            "syn" => RawRecord { tcp_flags: hit.tcp_flags | tcp_flags::SYN, ..hit },
            "room" => RawRecord { marks: hit.marks | raw::MARK_ROOM, ..hit },
            "waited" => RawRecord { marks: hit.marks | raw::MARK_WAITED_FOR, ..hit },
            "again" => RawRecord { marks: hit.marks | raw::MARK_RETRANSMITTED, ..hit },
            "udp" => RawRecord { marks: hit.marks | raw::MARK_UDP, ..hit },
            "adrift" => RawRecord { marks: hit.marks | raw::MARK_ADRIFT, ..hit },
            "odd" => RawRecord { marks: hit.marks | raw::MARK_ODD, ..hit },
            "forwarded" => RawRecord { b: 0, ..hit },
            range => {
                let (seq, len) = range.split_once('+').unwrap_or((range, "0"));
                RawRecord {
                    seq: if seq.is_empty() { 0 } else { number(seq) },
                    len: number(len),
                    ..hit
                }
            }
        },
    }
}

/// The records decoded by now, with those of all events.
pub(super) fn told(decoder: &mut Decoder) -> &mut Vec<Record> {
    decoder.tell_events(u64::MAX);
    decoder.records()
}

/// The records decoded since the last call, as text.
pub(super) fn shown(decoder: &mut Decoder) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut last: Option<Record> = None;
    for record in told(decoder).drain(..) {
        let hidden = [
            Kind::TcpState,
            Kind::SendWindow,
            Kind::SocketBuffers,
            Kind::StateChange,
            Kind::Run,
            Kind::Wakeup,
        ];
        if hidden.contains(&record.kind) {
            continue;
        }
        let key = |record: &Record| (record.at_ns, record.flow, record.offset, record.len);
        let follows = last.is_some_and(|last| {
            last.point().is_some() && record.point().is_some() && key(&last) == key(&record)
        });
        if follows && let Some(line) = lines.last_mut() {
            let at = line.rfind(' ').unwrap();
            line.insert_str(at, &format!(" {}", what(&record)));
        } else {
            lines.push(show(&record));
        }
        last = Some(record);
    }
    lines
}

fn show(record: &Record) -> String {
    let Record { at_ns, offset, len, detail, code, .. } = *record;
    let server = if record.flow.0 % 2 == 1 { "<" } else { "" };
    match record.kind {
        Kind::Loss => format!("{at_ns} Loss of {detail} at {code} since {offset}"),
        Kind::Retransmit => format!("{at_ns} {server}Retransmit {code} {offset}+{len}"),
        _ => format!("{at_ns} {server}{} {offset}+{len}", what(record)),
    }
}

fn what(record: &Record) -> String {
    let letters = [
        (marks::DERIVED, 'd'),
        (marks::NO_QUEUE, 'n'),
        (marks::RETRANSMITTED, 'r'),
        (marks::WAITED_FOR, 'w'),
    ];
    let name = record.point().map_or(record.kind.name().to_owned(), |p| p.number().to_string());
    let marks =
        letters.iter().filter(|(mark, _)| record.is_marked(*mark)).map(|(_, letter)| letter);
    name.chars().chain(marks.copied()).collect()
}

/// What `hits` of an open connection become.
#[track_caller]
pub(super) fn check(hits: &str, expected: &str) {
    check_with(opened(), hits, expected);
}

/// What `hits` become in a decoder that saw something before.
#[track_caller]
pub(super) fn check_with(mut decoder: Decoder, hits: &str, expected: &str) {
    feed(&mut decoder, hits);
    decoder.finish();
    assert_lines(&shown(&mut decoder), expected);
}

#[track_caller]
pub(super) fn assert_lines(shown: &[String], expected: &str) {
    let expected: Vec<&str> =
        expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(shown, expected, "\n{}", shown.join("\n"));
}
