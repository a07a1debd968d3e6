//! Text that tcpdump prints.
//!
//! A capture stands on the wire, after the sender's driver took the packet: its packets pass
//! `InterfaceDequeue` (point 4), marked as derived. One taken on an end of the connection sees
//! received packets as late as that end's own input; the text does not show that.
//!
//! Numbers may be absolute or relative to the first of their flow, as tcpdump prints them after a
//! SYN. Names of hosts become addresses for documentation, which a note relates.

mod flow;
mod line;

use crate::capture::{Capture, Opened, Problem};
use crate::names::Names;
use crate::time::Clock;
use flow::Flows;
use line::{Line, Packet};
use sockscope_record::{Protocol, Record, counted, marks, tcp_flags};

/// Reads a text, line by line.
///
/// Lines with three dots stand for packets left out: from there to the next packet at least one
/// record is missed. Packets that the capture itself reports as missed are missed anywhere in
/// it.
pub fn read(text: &str) -> Capture {
    let mut reader = Reader::default();
    for (index, line) in text.lines().enumerate() {
        match line::parse(line, &mut reader.clock, &mut reader.names) {
            Ok(line) => reader.take(line),
            Err(expected) => {
                let problem = Problem::new(index + 1, expected, line.trim());
                reader.capture.problems.push(problem);
            }
        }
    }
    reader.finish()
}

#[derive(Debug, Default)]
struct Reader {
    capture: Capture,
    clock: Clock,
    names: Names,
    flows: Flows,
    span_ns: Option<(u64, u64)>,
    left_out: bool,
    dropped: u64,
}

impl Reader {
    fn take(&mut self, line: Line) {
        match line {
            Line::Packet(at_ns, ends, packet) => self.packet(at_ns, ends, &packet),
            Line::LeftOut => self.left_out = true,
            Line::Dropped(count) => self.dropped = self.dropped.saturating_add(count),
            Line::Other => {}
            Line::Unknown => self.capture.other_lines += 1,
        }
    }

    fn packet(&mut self, at_ns: u64, ends: [std::net::SocketAddr; 2], packet: &Packet) {
        let (first_ns, last_ns) = self.span_ns.unwrap_or((at_ns, at_ns));
        self.span_ns = Some((first_ns.min(at_ns), last_ns.max(at_ns)));
        if std::mem::take(&mut self.left_out) {
            self.capture.missed(last_ns, at_ns.max(last_ns), 1);
        }
        let record = match packet {
            Packet::Datagram(len) => {
                let flow = self.capture.flow(Protocol::Udp, ends, at_ns, Opened::BySender);
                self.flows.datagram(flow, *len)
            }
            Packet::Segment(segment) => {
                let is_syn = segment.flags & tcp_flags::SYN != 0;
                let opened = match (is_syn, segment.flags & tcp_flags::ACK != 0) {
                    (true, false) => Opened::BySender,
                    (true, true) => Opened::ByReceiver,
                    (false, _) => Opened::Before,
                };
                let flow = self.capture.flow(Protocol::Tcp, ends, at_ns, opened);
                self.flows.segment(flow, segment)
            }
        };
        let marks = record.marks | marks::DERIVED;
        self.capture.records.push(Record { at_ns, marks, ..record });
    }

    fn finish(mut self) -> Capture {
        if let Some((first_ns, last_ns)) = self.span_ns.filter(|_| self.dropped > 0) {
            self.capture.missed(first_ns, last_ns, self.dropped);
            let packets = counted(self.dropped, "packet");
            let note = format!("the capture missed {packets} by its own count");
            self.capture.notes.push(note);
        }
        self.capture.records.sort_by_key(|record| record.at_ns);
        self.capture.notes.extend(self.names.note());
        self.capture
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        let capture = read(text);
        assert_eq!(capture.problems, []);
        let line = |record: &Record| {
            let Record { flow, offset, .. } = record;
            let header = record.segment_header().unwrap_or_default();
            let (ack, window) = (header.acknowledged.unwrap_or(0), header.window_bytes);
            format!("{flow} {offset}..{} ack {ack} win {window}", record.end())
        };
        capture.records.iter().map(line).collect()
    }

    #[test]
    fn the_sample_of_the_sunos_study_is_16384_bytes_with_packets_left_out() {
        let capture = read(include_str!("../../tests/samples/sunos-tcpdump.txt"));
        assert_eq!(capture.problems, []);
        assert_eq!(capture.connections.len(), 1);
        assert_eq!(capture.connections[0].client.to_string(), "192.0.2.1:1164");
        let data = |record: &&Record| record.len > 0;
        let first: Vec<u32> =
            capture.records.iter().filter(data).map(|record| record.len).collect();
        assert_eq!(first[..3], [1460, 1460, 1176]);
        let packets = capture.records.iter().filter(|record| record.loss().is_none());
        assert_eq!(packets.map(Record::end).max(), Some(16384));
        let losses = capture.records.iter().filter_map(Record::loss);
        assert_eq!(losses.map(|loss| loss.count).collect::<Vec<_>>(), [1, 7]);
        assert_eq!(capture.notes.len(), 2);
    }

    #[test]
    fn numbers_relative_from_the_syn_on_are_positions_plus_one() {
        let capture = read(include_str!("../../tests/samples/rpc-call.txt"));
        assert_eq!((capture.problems.len(), capture.connections.len()), (0, 2));
        assert_eq!(capture.connections[0].protocol, Protocol::Udp);
        let tcp = capture.connections[1].id;
        let of_tcp = capture.records.iter().filter(|record| record.flow.connection() == tcp);
        assert_eq!(of_tcp.map(Record::end).max(), Some(4852));
    }

    #[test]
    fn absolute_numbers_that_wrap_are_positions_too() {
        let got = lines(
            "0.1 a.1 > b.2: S 4294967290:4294967290(0) win 8
             0.2 b.2 > a.1: S 100:100(0) ack 4294967291 win 9
             0.3 a.1 > b.2: . 4294967291:5(10) ack 101 win 8
             0.4 b.2 > a.1: . ack 5 win 9",
        );
        assert_eq!(
            got,
            [
                "2 0..0 ack 0 win 8",
                "3 0..0 ack 0 win 9",
                "2 0..10 ack 0 win 8",
                "3 0..0 ack 10 win 9"
            ]
        );
    }

    #[test]
    fn relative_numbers_stay_relative_wherever_the_first_one_lies() {
        // A quarter of all initial numbers is as near to 1 as this one.
        for initial in [2_u32, 1_000, 2_147_483_648, 3_455_516_713, 4_294_967_295] {
            let next = initial.wrapping_add(1);
            let got = lines(&format!(
                "0.1 a.1 > b.2: S {initial}:{initial}(0) win 8
                 0.2 b.2 > a.1: S 9:9(0) ack {next} win 9
                 0.3 a.1 > b.2: . ack 1 win 8
                 0.4 a.1 > b.2: P 1:84(83) ack 1 win 8
                 0.5 b.2 > a.1: . ack 84 win 9
                 0.6 b.2 > a.1: P 1:3001(3000) ack 84 win 9"
            ));
            let expected = [
                "2 0..0 ack 0 win 8",
                "3 0..0 ack 0 win 9",
                "2 0..0 ack 0 win 8",
                "2 0..83 ack 0 win 8",
                "3 0..0 ack 83 win 9",
                "3 0..3000 ack 83 win 9",
            ];
            assert_eq!(got, expected, "{initial}");
        }
    }

    #[test]
    fn a_segment_sent_again_is_marked() {
        let capture = read(
            "0.1 a.1 > b.2: S 1:1(0) win 8\n0.2 a.1 > b.2: . 1:11(10) win 8\n0.9 a.1 > b.2: . 1:11(10) win 8",
        );
        let marks = capture.records.iter().map(|record| record.is_marked(marks::RETRANSMITTED));
        assert_eq!(marks.collect::<Vec<_>>(), [false, false, true]);
    }

    #[test]
    fn windows_are_scaled_only_when_both_sides_asked() {
        let window = |answer: &str| {
            let text = format!(
                "0.1 IP 10.0.0.1.1 > 10.0.0.2.2: Flags [S], seq 5, win 100, options [wscale 3], length 0
                 0.2 IP 10.0.0.2.2 > 10.0.0.1.1: Flags [S.], seq 9, ack 6, win 100{answer}, length 0
                 0.3 IP 10.0.0.1.1 > 10.0.0.2.2: Flags [.], ack 1, win 100, length 0"
            );
            read(&text).records[2].segment_header().unwrap().window_bytes
        };
        assert_eq!((window(", options [wscale 0]"), window("")), (800, 100));
    }

    #[test]
    fn a_connection_joined_on_its_way_begins_at_its_first_number() {
        let got = lines(
            "0.1 a.1 > b.2: P 5000:5010(10) ack 77 win 8
             0.2 b.2 > a.1: . ack 5010 win 9
             0.3 a.1 > b.2: P 5010:5020(10) ack 77 win 8",
        );
        assert_eq!(got, ["2 0..10 ack 0 win 8", "3 0..0 ack 10 win 9", "2 10..20 ack 0 win 8"]);
    }

    mod hostile {
        use proptest::prelude::*;

        proptest! {
            #[test]
            fn no_text_makes_it_panic(text in "(?s).{0,200}") {
                let _ = super::read(&text);
            }

            #[test]
            fn no_numbers_make_it_panic(lines in prop::collection::vec(
                ("[ab]\\.[12]", "[SFP.]", any::<u32>(), any::<u32>(), any::<u32>(), 0u32..90), 0..20,
            )) {
                let line = |(from, flags, start, ack, win, at): &(String, String, u32, u32, u32, u32)| {
                    let len = ack % 2000;
                    let end = start.wrapping_add(len);
                    format!("{at}.0 {from} > b.1: {flags} {start}:{end}({len}) ack {ack} win {win}\n")
                };
                let _ = super::read(&lines.iter().map(line).collect::<String>());
            }
        }
    }
}
