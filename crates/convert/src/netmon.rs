//! Text of the NETMON (iptrace) kernel monitor.
//!
//! A line is `TAG [NUMBER] TIME PROBE>QUEUE REST`; the tag is that of the buffer that holds the
//! packet, and names it from interface to interface. Only IP probes print addresses, so that the
//! lines of a tag before its first IP line wait for it. Probes and their points:
//!
//! | probe | point |
//! |---|---|
//! | `…In` of an interface (`ethIn`) | 5, `InputEnqueue` |
//! | `ipIn…` (`ipInForw`) | 6, `InputDequeue` |
//! | `…Out` of an interface (`x25Out`) | 3, `InterfaceEnqueue` |
//! | `…OutDeq` of an interface (`x25OutDeq`) | 4, `InterfaceDequeue` |
//!
//! On a gateway, as in the sample, a packet passes 5 and 6 before 3 and 4. `ipOut…` lies between 6
//! and 3 and has no point. Payload is the IP length less 40 bytes for TCP and 28 for UDP, headers
//! without options being supposed; positions are the running count of it. The value of the queue is kept.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sockscope_record::{FlowId, Kind, Protocol, Record, counted, marks};

use crate::capture::{Capture, Opened, Problem};
use crate::names::Names;
use crate::time::Clock;

/// Largest number of tags that wait for their addresses.
const WAITING_MAX: usize = 4096;

/// Reads a text, line by line.
///
/// A line of plus signs or dots stands for lines left out: from there to the next one at least one
/// record is missed.
pub fn read(text: &str) -> Capture {
    let mut reader = Reader::default();
    for (index, line) in text.lines().map(str::trim).enumerate() {
        let is_gap = |c: char| c == '+' || c == '.' || c == ' ';
        if !line.is_empty() && line.chars().all(is_gap) {
            reader.left_out = true;
        } else if let Some(event) = Event::parse(line, &mut reader.clock, &mut reader.names) {
            reader.take(&event);
        } else if line.contains('>') {
            let problem = Problem::new(index + 1, "TAG TIME PROBE>QUEUE …", line);
            reader.capture.problems.push(problem);
        } else if !line.is_empty() {
            reader.capture.other_lines += 1;
        }
    }
    reader.finish()
}

struct Event<'a> {
    tag: &'a str,
    at_ns: u64,
    /// `None` for probes of no point.
    point: Option<Kind>,
    queue_value: i64,
    packet: Option<Packet>,
}

#[derive(Debug, Clone, Copy)]
struct Packet {
    protocol: Protocol,
    ends: [SocketAddr; 2],
    payload_bytes: u32,
}

/// Place of a tag's packet in its flow.
#[derive(Debug, Clone, Copy)]
struct Place {
    flow: FlowId,
    offset: u64,
    len: u32,
}

impl<'a> Event<'a> {
    fn parse(line: &'a str, clock: &mut Clock, names: &mut Names) -> Option<Self> {
        let mut words = line.split_whitespace();
        let tag = words.next()?;
        let is_time = |word: &&str| word.contains(':');
        let time = words.by_ref().take(2).find(is_time)?;
        let (probe, queue) = words.next()?.split_once('>')?;
        let queue_value = queue.parse().ok()?;
        let rest: Vec<_> = words.collect();
        let packet = if probe.starts_with("ip") { Some(packet(&rest, names)?) } else { None };
        Some(Self { tag, at_ns: clock.read(time)?, point: point(probe), queue_value, packet })
    }
}

fn point(probe: &str) -> Option<Kind> {
    match probe {
        _ if probe.starts_with("ipIn") => Some(Kind::InputDequeue),
        _ if probe.starts_with("ip") => None,
        _ if probe.ends_with("OutDeq") => Some(Kind::InterfaceDequeue),
        _ if probe.ends_with("Out") => Some(Kind::InterfaceEnqueue),
        _ if probe.ends_with("In") => Some(Kind::InputEnqueue),
        _ => None,
    }
}

/// `qe0 iplen 41 TCP(6) 128.29.1.12.1136 > 10.0.0.78.9`
fn packet(words: &[&str], names: &mut Names) -> Option<Packet> {
    let [_, "iplen", length, protocol, source, ">", destination, ..] = words else { return None };
    let (protocol, headers) = match *protocol {
        "TCP(6)" => (Protocol::Tcp, 40),
        "UDP(17)" => (Protocol::Udp, 28),
        _ => return None,
    };
    let payload_bytes = length.parse::<u16>().ok()?.checked_sub(headers)?.into();
    Some(Packet {
        protocol,
        ends: [names.socket(source)?, names.socket(destination)?],
        payload_bytes,
    })
}

#[derive(Debug, Default)]
struct Reader {
    capture: Capture,
    clock: Clock,
    names: Names,
    places: BTreeMap<String, Place>,
    /// By tag: time, point and value of the queue.
    waiting: BTreeMap<String, Vec<(u64, Kind, i64)>>,
    ends: BTreeMap<FlowId, u64>,
    last_ns: u64,
    left_out: bool,
}

impl Reader {
    fn take(&mut self, event: &Event<'_>) {
        if std::mem::take(&mut self.left_out) {
            self.capture.missed(self.last_ns, event.at_ns.max(self.last_ns), 1);
        }
        self.last_ns = self.last_ns.max(event.at_ns);
        // A buffer is used again: an incoming packet with a known tag is another one.
        if event.point == Some(Kind::InputEnqueue) {
            self.places.remove(event.tag);
        }
        if let Some(packet) = event.packet.filter(|_| !self.places.contains_key(event.tag)) {
            self.place(event.tag, event.at_ns, packet);
        }
        let Some(kind) = event.point else { return };
        match self.places.get(event.tag) {
            Some(&place) => self.record((event.at_ns, kind, event.queue_value), place),
            None if self.waiting.len() < WAITING_MAX => {
                let waiting = self.waiting.entry(event.tag.to_owned()).or_default();
                waiting.push((event.at_ns, kind, event.queue_value));
            }
            None => self.capture.missed(event.at_ns, event.at_ns, 1),
        }
    }

    fn place(&mut self, tag: &str, at_ns: u64, packet: Packet) {
        let flow = self.capture.flow(packet.protocol, packet.ends, at_ns, Opened::Before);
        let end = self.ends.entry(flow).or_default();
        let place = Place { flow, offset: *end, len: packet.payload_bytes };
        *end += u64::from(place.len);
        self.places.insert(tag.to_owned(), place);
        for passed in self.waiting.remove(tag).unwrap_or_default() {
            self.record(passed, place);
        }
    }

    fn record(&mut self, passed: (u64, Kind, i64), Place { flow, offset, len }: Place) {
        let (at_ns, kind, queue_value) = passed;
        let marks = marks::DERIVED;
        let record = Record { at_ns, kind, flow, offset, len, marks, ..Record::default() };
        self.capture.records.push(record.with_queue_value(queue_value));
    }

    fn finish(mut self) -> Capture {
        if !self.capture.records.is_empty() {
            let note = "positions are the running count of payload, headers without options being supposed";
            self.capture.notes.push(note.to_owned());
        }
        let unplaced: usize = self.waiting.values().map(Vec::len).sum();
        if unplaced > 0 {
            let lines = counted(unplaced as u64, "line");
            self.capture.notes.push(format!("{lines} without a packet with addresses"));
        }
        self.capture.records.sort_by_key(|record| record.at_ns);
        self.capture.notes.extend(self.names.note());
        self.capture
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_sample_follows_one_packet_through_a_gateway() {
        let capture = read(include_str!("../tests/samples/netmon.txt"));
        assert_eq!(capture.problems, []);
        let line = |record: &Record| {
            let ms = record.at_ns / 1_000_000 % 60_000;
            let queue =
                record.queue_value().map_or(String::new(), |value| format!(" queue {value}"));
            format!("{ms} {} {}{queue}", record.kind as u8, record.len)
        };
        let lines: Vec<_> = capture.records.iter().map(line).collect();
        let expected = [
            "35570 5 1 queue 0",
            "35570 6 1 queue 0",
            "35580 3 1 queue 1",
            "36760 31 0",
            "36760 4 1 queue 2",
        ];
        assert_eq!(lines, expected);
        assert_eq!(capture.connections[0].server.to_string(), "10.0.0.78:9");
    }

    #[test]
    fn a_buffer_used_again_holds_another_packet() {
        let ip = "qe0 iplen 50 TCP(6) 10.0.0.1.7 > 10.0.0.2.9";
        let capture = read(&format!(
            "A 00:00:01.0 ethIn>0 0\nA 00:00:01.1 ipInForw>0 {ip}\nA 00:00:02.0 ethIn>0 0\nA 00:00:02.1 ipInForw>0 {ip}"
        ));
        let offsets: Vec<_> = capture.records.iter().map(|record| record.offset).collect();
        assert_eq!(offsets, [0, 0, 10, 10]);
    }

    #[test]
    fn a_line_that_is_not_of_the_form_is_a_problem() {
        let capture = read("A 00:00:01.0 ipInForw>x qe0\nheading\nA noon ethIn>0 0");
        let lines: Vec<_> = capture.problems.iter().map(|problem| problem.line).collect();
        assert_eq!((lines, capture.records.len()), (vec![1, 3], 0));
    }

    proptest! {
        #[test]
        fn every_line_is_recorded_or_counted(text in "([AB] 0?[0-9]:00:0[0-9]\\.[0-9] (ethIn|ipInForw|x25Out)>[0-9] (qe0 iplen [0-9]{1,6} TCP\\(6\\) 1\\.1\\.1\\.1\\.1 > 2\\.2\\.2\\.2\\.2)?\n|.{0,20}\n){0,12}") {
            let capture = read(&text);
            let is_event = |line: &&str| line.contains(|letter| !"+. ".contains(letter));
            let lines = text.lines().map(str::trim).filter(is_event).count();
            let unplaced = |note: &String| -> Option<usize> {
                note.strip_suffix(" without a packet with addresses")?.split(' ').next()?.parse().ok()
            };
            let unplaced: usize = capture.notes.iter().filter_map(unplaced).sum();
            let others = capture.problems.len() + capture.other_lines as usize;
            let recorded = capture.records.iter().filter(|record| record.kind != Kind::Loss).count();
            prop_assert_eq!(recorded + unplaced + others, lines);
            prop_assert!(capture.records.is_sorted_by_key(|record| record.at_ns));
        }
    }
}
