//! Files made here, and the records of their packets.

use etherparse::{
    IpFragOffset, IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, TcpHeader, TcpOptionElement,
    UdpHeader,
};
use proptest::prelude::*;
use sockscope_record::{Record, RetransmitClass};

use super::headers::link;
use super::*;

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [10, 0, 0, 2];

/// A segment as a line of a trace, between port 1000 of the client and port 80 of the server.
#[derive(Clone, Default)]
struct Line {
    at_us: u64,
    from_server: bool,
    /// As `S`, `.`, `P.`: tcpdump's letters.
    flags: &'static str,
    seq: u32,
    len: usize,
    ack: u32,
    window: u16,
    identification: u16,
    options: Vec<TcpOptionElement>,
}

fn client(at_us: u64, flags: &'static str, seq: u32, len: usize, ack: u32) -> Line {
    Line { at_us, flags, seq, len, ack, window: 1000, ..Line::default() }
}

fn server(at_us: u64, flags: &'static str, seq: u32, len: usize, ack: u32) -> Line {
    Line { from_server: true, ..client(at_us, flags, seq, len, ack) }
}

impl Line {
    fn with(mut self, option: TcpOptionElement) -> Self {
        self.options.push(option);
        self
    }

    fn numbered(self, identification: u16) -> Self {
        Self { identification, ..self }
    }

    fn tcp(&self) -> TcpHeader {
        let (source, destination) = if self.from_server { (80, 1000) } else { (1000, 80) };
        let mut tcp = TcpHeader::new(source, destination, self.seq, self.window);
        (tcp.syn, tcp.fin) = (self.flags.contains('S'), self.flags.contains('F'));
        (tcp.rst, tcp.psh) = (self.flags.contains('R'), self.flags.contains('P'));
        tcp.ack = self.flags.contains('.');
        tcp.acknowledgment_number = if tcp.ack { self.ack } else { 0 };
        tcp.set_options(&self.options).unwrap();
        tcp
    }

    /// The packet from its IPv4 header on, with zeros for data.
    fn ipv4(&self) -> Vec<u8> {
        let tcp = self.tcp();
        let len = tcp.header_len() + self.len;
        let [from, to] = if self.from_server { [SERVER, CLIENT] } else { [CLIENT, SERVER] };
        let mut ip = Ipv4Header::new(len as u16, 64, IpNumber::TCP, from, to).unwrap();
        ip.identification = self.identification;
        let mut packet = ip.to_bytes().to_vec();
        packet.extend(tcp.to_bytes());
        packet.resize(packet.len() + self.len, 0);
        packet
    }
}

/// A frame of Ethernet.
fn ethernet(ether_type: u16, packet: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &ether_type.to_be_bytes(), packet].concat()
}

/// A pcap file: link type, nanoseconds of a unit of its clock, and packets with their times in microseconds.
fn pcap(link_type: i32, packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    pcap_with((0xa1b2_c3d4, 1), link_type, 65535, packets)
}

/// As [`pcap`], by magic number and units of a microsecond, with `snaplen` octets of each packet.
fn pcap_with(
    (magic, units): (u32, u64),
    link_type: i32,
    snaplen: usize,
    packets: &[(u64, Vec<u8>)],
) -> Vec<u8> {
    let header = [magic, 0x0004_0002, 0, 0, snaplen as u32, link_type as u32];
    let mut file: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    for (at_us, packet) in packets {
        let cut = &packet[..packet.len().min(snaplen)];
        let (seconds, rest) = (at_us / 1_000_000, at_us % 1_000_000 * units);
        let words = [seconds as u32, rest as u32, cut.len() as u32, packet.len() as u32];
        file.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        file.extend(cut);
    }
    file
}

fn of_lines(lines: &[Line]) -> Vec<u8> {
    let packets: Vec<_> = lines.iter().map(|line| (line.at_us, line.ipv4())).collect();
    pcap(101, &packets)
}

/// A block of pcapng in little-endian order.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let len = (body.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes()[..], &len, &body, &len].concat()
}

fn section() -> Vec<u8> {
    let words = [0x1a2b_3c4d_u32, 1, u32::MAX, u32::MAX];
    block(0x0a0d_0d0a, &words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>())
}

/// An option of a block.
fn option(code: u16, value: &[u8]) -> Vec<u8> {
    let mut value = value.to_vec();
    let len = value.len() as u16;
    value.resize(value.len().next_multiple_of(4), 0);
    [&code.to_le_bytes()[..], &len.to_le_bytes(), &value].concat()
}

fn interface(link_type: u16, name: &str, resolution: u8) -> Vec<u8> {
    let fixed = [&link_type.to_le_bytes()[..], &[0; 2], &0_u32.to_le_bytes()].concat();
    let options = [option(2, name.as_bytes()), option(9, &[resolution]), option(0, &[])].concat();
    block(1, &[fixed, options].concat())
}

/// A packet with the low bits of its flags: 1 received, 2 sent.
fn enhanced(interface: u32, ticks: u64, flags: u32, packet: &[u8]) -> Vec<u8> {
    let len = packet.len() as u32;
    let words = [interface, (ticks >> 32) as u32, ticks as u32, len, len];
    let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    body.extend(packet);
    body.resize(body.len().next_multiple_of(4), 0);
    body.extend([option(2, &flags.to_le_bytes()), option(0, &[])].concat());
    block(6, &body)
}

/// All parts of a file as one.
fn all(file: &[u8], told: &Told) -> (Part, Summary) {
    let mut all = Part::default();
    let summary = read::<Unreadable>(file, told, |part| {
        all.connections.extend(part.connections.iter().cloned());
        all.records.extend(&part.records);
        Ok(())
    });
    (all, summary.unwrap())
}

fn host(address: [u8; 4]) -> Told {
    Told { host: vec![IpAddr::from(address)] }
}

/// Records as lines: flow, point, range, acknowledgment and window; of others their kind.
fn shown(records: &[Record]) -> Vec<String> {
    let line = |record: &Record| {
        let Record { flow, kind, offset, .. } = record;
        let Some(point) = record.point() else {
            let class = record.retransmission().map(|again| again.class.name());
            return format!(
                "{flow} {} {offset}..{} {}",
                kind.name(),
                record.end(),
                class.unwrap_or("")
            );
        };
        let header = record.segment_header().unwrap_or_default();
        let ack = header.acknowledged.map_or(String::new(), |ack| format!(" ack {ack}"));
        let again = if record.is_marked(marks::RETRANSMITTED) { " again" } else { "" };
        let window = header.window_bytes;
        format!("{flow} p{} {offset}..{}{ack} win {window}{again}", point.number(), record.end())
    };
    let text = records.iter().map(line).map(|line| line.trim_end().to_owned());
    text.filter(|line| !line.contains("SynOptions")).collect()
}

fn opening() -> Vec<Line> {
    let scale = |shift| TcpOptionElement::WindowScale(shift);
    vec![
        client(0, "S", 99, 0, 0).with(TcpOptionElement::MaximumSegmentSize(1460)).with(scale(3)),
        server(100, "S.", 499, 0, 100).with(scale(0)),
        client(200, ".", 100, 0, 500),
    ]
}

#[test]
fn a_hosts_own_packets_pass_point_4_and_those_for_it_point_5() {
    let lines = [opening(), vec![client(300, "P.", 100, 10, 500), server(400, "P.", 500, 20, 110)]]
        .concat();
    let (part, summary) = all(&of_lines(&lines), &host(CLIENT));
    assert_eq!(
        shown(&part.records),
        [
            "2 p4 0..0 win 1000",
            "3 p5 0..0 ack 0 win 1000",
            "2 p4 0..0 ack 0 win 8000",
            "2 p4 0..10 ack 0 win 8000",
            "3 p5 0..20 ack 10 win 1000",
        ]
    );
    assert_eq!((summary.sent_received_seen, summary.span_ns), ([3, 2, 0], Some((0, 400_000))));
    let announced = part.records.iter().filter_map(Record::announced_segment_bytes);
    assert_eq!(announced.collect::<Vec<_>>(), [1460, 0]);
    let connection = &part.connections[0];
    assert_eq!(connection.client.to_string(), "10.0.0.1:1000");
    assert!(!connection.preexisting);
    let (of_server, _) = all(&of_lines(&lines), &host(SERVER));
    assert_eq!(shown(&of_server.records)[3], "2 p5 0..10 ack 0 win 8000");
    let (third, summary) = all(&of_lines(&lines), &Told::default());
    assert_eq!(summary.sent_received_seen, [0, 0, 5]);
    assert!(
        third
            .records
            .iter()
            .filter(|it| it.point().is_some())
            .all(|it| { it.kind == Kind::InterfaceDequeue && it.is_marked(marks::DERIVED) })
    );
}

#[test]
fn every_link_type_shows_the_same_packets() {
    let line = client(7, "P.", 100, 10, 500);
    let ip = line.ipv4();
    let cooked =
        |kind: u8| [&[0, kind][..], &[0, 1, 0, 6], &[1; 6], &[0; 2], &[8, 0], &ip].concat();
    let cooked_2 = |kind: u8| [&[8, 0, 0, 0, 0, 0, 0, 2, 0, 1, kind, 6][..], &[1; 8], &ip].concat();
    let tagged = ethernet(0x8100, &[&[0, 5, 8, 0][..], &ip].concat());
    let twice = ethernet(0x88a8, &[&[0, 5, 0x81, 0, 0, 6, 8, 0][..], &ip].concat());
    let cases = [
        (link::ETHERNET, ethernet(0x0800, &ip), 4),
        (link::ETHERNET, tagged, 4),
        (link::ETHERNET, twice, 4),
        (link::LINUX_SLL, cooked(4), 4),
        (link::LINUX_SLL, cooked(0), 5),
        (link::LINUX_SLL2, cooked_2(4), 4),
        (link::LINUX_SLL2, cooked_2(1), 5),
        (link::NULL, [&[2, 0, 0, 0][..], &ip].concat(), 4),
        (link::LOOP, [&[0, 0, 0, 2][..], &ip].concat(), 4),
        (101, ip.clone(), 4),
        (12, ip.clone(), 4),
        (link::IPV4, ip.clone(), 4),
    ];
    for (link_type, frame, point) in cases {
        let (part, summary) = all(&pcap(link_type, &[(7, frame)]), &Told::default());
        assert_eq!(summary.not_read, [], "link type {link_type}");
        let expected = format!("2 p{point} 0..10 ack 0 win 1000");
        assert_eq!(shown(&part.records), [expected], "link type {link_type}");
        assert!(part.connections[0].preexisting);
    }
}

#[test]
fn ipv6_and_udp_are_read_too() {
    let udp = UdpHeader::without_ipv4_checksum(1000, 53, 30).unwrap();
    let ip = Ipv6Header {
        flow_label: Ipv6FlowLabel::ZERO,
        payload_length: 38,
        next_header: IpNumber::UDP,
        hop_limit: 64,
        source: [1; 16],
        destination: [2; 16],
        ..Ipv6Header::default()
    };
    let packet = [&ip.to_bytes()[..], &udp.to_bytes(), &[0; 30]].concat();
    let file =
        pcap(link::ETHERNET, &[(1, ethernet(0x86dd, &packet)), (2, ethernet(0x86dd, &packet))]);
    let (part, _) = all(&file, &Told::default());
    assert_eq!(part.connections[0].protocol, Protocol::Udp);
    let numbers = part.records.iter().map(|it| (it.offset, it.len, it.datagram_number()));
    assert_eq!(numbers.collect::<Vec<_>>(), [(0, 30, Some(0)), (30, 30, Some(1))]);
}

#[test]
fn lengths_are_those_of_the_headers_where_packets_are_cut() {
    let line = client(1, "P.", 100, 900, 500);
    for (snaplen, read) in [(40, 1), (39, 0), (20, 0), (10, 0)] {
        let packets = [(1, line.ipv4())];
        let file = pcap_with((0xa1b2_c3d4, 1), 101, snaplen, &packets);
        let (part, summary) = all(&file, &Told::default());
        assert_eq!(part.records.len(), read, "{snaplen} octets");
        assert!(part.records.iter().all(|record| record.len == 900));
        let cut = (read == 0).then_some((NotRead::Cut, 1, 1));
        assert_eq!(summary.not_read, cut.into_iter().collect::<Vec<_>>(), "{snaplen} octets");
    }
}

#[test]
fn a_packet_that_a_device_was_to_cut_has_the_length_of_the_file() {
    let mut packet = client(1, "P.", 100, 900, 500).ipv4();
    packet[2..4].fill(0);
    let (part, _) = all(&pcap(101, &[(1, packet)]), &Told::default());
    assert_eq!(part.records[0].len, 900);
}

#[test]
fn padding_of_a_short_frame_is_no_data() {
    let frame = [ethernet(0x0800, &client(1, ".", 100, 0, 500).ipv4()), vec![0; 6]].concat();
    let (part, _) = all(&pcap(link::ETHERNET, &[(1, frame)]), &Told::default());
    assert_eq!(part.records[0].len, 0);
}

#[test]
fn a_datagram_in_fragments_is_counted_by_its_first_one() {
    let udp = UdpHeader::without_ipv4_checksum(1000, 53, 2000).unwrap();
    let fragment = |offset: u16, has_more, octets: &[u8]| {
        let mut ip =
            Ipv4Header::new(octets.len() as u16, 64, IpNumber::UDP, CLIENT, SERVER).unwrap();
        ip.fragment_offset = IpFragOffset::try_new(offset).unwrap();
        (ip.more_fragments, ip.dont_fragment) = (has_more, false);
        [&ip.to_bytes()[..], octets].concat()
    };
    let first = fragment(0, true, &[&udp.to_bytes()[..], &[0; 1472]].concat());
    let (part, summary) =
        all(&pcap(101, &[(1, first), (2, fragment(185, false, &[0; 528]))]), &Told::default());
    assert_eq!(part.records.iter().map(|it| it.len).collect::<Vec<_>>(), [2000]);
    assert_eq!(summary.not_read, [(NotRead::LaterFragment, 1, 2)]);
}

#[test]
fn both_orders_of_octets_and_both_units_of_time_are_read() {
    let packets = [(1_500_000, client(0, ".", 100, 0, 500).ipv4())];
    for (magic, units) in [(0xa1b2_c3d4, 1), (0xa1b2_3c4d, 1000)] {
        let (part, _) = all(&pcap_with((magic, units), 101, 65535, &packets), &Told::default());
        assert_eq!(part.records[0].at_ns, 1_500_000_000, "{magic:x}");
    }
    // The same header and packet by a machine of the other order.
    let mut file = pcap(101, &packets);
    let header: Vec<u8> = file.drain(..40).collect();
    let mut swapped: Vec<u8> =
        header.chunks(4).flat_map(|word| word.iter().rev().copied().collect::<Vec<_>>()).collect();
    swapped[4..8].copy_from_slice(&[0, 2, 0, 4]);
    let (part, _) = all(&[swapped, file].concat(), &Told::default());
    assert_eq!(part.records[0].at_ns, 1_500_000_000);
}

#[test]
fn pcapng_has_a_vantage_for_each_interface_and_counts_what_it_missed() {
    let data = client(0, "P.", 100, 10, 500).numbered(7).ipv4();
    let lost = [option(5, &3_u64.to_le_bytes()), option(0, &[])].concat();
    let statistics = [&0_u32.to_le_bytes()[..], &[0; 8], &lost].concat();
    let file = [
        section(),
        interface(101, "eth0", 9),
        interface(1, "eth1", 6),
        enhanced(0, 5_000_000_001, 2, &data),
        enhanced(1, 6_000_000, 1, &ethernet(0x0800, &data)),
        block(5, &statistics),
    ]
    .concat();
    let (part, summary) = all(&file, &Told::default());
    let seen: Vec<_> = part.records.iter().filter(|it| it.loss().is_none()).collect();
    assert_eq!(seen.iter().map(|it| it.at_ns).collect::<Vec<_>>(), [5_000_000_001, 6_000_000_000]);
    let kinds = seen.iter().map(|it| it.kind).collect::<Vec<_>>();
    assert_eq!(kinds, [Kind::InterfaceDequeue, Kind::InputEnqueue]);
    let names: Vec<_> =
        summary.interfaces.iter().map(|it| (it.name.as_deref(), it.packets, it.missed)).collect();
    assert_eq!(names, [(Some("eth0"), 1, 3), (Some("eth1"), 1, 0)]);
    assert_eq!(part.records.iter().filter_map(Record::loss).map(|loss| loss.count).sum::<u64>(), 3);
}

#[test]
fn a_packet_that_passes_a_bridge_and_its_port_is_one() {
    let data = client(0, "P.", 100, 10, 500).numbered(7).ipv4();
    let file = |gap: u64| {
        let parts = [enhanced(0, 1_000, 2, &data), enhanced(1, 1_000 + gap, 2, &data)].concat();
        [section(), interface(101, "veth0", 6), interface(101, "br0", 6), parts].concat()
    };
    let (part, summary) = all(&file(20), &Told::default());
    assert_eq!(shown(&part.records), ["2 p4 0..10 ack 0 win 1000"]);
    assert_eq!(summary.not_read, [(NotRead::SeenBefore, 1, 2)]);
    let (part, _) = all(&file(300_000), &Told::default());
    assert_eq!(shown(&part.records)[1], "2 p4 0..10 ack 0 win 1000 again");
}

#[test]
fn retransmissions_have_the_class_that_the_packets_show() {
    let selected = |first, end| TcpOptionElement::SelectiveAcknowledgement((first, end), [None; 3]);
    let classes = |more: Vec<Line>| {
        let (part, _) = all(&of_lines(&[opening(), more].concat()), &host(CLIENT));
        let found = part
            .records
            .iter()
            .filter_map(|it| Some((it.offset, it.len, it.retransmission()?.class)));
        found.collect::<Vec<_>>()
    };
    let data = |at_us, seq| client(at_us, ".", seq, 10, 500);
    let fast = vec![
        data(300, 100),
        data(310, 110),
        server(400, ".", 500, 0, 100).with(selected(110, 120)),
        data(500, 100),
    ];
    assert_eq!(classes(fast), [(0, 10, RetransmitClass::Fast)]);
    let duplicates = vec![
        data(300, 100),
        data(310, 110),
        server(400, ".", 500, 0, 100),
        server(401, ".", 500, 0, 100),
        server(402, ".", 500, 0, 100),
        server(403, ".", 500, 0, 100),
        data(500, 100),
    ];
    assert_eq!(classes(duplicates), [(0, 10, RetransmitClass::Fast)]);
    let timer = vec![data(300, 100), data(250_300, 100)];
    assert_eq!(classes(timer), [(0, 10, RetransmitClass::Timeout)]);
    let probe = vec![data(300, 100), data(10_300, 100)];
    assert_eq!(classes(probe), [(0, 10, RetransmitClass::Unknown)]);
    let twice = vec![
        data(300, 100),
        data(250_300, 100),
        server(250_400, ".", 500, 0, 110).with(selected(100, 110)),
    ];
    assert_eq!(
        classes(twice),
        [(0, 10, RetransmitClass::Timeout), (10, 0, RetransmitClass::Spurious)]
    );
    let (part, _) = all(
        &of_lines(&[client(0, "S", 99, 0, 0), client(1_000_000, "S", 99, 0, 0)]),
        &host(CLIENT),
    );
    assert_eq!(shown(&part.records)[2], "2 Retransmit 0..0 handshake");
}

#[test]
fn an_overtaken_segment_is_no_retransmission_and_one_lost_before_the_capture_is() {
    let late = |identification| {
        let lines = [
            client(300, ".", 100, 10, 500).numbered(7),
            client(310, ".", 120, 10, 500).numbered(9),
            client(320, ".", 110, 10, 500).numbered(identification),
        ];
        let (part, _) = all(&of_lines(&lines), &host(SERVER));
        shown(&part.records)[2..].to_vec()
    };
    assert_eq!(late(8), ["2 p5 10..20 ack 0 win 1000"]);
    assert_eq!(late(10), ["2 p5 10..20 ack 0 win 1000 again", "2 Retransmit 10..20 unknown"]);
    // A sender that numbers no packets leaves it open.
    assert_eq!(late(0), ["2 p5 10..20 ack 0 win 1000"]);
}

#[test]
fn a_keep_alive_is_no_retransmission() {
    let lines = [
        client(300, "P.", 100, 10, 500),
        server(400, ".", 500, 0, 110),
        client(9_000_000, ".", 109, 1, 500),
    ];
    let (part, _) = all(&of_lines(&lines), &host(CLIENT));
    assert_eq!(shown(&part.records)[2], "2 p4 9..9 ack 0 win 1000");
}

#[test]
fn the_same_ports_again_are_another_connection() {
    let end = vec![
        client(300, "F.", 100, 0, 500),
        server(310, "F.", 500, 0, 101),
        client(320, ".", 101, 0, 501),
    ];
    let again = [client(1000, "S", 7000, 0, 0), client(1100, ".", 7001, 5, 1)];
    let (part, _) = all(&of_lines(&[opening(), end, again.to_vec()].concat()), &host(CLIENT));
    assert_eq!(part.connections.len(), 2);
    assert_eq!(shown(&part.records).last().unwrap(), "4 p4 0..5 ack 0 win 1000");
}

#[test]
fn other_packets_are_counted_with_the_first_ones_number() {
    let arp = ethernet(0x0806, &[0; 28]);
    let damaged = ethernet(0x0800, &[0xff; 40]);
    let good = ethernet(0x0800, &client(3, ".", 100, 0, 500).ipv4());
    let file = pcap(link::ETHERNET, &[(1, good), (2, arp.clone()), (3, damaged), (4, arp)]);
    let (_, summary) = all(&file, &Told::default());
    assert_eq!(summary.packets, 4);
    assert_eq!(summary.not_read, [(NotRead::OtherProtocol, 2, 2), (NotRead::Damaged, 1, 3)]);
    let (_, summary) = all(&pcap(147, &[(1, vec![0; 60])]), &Told::default());
    assert_eq!(summary.not_read, [(NotRead::OtherLink, 1, 1)]);
}

#[test]
fn a_file_that_ends_in_a_packet_names_the_place() {
    let file = of_lines(&[client(1, ".", 100, 0, 500), client(2, ".", 100, 10, 500)]);
    let (part, summary) = all(&file[..file.len() - 5], &Told::default());
    assert_eq!(part.records.len(), 1);
    let damage = summary.damage.unwrap().to_string();
    assert_eq!(damage, "octet 80, after 1 packets: expected the rest of a packet or block");
}

#[test]
fn a_block_that_is_shorter_than_any_is_damage() {
    // A process information block, whose length the parser does not check.
    let short = [0x8000_0001_u32, 8].map(u32::to_le_bytes).concat();
    let data = client(0, "P.", 100, 10, 500).ipv4();
    let file = [section(), interface(101, "eth0", 9), enhanced(0, 5, 2, &data), short, vec![0; 40]];
    let (part, summary) = all(&file.concat(), &Told::default());
    assert_eq!(part.records.len(), 1);
    let damage = summary.damage.unwrap().to_string();
    assert!(damage.ends_with("after 1 packets: expected a packet or block"), "{damage}");
}

#[test]
fn what_is_no_capture_is_refused() {
    for bytes in [&b""[..], b"\xd4\xc3", b"0.1 a.1 > b.2: S 1:1(0) win 8\n and more of this text"] {
        let read = read::<Unreadable>(bytes, &Told::default(), |_| Ok(()));
        assert_eq!(read, Err(Unreadable::NoCapture));
    }
}

#[test]
fn a_failure_of_the_caller_ends_the_reading() {
    #[derive(Debug, PartialEq)]
    struct Full;
    impl From<Unreadable> for Full {
        fn from(_: Unreadable) -> Self {
            unreachable!("the file is good")
        }
    }
    let file = of_lines(&vec![client(1, ".", 100, 0, 500); BATCH + 1]);
    let mut parts = 0;
    let read = read(&file[..], &Told::default(), |_| {
        parts += 1;
        Err(Full)
    });
    assert_eq!((read, parts), (Err(Full), 1));
}

/// Three packets in either format.
fn sample(is_pcapng: bool) -> Vec<u8> {
    let lines = opening();
    if !is_pcapng {
        return of_lines(&lines);
    }
    let packets = lines.iter().flat_map(|line| enhanced(0, line.at_us, 1, &line.ipv4()));
    [section(), interface(101, "eth0", 6), packets.collect()].concat()
}

proptest! {
    // Each case has a reader's room of a megabyte.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_damage_makes_it_panic_or_grow(
        is_pcapng: bool,
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        end in any::<prop::sample::Index>(),
    ) {
        let mut file = sample(is_pcapng);
        for (at, octet) in damages {
            let at = at.index(file.len());
            file[at] = octet;
        }
        file.truncate(end.index(file.len()) + 1);
        let mut records = 0;
        let read = read(&file[..], &host(CLIENT), |part| {
            records += part.records.len();
            Ok::<(), Unreadable>(())
        });
        if let Ok(summary) = read {
            prop_assert!(summary.packets <= 3);
            prop_assert!(records as u64 <= 1 + 3 * summary.packets);
        }
    }

    #[test]
    fn bytes_of_a_stream_are_counted_once_in_any_order(order in Just((0..20_u32).collect::<Vec<_>>()).prop_shuffle()) {
        let lines: Vec<_> = order.iter().map(|at| client(u64::from(*at), ".", 100 + 10 * at, 10, 500)).collect();
        let (part, _) = all(&of_lines(&[opening(), lines].concat()), &host(CLIENT));
        let again = part.records.iter().filter(|it| it.is_marked(marks::RETRANSMITTED)).count();
        prop_assert_eq!(again, 0);
        prop_assert_eq!(part.records.iter().filter(|it| it.point().is_some()).map(|it| u64::from(it.len)).sum::<u64>(), 200);
    }
}
