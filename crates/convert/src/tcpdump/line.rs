//! One printed packet.

use std::net::SocketAddr;

use sockscope_record::tcp_flags;

use crate::names::Names;
use crate::time::Clock;

/// Content of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    /// A packet: its time, source and destination, and content.
    Packet(u64, [SocketAddr; 2], Packet),
    /// Packets were left out of the text here.
    LeftOut,
    /// The capture's own count of packets that it missed.
    Dropped(u64),
    /// Nothing of a packet: another line that tcpdump prints, or an empty one.
    Other,
    /// Nothing of a packet, and nothing that tcpdump prints.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Packet {
    Segment(Segment),
    /// Bytes of UDP payload.
    Datagram(u32),
}

/// A TCP segment as printed: numbers may be relative to the first ones of their flow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Segment {
    pub flags: u8,
    /// First sequence number and payload bytes; `None` if they are not printed: a pure acknowledgment.
    pub sequence: Option<(u32, u32)>,
    pub ack: Option<u32>,
    /// As in the header, not scaled.
    pub window: u32,
    /// Shift that a SYN's window scale option asks for (RFC 7323 §2.2).
    pub window_shift: Option<u8>,
}

/// Reads one line; the error has the expected text.
pub(super) fn parse(
    line: &str,
    clock: &mut Clock,
    names: &mut Names,
) -> Result<Line, &'static str> {
    let line = line.trim();
    if !line.is_empty() && line.bytes().all(|byte| byte == b'.' || byte == b' ') {
        return Ok(Line::LeftOut);
    }
    if let Some((count, _)) = line.split_once(" packets dropped by ") {
        return count.parse().map(Line::Dropped).map_err(|_| "a number of packets");
    }
    let packet_line = line.split_once(": ").and_then(|(head, body)| {
        let (before, destination) = head.rsplit_once(" > ")?;
        Some((before, destination, body))
    });
    let Some((before, destination, body)) = packet_line else {
        return Ok(if is_beside(line) { Line::Other } else { Line::Unknown });
    };
    let mut words = before.split_whitespace().rev();
    let source = words.next().ok_or("a sender")?;
    let mut rest: Vec<_> = words.collect();
    rest.retain(|word| !matches!(*word, "IP" | "IP6"));
    let time = rest.first().ok_or("a time before the packet")?;
    let at_ns = clock.read(time).ok_or("a time, as 23:12:40.911096 or 0.150001")?;
    let mut socket = |text| names.socket(text).ok_or("host.port > host.port");
    let ends = [socket(source)?, socket(destination)?];
    Ok(Line::Packet(at_ns, ends, packet(body)?))
}

/// Whether tcpdump prints such a line with the packets, or its caller left it empty.
fn is_beside(line: &str) -> bool {
    let is_count =
        |what| line.split_once(what).is_some_and(|(count, _)| count.parse::<u64>().is_ok());
    // A word of its own is the command itself, behind a prompt.
    line.is_empty()
        || line.split_whitespace().any(|word| word == "tcpdump")
        || ["tcpdump: ", "listening on ", "reading from ", "dropped privs to "]
            .iter()
            .any(|start| line.starts_with(start))
        || is_count(" packets captured")
        || is_count(" packet captured")
        || is_count(" packets received by filter")
        || is_count(" packet received by filter")
}

fn packet(body: &str) -> Result<Packet, &'static str> {
    let words: Vec<&str> = body.split_whitespace().map(|word| word.trim_end_matches(',')).collect();
    match words.as_slice() {
        ["udp", length, ..] | ["UDP", "length", length, ..] => {
            length.parse().map(Packet::Datagram).map_err(|_| "bytes of a datagram")
        }
        ["Flags", flags, rest @ ..] => segment(flags.trim_matches(['[', ']']), rest),
        [flags, rest @ ..] => segment(flags, rest),
        [] => Err("a packet's contents"),
    }
    .map(|packet| match (packet, body.split_once(" options [")) {
        (Packet::Segment(segment), Some((_, options))) => {
            Packet::Segment(Segment { window_shift: window_shift(options), ..segment })
        }
        (packet, _) => packet,
    })
}

fn segment(flags: &str, words: &[&str]) -> Result<Packet, &'static str> {
    let mut segment = Segment { flags: parse_flags(flags)?, ..Segment::default() };
    let mut printed_len = None;
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        let mut value = || words.next().and_then(|text| text.trim_end_matches(':').parse().ok());
        match word {
            "ack" => {
                segment.ack = Some(value().ok_or("an acknowledgment number")?);
                segment.flags |= tcp_flags::ACK;
            }
            "win" => segment.window = value().ok_or("a window")?,
            "length" => printed_len = Some(value().ok_or("a length")?),
            "seq" => segment.sequence = Some(range(words.next().ok_or("a sequence number")?)?),
            _ if word.starts_with('<') => break,
            _ if word.ends_with(')') && word.contains(':') => segment.sequence = Some(range(word)?),
            _ => {}
        }
    }
    if let (Some(len), Some(sequence)) = (printed_len, &mut segment.sequence) {
        sequence.1 = len;
    }
    Ok(Packet::Segment(segment))
}

/// `S`, `F`, `P`, `R`, `U`, `E`, `W`; `.` stands for no flag, and in today's form for an acknowledgment.
fn parse_flags(text: &str) -> Result<u8, &'static str> {
    text.chars().try_fold(0, |flags, letter| {
        Ok(flags
            | match letter {
                'S' => tcp_flags::SYN,
                'F' => tcp_flags::FIN,
                'P' => tcp_flags::PSH,
                'R' => tcp_flags::RST,
                'U' => tcp_flags::URG,
                'E' => tcp_flags::ECE,
                'W' => tcp_flags::CWR,
                '.' => 0,
                _ => return Err("TCP flags, as S, P or [P.]"),
            })
    })
}

/// `1461:2921(1460)`, `1461:2921` or `1461`.
fn range(text: &str) -> Result<(u32, u32), &'static str> {
    let expected = "a range of sequence numbers, as 1:1461(1460)";
    let (numbers, len) = match text.split_once('(') {
        Some((numbers, len)) => (numbers, Some(len.trim_end_matches(')'))),
        None => (text, None),
    };
    let number = |text: &str| text.parse::<u32>().map_err(|_| expected);
    let (start, end) = match numbers.split_once(':') {
        Some((start, end)) => (number(start)?, number(end)?),
        None => (number(numbers)?, number(numbers)?),
    };
    let len = len.map_or(Ok(end.wrapping_sub(start)), number)?;
    if len != end.wrapping_sub(start) {
        return Err("a range as long as its length says");
    }
    Ok((start, len))
}

fn window_shift(options: &str) -> Option<u8> {
    let (_, text) = options.split_once("wscale ")?;
    let digits = text.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok().filter(|&shift| shift <= 14)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Line, &'static str> {
        parse(line, &mut Clock::default(), &mut Names::default())
    }

    fn segment_of(line: &str) -> Segment {
        match read(line) {
            Ok(Line::Packet(_, _, Packet::Segment(segment))) => segment,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn both_forms_say_the_same() {
        let old = segment_of("23:12:40.9 zen.1164 > patti.2000: P 2921:4097(1176) ack 1 win 4096");
        let new = segment_of(
            "23:12:40.9 IP 10.0.0.1.1164 > 10.0.0.2.2000: Flags [P.], seq 2921:4097, ack 1, win 4096, length 1176",
        );
        assert_eq!(old, new);
        assert_eq!((old.sequence, old.ack, old.window), (Some((2921, 1176)), Some(1), 4096));
        assert_eq!(old.flags, tcp_flags::PSH | tcp_flags::ACK);
    }

    #[test]
    fn a_pure_acknowledgment_has_no_sequence_number() {
        let segment = segment_of("0.15 camus.1043 > sartre.1055: . ack 1 win 4096");
        assert_eq!((segment.sequence, segment.ack), (None, Some(1)));
        let today = "0.1 IP6 ::1.9 > ::1.10: Flags [.], ack 7, win 512, options [nop,nop,TS val 1 ecr 2], length 0";
        assert_eq!(segment_of(today).window, 512);
    }

    #[test]
    fn a_syn_asks_for_a_window_shift() {
        let text = "0.1 IP 10.0.0.1.9 > 10.0.0.2.10: Flags [S], seq 77, win 64240, options [mss 1460,sackOK,nop,wscale 7], length 0";
        let segment = segment_of(text);
        assert_eq!((segment.window_shift, segment.sequence), (Some(7), Some((77, 0))));
    }

    #[test]
    fn datagrams_of_both_forms() {
        for text in
            ["0.1 a.1 > b.sunrpc: udp 56", "0.1 IP 10.0.0.1.1 > 10.0.0.2.111: UDP, length 56"]
        {
            let Ok(Line::Packet(_, _, packet)) = read(text) else { panic!("{text}") };
            assert_eq!(packet, Packet::Datagram(56));
        }
    }

    #[test]
    fn what_is_no_packet_says_so() {
        assert_eq!(read("..."), Ok(Line::LeftOut));
        assert_eq!(read("7 packets dropped by kernel"), Ok(Line::Dropped(7)));
        for text in ["", "1637 packets received by filter", "root# tcpdump ip host zen and patti"] {
            assert_eq!(read(text), Ok(Line::Other), "{text}");
        }
        for text in ["another text", "many packets captured", "a > b", "key: value"] {
            assert_eq!(read(text), Ok(Line::Unknown), "{text}");
        }
    }

    #[test]
    fn a_misprint_is_an_error_and_not_a_packet() {
        assert!(read("0.1 a.1 > b.2: F 4853:4843(0) ack 1 win 1").is_err());
        assert!(read("0.1 a.1 > b.2: X 1:2(1)").is_err());
        assert!(read("noon a.1 > b.2: . ack 1").is_err());
        assert!(read("0.1 a > b: . ack 1").is_err());
    }
}
