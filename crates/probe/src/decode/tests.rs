//! Tests that read like traces: hits of probes in, records out.
//!
//! A hit is `TIME [<]WHAT [SEQ][+LEN] [WORD…]`; hits are separated by `|` or line ends. `<` is the
//! server's flow. The client's first byte has sequence number 1000, the server's 5000. `WHAT` is
//! `write`, `queued`, `transmit`, `input`, `receive`, `ready`, `copy`, `retransmit`, `drop`,
//! `congestion`, `anchor`, `write-return` or `read-return`, or `hop-` and one of the four for a device between the ends. A `WORD` is `fin`, `syn`, `rst`, `room`,
//! `waited`, `again` (a retransmission), `forwarded`, `loopback`, `udp`, or `ack=N`, `thread=N`, `taken=NS` (since TCP
//! took it), `delay=NS` (the thread's run delay so far), `left=N` (datagrams in the queue after a read),
//! `code=N` (a hold reason, class or errno), `mss=N`, `dups=N`, `buffer=N` (of the datagram), `device=N`, `netns=N`. `adrift` means that
//! earlier records were missed, `odd` that an odd number of anchors was written; an anchor's are `SEQ` for
//! `snd_una`, `ack=N` for `rcv_nxt`, `copied=N`, and the socket's counters `acked=N` and `received=N`.
//!
//! Records have the form `TIME POINTS OFFSET+LEN`, points that follow one another at one time on one
//! line: `20 2d 3n 4n 0+100`. Letters are marks: `d` derived, `n` no queue, `r` retransmitted,
//! `w` waited for. Events appear by name; those of the sender's state are left out.

mod anchors;
mod hops;
mod left_out;
mod missed;
mod random;
mod tcp;
mod udp;
mod udp_buffers;
mod udp_reads;
mod unix;

use std::ffi::CStr;

use sockscope_record::{Kind, Record, marks, tcp_flags};

use super::Decoder;
use crate::layout::{
    RawAnchor, RawCallReturn, RawCongestion, RawEvent, RawHop, RawRecord, RawRetransmit,
    RawTcpCopy, RawTcpDrop, RawTcpPacket, RawTcpReady, RawUdpCopy, RawUdpDrop, RawUdpPacket,
    RawUdpReady, RawWrite, constants as raw,
};

const CLIENT_FIRST: u32 = 1000;
const SERVER_FIRST: u32 = 5000;
const CONNECTION: u32 = 1;
const ESTABLISHED: u8 = 1;

/// A decoder without any input yet.
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
    reported(&mut decoder).clear();
    decoder
}

/// As [`opened`], but without hits of the server's socket: it is on another host.
pub(super) fn opened_to_peer() -> Decoder {
    opened_by(&open(1, 6))
}

fn opened_by(opening: &RawEvent) -> Decoder {
    let mut decoder = empty();
    decoder.event(opening);
    decoder.event(&state(2, ESTABLISHED, CLIENT_FIRST, SERVER_FIRST));
    feed(&mut decoder, "1 transmit 999 syn | 1 <transmit 4999 syn ack=1000");
    reported(&mut decoder).clear();
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

/// The socket that sends `flow` enters a state, having written and received so far.
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
        decoder.raw(0, &parse(hit).raw());
    }
}

/// The fields of a hit of any kind; [`Fields::raw`] takes those that its kind has.
#[derive(Clone, Copy, Default)]
pub(super) struct Fields {
    pub(super) at_ns: u64,
    pub(super) flow: u32,
    pub(super) kind: u8,
    pub(super) marks: u8,
    /// The one sequence number, where the kind has one; an anchor's `snd_una`.
    pub(super) seq: u32,
    pub(super) len: u32,
    /// An anchor's `rcv_nxt`.
    pub(super) ack: u32,
    pub(super) window: u32,
    pub(super) thread: u32,
    pub(super) code: u8,
    pub(super) tcp_flags: u8,
    pub(super) each_len: u32,
    pub(super) buffer: u32,
    pub(super) socket: u32,
    pub(super) left_plus_one: u32,
    pub(super) run_delay_ns: u64,
    pub(super) last_arrival_ns: u64,
    pub(super) since_taken_ns: u32,
    pub(super) snd_cwnd: u32,
    pub(super) snd_wnd: u32,
    pub(super) mss: u32,
    pub(super) dsack_dups: u32,
    pub(super) copied_seq: u32,
    pub(super) bytes_acked: u64,
    pub(super) bytes_received: u64,
    pub(super) device: u32,
    pub(super) netns: u32,
    /// Of a hop, the kind that it would have at an end.
    pub(super) at: u8,
}

impl Fields {
    /// The record that a probe would write.
    pub(super) fn raw(self) -> RawRecord {
        let mut record =
            if self.marks & raw::MARK_UDP == 0 { self.of_tcp() } else { self.of_udp() };
        let Self { at_ns, flow, kind, marks, .. } = self;
        record.any.at_ns = at_ns;
        record.any.flow = flow;
        record.any.kind = kind;
        record.any.marks = marks;
        record
    }

    fn of_tcp(self) -> RawRecord {
        let Self { seq, len, ack, window, thread, code, tcp_flags, .. } = self;
        match self.kind {
            raw::RAW_WRITE => RawRecord {
                write: RawWrite {
                    start_seq: seq,
                    left_len: len,
                    thread,
                    hold: code,
                    run_delay_ns: self.run_delay_ns,
                    ..RawWrite::default()
                },
            },
            raw::RAW_QUEUED | raw::RAW_TRANSMIT | raw::RAW_INPUT | raw::RAW_RECEIVE => RawRecord {
                tcp_packet: RawTcpPacket {
                    seq,
                    len,
                    ack,
                    window,
                    hold: code,
                    tcp_flags,
                    since_taken_ns: self.since_taken_ns,
                    snd_cwnd: self.snd_cwnd,
                    snd_wnd: self.snd_wnd,
                    device: self.device,
                    ..RawTcpPacket::default()
                },
            },
            raw::RAW_READY => {
                RawRecord { tcp_ready: RawTcpReady { rcv_nxt: seq, ..RawTcpReady::default() } }
            }
            raw::RAW_COPY => RawRecord {
                tcp_copy: RawTcpCopy {
                    copied_seq: seq,
                    thread,
                    run_delay_ns: self.run_delay_ns,
                    last_arrival_ns: self.last_arrival_ns,
                    ..RawTcpCopy::default()
                },
            },
            raw::RAW_RETRANSMIT => RawRecord {
                retransmit: RawRetransmit { seq, len, class: code, ..RawRetransmit::default() },
            },
            raw::RAW_DROP => {
                RawRecord { tcp_drop: RawTcpDrop { seq, len, tcp_flags, ..RawTcpDrop::default() } }
            }
            raw::RAW_WRITE_RETURN | raw::RAW_READ_RETURN => RawRecord {
                call_return: RawCallReturn {
                    end_seq: seq,
                    len,
                    thread,
                    error: code,
                    run_delay_ns: self.run_delay_ns,
                    ..RawCallReturn::default()
                },
            },
            raw::RAW_CONGESTION => RawRecord {
                congestion: RawCongestion {
                    snd_una: seq,
                    ssthresh: len,
                    mss: self.mss,
                    dsack_dups: self.dsack_dups,
                    ca_state: code,
                    ..RawCongestion::default()
                },
            },
            raw::RAW_ANCHOR => RawRecord {
                anchor: RawAnchor {
                    snd_una: seq,
                    rcv_nxt: ack,
                    copied_seq: self.copied_seq,
                    bytes_acked: self.bytes_acked,
                    bytes_received: self.bytes_received,
                    ..RawAnchor::default()
                },
            },
            raw::RAW_HOP => {
                let Self { device, netns, at, .. } = self;
                let hop = RawHop { seq, len, ack, window, tcp_flags, ..RawHop::default() };
                RawRecord { hop: RawHop { device, netns, at, ..hop } }
            }
            other => panic!("TCP has no hit of kind {other}"),
        }
    }

    fn of_udp(self) -> RawRecord {
        let Self { len, each_len, buffer, socket, thread, .. } = self;
        match self.kind {
            raw::RAW_QUEUED | raw::RAW_TRANSMIT | raw::RAW_INPUT | raw::RAW_RECEIVE => RawRecord {
                udp_packet: RawUdpPacket {
                    each_len,
                    len,
                    buffer,
                    thread,
                    ..RawUdpPacket::default()
                },
            },
            raw::RAW_READY => RawRecord {
                udp_ready: RawUdpReady { each_len, len, socket, buffer, ..RawUdpReady::default() },
            },
            raw::RAW_COPY => RawRecord {
                udp_copy: RawUdpCopy {
                    len,
                    socket,
                    left_plus_one: self.left_plus_one,
                    thread,
                    run_delay_ns: self.run_delay_ns,
                    last_arrival_ns: self.last_arrival_ns,
                    ..RawUdpCopy::default()
                },
            },
            raw::RAW_DROP => RawRecord {
                udp_drop: RawUdpDrop { each_len, len, buffer, thread, ..RawUdpDrop::default() },
            },
            other => panic!("UDP has no hit of kind {other}"),
        }
    }
}

fn parse(hit: &str) -> Fields {
    let mut words = hit.split_whitespace();
    let at_ns = words.next().unwrap().parse().unwrap();
    let what = words.next().unwrap();
    let (what, direction) = what.strip_prefix('<').map_or((what, 0), |what| (what, 1));
    let (what, is_hop) = what.strip_prefix("hop-").map_or((what, false), |what| (what, true));
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
    let (kind, at) = if is_hop { (raw::RAW_HOP, kind) } else { (kind, 0) };
    let hit = Fields { at_ns, kind, flow, at, snd_cwnd: u32::from(own) * 10, ..Fields::default() };
    words.fold(hit, word)
}

fn word(hit: Fields, word: &str) -> Fields {
    let number = |text: &str| text.parse::<u32>().unwrap();
    match word.split_once('=') {
        Some(("ack", n)) => {
            Fields { ack: number(n), tcp_flags: hit.tcp_flags | tcp_flags::ACK, ..hit }
        }
        Some(("thread", n)) => Fields { thread: number(n), ..hit },
        Some(("socket", n)) => Fields { socket: number(n), ..hit },
        Some(("each", n)) => Fields { each_len: number(n), ..hit },
        Some(("buffer", n)) => Fields { buffer: number(n), ..hit },
        Some(("left", n)) => Fields { left_plus_one: number(n) + 1, ..hit },
        Some(("delay", n)) => Fields { run_delay_ns: u64::from(number(n)), ..hit },
        Some(("copied", n)) => Fields { copied_seq: number(n), ..hit },
        Some(("acked", n)) => Fields { bytes_acked: n.parse().unwrap(), ..hit },
        Some(("received", n)) => Fields { bytes_received: n.parse().unwrap(), ..hit },
        Some(("taken", n)) => Fields { since_taken_ns: number(n), ..hit },
        Some(("code", n)) => Fields { code: number(n) as u8, ..hit },
        Some(("mss", n)) => Fields { mss: number(n), ..hit },
        Some(("device", n)) => Fields { device: number(n), ..hit },
        Some(("netns", n)) => Fields { netns: number(n), ..hit },
        Some(("dups", n)) => Fields { dsack_dups: number(n), ..hit },
        Some((name, _)) => panic!("what is {name}?"),
        None => match word {
            "fin" => Fields { tcp_flags: hit.tcp_flags | tcp_flags::FIN, ..hit },
            "rst" => Fields { tcp_flags: hit.tcp_flags | tcp_flags::RST, ..hit },
            "syn" => Fields { tcp_flags: hit.tcp_flags | tcp_flags::SYN, ..hit },
            "room" => Fields { marks: hit.marks | raw::MARK_ROOM, ..hit },
            "waited" => Fields { marks: hit.marks | raw::MARK_WAITED_FOR, ..hit },
            "again" => Fields { marks: hit.marks | raw::MARK_RETRANSMITTED, ..hit },
            "loopback" => Fields { marks: hit.marks | raw::MARK_LOOPBACK, ..hit },
            "udp" => Fields { marks: hit.marks | raw::MARK_UDP, ..hit },
            "adrift" => Fields { marks: hit.marks | raw::MARK_ADRIFT, ..hit },
            "odd" => Fields { marks: hit.marks | raw::MARK_ODD, ..hit },
            "forwarded" => Fields { snd_cwnd: 0, ..hit },
            range => {
                let (seq, len) = range.split_once('+').unwrap_or((range, "0"));
                Fields {
                    seq: if seq.is_empty() { 0 } else { number(seq) },
                    len: number(len),
                    ..hit
                }
            }
        },
    }
}

/// The records decoded by now, with those of all events.
pub(super) fn reported(decoder: &mut Decoder) -> &mut Vec<Record> {
    decoder.report_events(u64::MAX);
    decoder.records()
}

/// The records decoded since the last call, as text.
pub(super) fn shown(decoder: &mut Decoder) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut last: Option<Record> = None;
    for record in reported(decoder).drain(..) {
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

/// Checks the records of `hits` on an open connection.
#[track_caller]
pub(super) fn check(hits: &str, expected: &str) {
    check_with(opened(), hits, expected);
}

/// Checks the records of `hits` in a decoder with earlier input.
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
