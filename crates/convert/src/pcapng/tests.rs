//! Records written as a file, and read again.

use sockscope_record::{Process, marks};

use super::*;
use crate::capture_file::{self, Part, Told, Unreadable};

fn connection() -> Connection {
    let ends = ["10.0.0.1:1000", "10.0.0.2:80"].map(|end| end.parse().unwrap());
    let process = |side, comm: &str| Process::new(7, comm, side);
    let mut connection = Connection::new(ConnectionId(1), Protocol::Tcp, ends, 0);
    connection.processes = vec![process(Side::Client, "curl"), process(Side::Server, "nginx")];
    connection
}

/// A record as `flow point time flags offset len ack window`.
fn record(line: &str) -> Record {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |at: usize| words[at].parse::<u64>().unwrap();
    let flags = words[3].chars().fold(0, |flags, letter| {
        flags
            | match letter {
                'S' => tcp_flags::SYN,
                'F' => tcp_flags::FIN,
                'P' => tcp_flags::PSH,
                _ => tcp_flags::ACK,
            }
    });
    let kind =
        [Kind::InterfaceDequeue, Kind::InputEnqueue, Kind::InputDequeue][number(1) as usize - 4];
    let plain = Record {
        at_ns: number(2),
        flow: FlowId(number(0) as u32),
        kind,
        tcp_flags: flags,
        offset: number(4),
        len: number(5) as u32,
        ..Record::default()
    };
    let acknowledged = (flags & tcp_flags::ACK != 0).then(|| number(6));
    plain.with_segment_header(sockscope_record::SegmentHeader {
        acknowledged,
        window_bytes: number(7) as u32,
    })
}

/// The file of an end, of records at all points.
fn file(side: Side, lines: &[&str], remarks: Vec<Remark>) -> Vec<u8> {
    let (connection, mut file) = (connection(), Vec::new());
    let facts = Facts { program: "test".to_owned(), offset_ns: 1_000_000, ..Facts::default() };
    let mut writer = Writer::new(&mut file, &facts, [(&connection, side)], remarks).unwrap();
    lines.iter().for_each(|line| writer.record(&record(line)).unwrap());
    writer.finish().unwrap();
    file
}

/// What the file's packets are, read again: time, direction, flags, range, acknowledgment, window.
fn read_again(file: &[u8]) -> Vec<String> {
    let mut all = Part::default();
    capture_file::read::<Unreadable>(file, &Told::default(), |part| {
        all.records.extend(&part.records);
        Ok(())
    })
    .unwrap();
    let line = |it: &Record| {
        let header = it.segment_header().unwrap_or_default();
        let direction = if it.kind == Kind::InterfaceDequeue { "sent" } else { "received" };
        let again = if it.is_marked(marks::RETRANSMITTED) { " again" } else { "" };
        let ack = header.acknowledged.unwrap_or(0);
        let (from, to, window) = (it.offset, it.end(), header.window_bytes);
        format!("{} {direction} {from}..{to} ack {ack} win {window}{again}", it.at_ns)
    };
    all.records.iter().filter(|it| it.point().is_some()).map(line).collect()
}

const CALL: [&str; 12] = [
    "2 4 0 S 0 0 0 64240",
    "2 5 10 S 0 0 0 64240",
    "3 4 20 S. 0 0 0 65535",
    "3 5 30 S. 0 0 0 65535",
    "2 4 40 . 0 0 0 65536",
    "2 4 50 P. 0 100 0 65536",
    "2 5 60 P. 0 100 0 65536",
    "2 6 61 P. 0 100 0 65536",
    "3 4 70 P. 0 300 100 100",
    "3 5 80 P. 0 300 100 100",
    "2 4 90 F. 100 0 300 65536",
    "2 4 95 . 100 0 300 65536",
];

#[test]
fn each_end_has_its_own_packets_and_no_packet_twice() {
    assert_eq!(
        read_again(&file(Side::Client, &CALL, Vec::new())),
        [
            "1000000 sent 0..0 ack 0 win 64240",
            "1000030 received 0..0 ack 0 win 65535",
            "1000040 sent 0..0 ack 0 win 65536",
            "1000050 sent 0..100 ack 0 win 65536",
            // A window of 100 octets is not closed: one unit.
            "1000080 received 0..300 ack 100 win 256",
            "1000090 sent 100..100 ack 300 win 65536",
            "1000095 sent 100..100 ack 300 win 65536",
        ]
    );
    assert_eq!(
        read_again(&file(Side::Server, &CALL, Vec::new())),
        [
            "1000010 received 0..0 ack 0 win 64240",
            "1000020 sent 0..0 ack 0 win 65535",
            "1000060 received 0..100 ack 0 win 65536",
            "1000070 sent 0..300 ack 100 win 256",
        ]
    );
}

#[test]
fn without_the_input_queue_packets_are_received_at_point_6() {
    let lines =
        ["2 6 60 P. 0 100 0 65536", "2 5 70 P. 100 100 0 65536", "2 6 71 P. 100 100 0 65536"];
    assert_eq!(
        read_again(&file(Side::Server, &lines, Vec::new())),
        ["1000060 received 0..100 ack 0 win 65535", "1000071 received 100..200 ack 0 win 65535"]
    );
}

#[test]
fn what_is_sent_again_stays_sent_again() {
    let lines = ["2 4 50 P. 0 100 0 9", "2 4 60 P. 100 100 0 9", "2 4 70 P. 0 100 0 9"];
    let last = read_again(&file(Side::Client, &lines, Vec::new())).pop();
    assert_eq!(last.as_deref(), Some("1000070 sent 0..100 ack 0 win 9 again"));
}

#[test]
fn remarks_stand_at_the_next_packet_and_processes_at_the_first() {
    let remark = |at_ns, words: &str| Remark { flow: FlowId(2), at_ns, words: words.to_owned() };
    let file = file(Side::Client, &CALL, vec![remark(45, "late: one"), remark(82, "late: two")]);
    let text = String::from_utf8_lossy(&file);
    let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}"));
    assert!(text.contains("client: curl (pid 7)\nserver: nginx (pid 7)"));
    assert!(at("nginx") < at("late: one") && at("late: one") < at("late: two"));
    assert_eq!(text.matches("late: one").count(), 1);
}

#[test]
fn a_packet_longer_than_ip_can_say_has_its_length_in_the_file() {
    let lines = ["2 4 50 P. 0 200000 0 9"];
    let again = read_again(&file(Side::Client, &lines, Vec::new()));
    assert_eq!(again, ["1000050 sent 0..200000 ack 0 win 9"]);
}

#[test]
fn what_follows_a_fin_has_a_number_behind_it() {
    let (connection, fin) = (connection(), record("2 4 90 F. 100 0 300 9"));
    let mut writer =
        Writer::new(Vec::new(), &Facts::default(), [(&connection, Side::Client)], Vec::new())
            .unwrap();
    writer.record(&fin).unwrap();
    let end = writer.ends.get_mut(&connection.id).unwrap();
    let after = end.tcp(&record("2 4 95 . 100 0 300 9"), 0, [1, 2]);
    assert_eq!((after.sequence_number, after.acknowledgment_number), (102, 301));
    // The other end's acknowledgment may be of the data alone; its own FIN it has acknowledged by then.
    let other = end.tcp(&record("3 5 99 . 300 0 100 9"), 1, [2, 1]);
    assert_eq!(other.acknowledgment_number, 101);
}
