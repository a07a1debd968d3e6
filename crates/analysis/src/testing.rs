//! Traces as text, for tests.
//!
//! Entries are separated by `|` or line ends; `#` starts a comment. An entry is
//!
//! ```text
//! TIME [<]WHAT [RANGE] [WORD…]
//! ```
//!
//! - `TIME`: `15`, `15ns`, `15us`, `15ms` or `15s`.
//! - `<` in front of `WHAT`: the server's flow; otherwise the client's.
//! - `WHAT`: a point `1` to `8`, several points at one instant as `3-6`, or an event: `write`, `write-return`,
//!   `read-return`, `wakeup`, `run`, `tcp-state`, `send-window`, `retransmit`, `drop`, `buffers`, `option`,
//!   `state-change`, `loss`, `interface`, `accept`, `window-scale`, `left-out`, `hop`.
//! - `RANGE`: `+100` for the next 100 bytes at that point (or of that event), or `200..300`. A plain range moves the
//!   point's position too. Without one: no bytes at the point's position.
//! - `WORD`: a `Hold` by name (`nagle`, `cork`, `cwnd`, `rwnd`, `pacing`, `small-queue`, `other`); a mark (`waited`,
//!   `retransmitted`, `loopback`, `derived`, `anchored`, `recognized`, `no-queue`, `aggregated`); a flag (`syn`,
//!   `fin`, `rst`, `psh`); `ack=POSITION` (sets the flag too), `win=BYTES`, `ran=TIME` (detail), `runq=TIME` (extra),
//!   `from=TIME` (offset: start of a loss), `at=POSITION` (offset), `thread=N`, `code=N`, `detail=N`, `extra=N`,
//!   `high=N` (high half of detail), `len=N`, `cpu=N`.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};

use sockscope_record::{
    Connection, ConnectionId, Direction, Hold, Kind, Process, Protocol, Record, Side, marks,
    tcp_flags,
};

use crate::{Analysis, Analyzer, ConnectionAnalysis, ConnectionStore, TraceFacts};

/// A TCP connection with this id whose two ends are on this host, open since time 0.
pub(crate) fn connection(id: u32) -> Connection {
    Connection {
        id: ConnectionId(id),
        protocol: Protocol::Tcp,
        client: SocketAddr::from((Ipv4Addr::LOCALHOST, 40_000)),
        server: SocketAddr::from((Ipv4Addr::LOCALHOST, 80)),
        opened_ns: 0,
        closed_ns: None,
        preexisting: false,
        both_ends_here: true,
        processes: Vec::new(),
        names: None,
        mark: None,
        elsewhere: None,
    }
}

/// The records of `text`, all of connection 1.
pub(crate) fn records(text: &str) -> Vec<Record> {
    let mut positions = HashMap::new();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let entries = lines.flat_map(|line| line.split('|')).map(str::trim);
    entries
        .filter(|entry| !entry.is_empty())
        .flat_map(|entry| parse_entry(entry, &mut positions))
        .collect()
}

/// The records of `text`, sorted, of connection 1 as [`connection`] makes it.
pub(crate) fn store(text: &str) -> ConnectionStore {
    store_of(connection(1), text)
}

/// The records of `text`, sorted, of the connection given (id 1).
pub(crate) fn store_of(connection: Connection, text: &str) -> ConnectionStore {
    let mut analyzer = Analyzer::new();
    analyzer.connection(connection);
    analyzer.push(&records(text));
    analyzer.into_stores().connections.remove(0)
}

/// The analysis of `text` as connection 1.
pub(crate) fn analyze(text: &str) -> ConnectionAnalysis {
    analyze_of(connection(1), text)
}

/// The analysis of `text` as the connection given (id 1).
pub(crate) fn analyze_of(connection: Connection, text: &str) -> ConnectionAnalysis {
    let mut analyzer = Analyzer::new();
    analyzer.connection(connection);
    analyzer.push(&records(text));
    analyzer.finish(TraceFacts::default()).connections.remove(0)
}

/// The analysis of several connections, from number 1 on: each has its ends as `CLIENT > SERVER`, by the numbers
/// of their processes, and its records. Commas separate several processes of one side; an end without any is on
/// another host.
pub(crate) fn analyze_all<T: AsRef<str>>(connections: &[(&str, T)]) -> Analysis {
    analyzer_of_all(connections).finish(TraceFacts::default())
}

/// As [`analyze_all`], with the analysis to be done.
pub(crate) fn analyzer_of_all<T: AsRef<str>>(connections: &[(&str, T)]) -> Analyzer {
    let mut analyzer = Analyzer::new();
    for (id, (ends, text)) in (1..).zip(connections) {
        analyzer.connection(between(id, ends));
        let own = |record: Record| Record {
            flow: ConnectionId(id).flow(record.flow.direction()),
            ..record
        };
        let records: Vec<Record> = records(text.as_ref()).into_iter().map(own).collect();
        analyzer.push(&records);
    }
    analyzer
}

fn between(id: u32, ends: &str) -> Connection {
    let (client, server) = ends.split_once('>').expect("two ends");
    let side = |text: &str, side| {
        let process = |text: &str| {
            // `2/8` is process 8 of host 2.
            let (host, pid) = text.trim().split_once('/').unwrap_or(("0", text.trim()));
            let (host, pid) = (host.parse().ok()?, pid.parse().ok()?);
            Some(Process { host, ..Process::new(pid, format!("p{pid}"), side) })
        };
        text.split(',').filter_map(process).collect::<Vec<_>>()
    };
    let processes = [side(client, Side::Client), side(server, Side::Server)].concat();
    let port = processes.iter().find(|one| one.side == Side::Server).map_or(80, |one| one.pid);
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port as u16));
    let is_here = |side| processes.iter().any(|one| one.side == side);
    let both_ends_here = is_here(Side::Client) && is_here(Side::Server);
    Connection { server, processes, both_ends_here, ..connection(id) }
}

/// A call, as `ASKED READ ANSWERED READ` in microseconds, with the threads of the asker and of the answerer.
pub(crate) fn call(times: [u64; 4], [asker, answerer]: [u32; 2]) -> String {
    let [asked, heard, answered, ended] = times;
    format!(
        "{asked}us 1-7 +50 thread={asker} | {heard}us 8 +50 thread={answerer} |
         {answered}us <1-7 +90 thread={answerer} | {ended}us <8 +90 thread={asker}"
    )
}

/// `15us` to nanoseconds.
pub(crate) fn time_ns(text: &str) -> u64 {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().unwrap_or_else(|_| panic!("no time: {text}"));
    let unit = match &text[digits.len()..] {
        "" | "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        unit => panic!("no unit of time: {unit}"),
    };
    number * unit
}

fn parse_entry(entry: &str, positions: &mut HashMap<(u32, Kind), u64>) -> Vec<Record> {
    let mut words = entry.split_whitespace();
    let at_ns = time_ns(words.next().unwrap_or_default());
    let what = words.next().unwrap_or_else(|| panic!("nothing happens: {entry}"));
    let (direction, what) = match what.strip_prefix('<') {
        Some(what) => (Direction::FromServer, what),
        None => (Direction::FromClient, what),
    };
    let flow = ConnectionId(1).flow(direction);
    let words: Vec<_> = words.collect();
    let of_kind = |kind| {
        let position = positions.entry((flow.0, kind)).or_insert(0);
        let mut record = Record { at_ns, flow, kind, offset: *position, ..Record::default() };
        for word in &words {
            apply(word, &mut record);
        }
        *position = record.end();
        if kind == Kind::Loss {
            record.flow = sockscope_record::FlowId(0);
        }
        record
    };
    kinds(what).into_iter().map(of_kind).collect()
}

fn kinds(what: &str) -> Vec<Kind> {
    let kind = |code: &str| {
        let code = code.parse().unwrap_or_else(|_| panic!("no event: {what}"));
        Kind::from_code(code).unwrap_or_else(|| panic!("no point: {what}"))
    };
    if what.starts_with(|c: char| c.is_ascii_digit()) {
        let (first, last) = what.split_once('-').unwrap_or((what, what));
        return (kind(first) as u8..=kind(last) as u8).filter_map(Kind::from_code).collect();
    }
    vec![match what {
        "write" => Kind::WriteCall,
        "write-return" => Kind::WriteReturn,
        "read-return" => Kind::ReadReturn,
        "transaction" => Kind::Transaction,
        "blocks-again" => Kind::BlocksAgain,
        "wakeup" => Kind::Wakeup,
        "run" => Kind::Run,
        "tcp-state" => Kind::TcpState,
        "send-window" => Kind::SendWindow,
        "retransmit" => Kind::Retransmit,
        "drop" => Kind::Drop,
        "buffers" => Kind::SocketBuffers,
        "option" => Kind::SocketOption,
        "state-change" => Kind::StateChange,
        "loss" => Kind::Loss,
        "interface" => Kind::Interface,
        "accept" => Kind::Accept,
        "window-scale" => Kind::WindowScale,
        "left-out" => Kind::LeftOut,
        "hop" => Kind::Hop,
        "layer" => Kind::SocketLayer,
        _ => panic!("no event: {what}"),
    }]
}

fn apply(word: &str, record: &mut Record) {
    let number =
        |text: &str| -> u64 { text.parse().unwrap_or_else(|_| panic!("no number: {word}")) };
    if let Some(len) = word.strip_prefix('+') {
        record.len = number(len) as u32;
    } else if let Some((start, end)) = word.split_once("..") {
        record.offset = number(start);
        record.len = (number(end) - number(start)) as u32;
    } else if let Some((key, value)) = word.split_once('=') {
        apply_key(key, value, record);
    } else {
        apply_name(word, record);
    }
}

fn apply_key(key: &str, value: &str, record: &mut Record) {
    if let "ran" | "runq" | "from" = key {
        let time = time_ns(value);
        match key {
            "ran" => record.detail = time,
            "runq" => record.extra = time as u32,
            _ => record.offset = time,
        }
        return;
    }
    let number: u64 = value.parse().unwrap_or_else(|_| panic!("no number: {key}={value}"));
    match key {
        "ack" => {
            record.detail = number;
            record.tcp_flags |= tcp_flags::ACK;
        }
        "at" => record.offset = number,
        "len" => record.len = number as u32,
        "win" | "extra" => record.extra = number as u32,
        "thread" => record.thread = number as u32,
        "code" => record.code = number as u8,
        "detail" => record.detail |= number,
        "high" => record.detail |= number << 32,
        "cpu" => record.cpu = number as u16,
        _ => panic!("no key: {key}"),
    }
}

fn apply_name(word: &str, record: &mut Record) {
    if let Some(hold) = Hold::ALL.into_iter().find(|hold| hold.name() == word) {
        record.code = hold as u8;
        return;
    }
    match word {
        "waited" => record.marks |= marks::WAITED_FOR,
        "retransmitted" => record.marks |= marks::RETRANSMITTED,
        "loopback" => record.marks |= marks::LOOPBACK,
        "derived" => record.marks |= marks::DERIVED,
        "recognized" => record.marks |= marks::RECOGNIZED,
        "anchored" => record.marks |= marks::ANCHORED,
        "no-queue" => record.marks |= marks::NO_QUEUE,
        "aggregated" => record.marks |= marks::AGGREGATED,
        "syn" => record.tcp_flags |= tcp_flags::SYN,
        "fin" => record.tcp_flags |= tcp_flags::FIN,
        "rst" => record.tcp_flags |= tcp_flags::RST,
        "psh" => record.tcp_flags |= tcp_flags::PSH,
        _ => panic!("no such word: {word}"),
    }
}
