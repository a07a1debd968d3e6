//! Figures of small traces, written out as text: their content, their numbers, and that any records
//! give whole SVG.

use std::ops::Range;

use insta::assert_snapshot;
use proptest::prelude::*;
use sockscope_analysis::{
    ConnectionStore, Finding, FindingId, FlowStore, LedgerPart, LossInterval, Passage, Uncertainty,
};
use sockscope_record::{
    Connection, ConnectionId, Conversion, DevicePlace, Direction, Hop, Kind, Point, Process,
    Protocol, Record, SegmentHeader, SendWindow, Side, UnixName, marks, tcp_flags,
};
use sockscope_render::theme::Words;

use super::{Figure, Picture, PlotError, PlotOptions, draw, draw_requests};
use crate::palette;

/// A connection from lines of `time_us from point offset+len [ack N] [flags]`, `from` being `c` or
/// `s`; `window` in place of a point is a send window, `call` a call to write, `returned` a read call that
/// returned, `drop` a drop, `converted` and `taken`, with `since TIME_US`, the work of a program's layer before a write and behind a read.
pub(super) fn trace(text: &str) -> ConnectionStore {
    let mut store = no_records();
    for line in text.split(" | ").filter(|line| !line.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at_ns = words[0].parse::<u64>().unwrap() * 1_000;
        let flow = &mut store.flows[usize::from(words[1] == "s")];
        let (offset, len) = words[3].split_once('+').unwrap();
        let (offset, len): (u64, u32) = (offset.parse().unwrap(), len.parse().unwrap());
        if words[2] == "window" {
            let noted = Record { at_ns, offset, ..Record::default() };
            let window = SendWindow { bytes: len.into(), segment_bytes: 0 };
            flow.events.push(noted.with_send_window(window));
            continue;
        }
        if words[2] == "drop" {
            flow.events.push(Record { at_ns, offset, len, kind: Kind::Drop, ..Record::default() });
            continue;
        }
        if ["converted", "taken"].contains(&words[2]) {
            let began_ns = words[5].parse::<u64>().unwrap() * 1_000;
            let conversion = Conversion { began_ns, is_incoming: words[2] == "taken" };
            let done = Record { at_ns, offset, len, ..Record::default() };
            flow.events.push(done.with_conversion(conversion));
            continue;
        }
        if ["returned", "call"].contains(&words[2]) {
            let kind = if words[2] == "call" { Kind::WriteCall } else { Kind::ReadReturn };
            flow.events.push(Record { at_ns, offset, len, kind, ..Record::default() });
            continue;
        }
        let after = |word| words.iter().position(|other| *other == word).map(|at| words[at + 1]);
        let acknowledged = after("ack").map(|ack| ack.parse().unwrap());
        let segment = Record {
            at_ns,
            offset,
            len,
            tcp_flags: [("SYN", tcp_flags::SYN), ("FIN", tcp_flags::FIN)]
                .into_iter()
                .filter(|(word, _)| words.contains(word))
                .fold(tcp_flags::ACK, |flags, (_, flag)| flags | flag),
            marks: if words.contains(&"again") { marks::RETRANSMITTED } else { 0 },
            ..Record::default()
        };
        let segment = segment.with_segment_header(SegmentHeader { acknowledged, window_bytes: 0 });
        for point in words[2].split(',') {
            put(flow, point.parse::<usize>().unwrap() - 1, segment);
        }
    }
    store
}

/// The bytes of `record` pass the point with this index.
fn put(flow: &mut FlowStore, point: usize, record: Record) {
    let kind = Kind::from(Point::ALL[point]);
    flow.passages[point].extend(Passage::of(&Record { kind, ..record }));
}

fn no_records() -> ConnectionStore {
    let id = ConnectionId(1);
    let flow = |direction| FlowStore {
        id: id.flow(direction),
        passages: Default::default(),
        events: Default::default(),
    };
    ConnectionStore {
        connection: Connection {
            id,
            protocol: Protocol::Tcp,
            client: ([10, 0, 0, 1], 4711).into(),
            server: ([10, 0, 0, 2], 80).into(),
            opened_ns: 0,
            closed_ns: None,
            preexisting: false,
            both_ends_here: true,
            processes: vec![Process::new(1, "<a&b>", Side::Client)],
            names: None,
            mark: None,
            elsewhere: None,
        },
        flows: [flow(Direction::FromClient), flow(Direction::FromServer)],
        window: None,
    }
}

/// A request in two writes, the second held until the acknowledgment of the first, and a response.
const STALLED: &str = "0 c 1 0+100 | 2 c 2,3,4 0+100 | 4 c 5,6,7 0+100 | 20 c 8 0+100 | \
    25 c 1 100+300 | 40000 s 3,4 0+0 ack 100 | 40002 s 5,6 0+0 ack 100 | \
    40004 c 2,3,4 100+300 | 40006 c 5,6,7 100+300 | 40020 c 8 100+300 | 40050 s 1 0+60 | \
    40051 s 2,3,4 0+60 ack 400 | 40053 s 5,6,7 0+60 ack 400 | 40060 s 8 0+60";

fn drawn(figure: Figure, store: &ConnectionStore) -> String {
    draw(figure, store, &PlotOptions::default()).unwrap()
}

/// The content of the first group of this name.
fn group<'a>(svg: &'a str, name: &str) -> &'a str {
    let (_, rest) = svg.split_once(&format!("<g id=\"{name}\">")).expect("a group of this name");
    rest.split_once("</g>").unwrap().0
}

/// Strokes of all paths of this class.
fn strokes(svg: &str, class: &str) -> usize {
    let start = format!("<path class=\"{class}\" d=\"");
    svg.split(&start).skip(1).map(|path| path.split('"').next().unwrap().matches('M').count()).sum()
}

/// The words in `svg`, one text a line.
fn texts(svg: &str) -> Vec<&str> {
    let ends = svg.split("</text>").filter(|part| part.contains("<text"));
    ends.map(|part| part.rsplit_once('>').unwrap().1).collect()
}

/// As [`texts`], of this size and centred only, each with its place.
fn centred(svg: &str, size: Words) -> Vec<(f64, f64, &str)> {
    let start = format!("<text class=\"{}\" text-anchor=\"middle\"", size.class());
    let words = svg.split(&start).skip(1).map(|text| text.split_once("</text>").unwrap().0);
    words
        .map(|text| {
            let (tag, words) = text.split_once('>').unwrap();
            let number = |name: &str| {
                let (_, rest) = tag.split_once(&format!(" {name}=\"")).unwrap();
                rest.split('"').next().unwrap().parse().unwrap()
            };
            (number("x"), number("y"), words)
        })
        .collect()
}

/// Checks that tags nest, attributes are quoted and nothing is outside the root.
fn assert_well_formed(svg: &str) {
    let mut open = Vec::new();
    let mut rest = svg;
    while let Some((text, after)) = rest.split_once('<') {
        assert!(!text.contains('>') || open.last() == Some(&"style"), "stray > in {text:?}");
        let (tag, after) = after.split_once('>').expect("a tag ends");
        assert!(tag.matches('"').count().is_multiple_of(2), "unclosed quote in {tag:?}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "tags nest");
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap());
        }
        rest = after;
    }
    assert!(open.is_empty(), "left open: {open:?}");
    assert!(rest.trim().is_empty(), "text after the document: {rest:?}");
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "a coordinate is no number");
}

#[test]
fn every_packet_of_a_short_trace_is_one_bar() {
    let store = trace(STALLED);
    let svg = drawn(Figure::PacketTrace, &store);
    for point in [Point::InterfaceEnqueue, Point::InterfaceDequeue, Point::ReceiveEnqueue] {
        let panel = group(&svg, point.name());
        assert_eq!(strokes(panel, "thin data"), store.flows[0].at(point).len(), "{point:?}");
    }
}

#[test]
fn a_packet_has_the_same_number_at_each_point_and_offloaded_ones_are_counted() {
    // 3,000 bytes leave TCP at once, the driver takes three packets, and the reader copies a packet in two parts.
    let store = trace(
        "0 c 3 0+3000 | 1 c 4 0+1000 | 2 c 4 1000+1000 | 3 c 4 2000+1000 | 4 c 8 0+12 | 4 c 8 12+988 | 9 c 8 1000+2000",
    );
    let svg = drawn(Figure::PacketTrace, &store);
    let panel = |point: Point| group(&svg, point.name());
    let of = |point| (strokes(panel(point), "thin data"), texts(panel(point))[1]);
    assert_eq!(of(Point::InterfaceEnqueue), (1, "1 with data, 2.93 KiB, up to 3 packets at once"));
    assert_eq!(of(Point::InterfaceDequeue), (3, "3 with data, 2.93 KiB"));
    assert_eq!(of(Point::ReceiveDequeue), (2, "3 with data, 2.93 KiB, up to 2 packets at once"));
    let note =
        "segmentation offload: up to 2.93 KiB pass point 3 as one packet, and are divided later";
    assert!(svg.contains(note), "{svg}");
    // One scale for all panels.
    for point in [Point::InterfaceEnqueue, Point::InterfaceDequeue, Point::ReceiveDequeue] {
        assert!(texts(panel(point)).contains(&"3"), "{point:?}");
        assert!(texts(panel(point)).contains(&"packet number"), "{point:?}");
    }
}

#[test]
fn a_segment_without_data_has_its_own_stroke_and_a_resent_one_a_cross() {
    let store = trace("0 c 3 0+0 | 5 c 3 0+100 | 9 c 3 0+100 again | 12 c 3 100+100");
    let panel = drawn(Figure::PacketTrace, &store);
    let panel = group(&panel, "InterfaceEnqueue");
    assert_eq!(strokes(panel, "thin data"), 3);
    assert_eq!(strokes(panel, "thin ack"), 1);
    assert_eq!(strokes(panel, "line alarm"), 2, "a cross has two strokes");
}

#[test]
fn four_queues_say_their_name_axis_and_most() {
    let svg = drawn(Figure::QueueLength, &trace(STALLED));
    assert_snapshot!(texts(group(&svg, "send_queue")).join(" | "),
        @"send socket queue, points 1 to 2 | most 300 B | 0 | 100 | 200 | 300 | length (B)");
    assert_snapshot!(texts(group(&svg, "receive_queue")).join(" | "),
        @"receive socket queue, points 7 to 8 | most 300 B | 0 | 5 | 10 | 15 | 20 | 25 | 30 | 35 | 40 | time (ms) | 0 | 100 | 200 | 300 | length (B)");
}

/// 1,000 bytes in one call, of which the buffer takes 400 at once and 600 when it has room.
const ONE_CALL: &str =
    "0 c call 0+1000 | 1 c 1 0+400 | 2 c 2 0+400 | 9 c 1 400+600 | 12 c 2 400+600";

#[test]
fn bytes_given_to_write_are_drawn_above_those_in_the_send_queue() {
    let svg = drawn(Figure::QueueLength, &trace(ONE_CALL));
    let panel = group(&svg, "send_queue");
    assert_eq!(strokes(panel, "dashed place-send_queue"), 1);
    assert!(texts(panel).contains(&"1,000") && texts(panel).contains(&"most 600 B"), "{panel}");
    assert!(texts(&svg).contains(&"with what write() still holds"));
    let without = drawn(Figure::QueueLength, &trace(STALLED));
    assert!(!without.contains("write() still holds"), "no call has more than the queue");
    // More steps than pixels: still a dashed line.
    let mut long = String::from("0 c call 0+100000");
    for step in 0..1_000 {
        long.push_str(&format!(" | {step} c 1 {0}+100 | {step} c 2 {0}+100", step * 100));
    }
    let svg = drawn(Figure::QueueLength, &trace(&long));
    assert_eq!(strokes(group(&svg, "send_queue"), "dashed place-send_queue"), 1);
}

#[test]
fn a_wait_of_a_call_lasts_until_its_last_byte_has_left() {
    let by_run = drawn(Figure::QueueDelay, &trace(ONE_CALL));
    assert!(
        texts(group(&by_run, "send_queue")).contains(&"2 runs; median 1.00 µs, longest 3.00 µs")
    );
    let options = PlotOptions { is_by_call: true, ..PlotOptions::default() };
    let by_call = draw(Figure::QueueDelay, &trace(ONE_CALL), &options).unwrap();
    let panel = group(&by_call, "send_queue");
    assert!(texts(panel).contains(&"1 call; median 12.0 µs, longest 12.0 µs"), "{panel}");
}

/// The titles of the panels from the top.
fn panel_titles(svg: &str) -> Vec<&str> {
    let class = format!("class=\"{}\"", Words::Panel.class());
    let texts = svg.split("<text ").skip(1).filter(|text| text.contains(&class));
    texts.filter_map(|text| text.split_once('>')?.1.split('<').next()).collect()
}

/// Bytes pass a device of a hop.
fn pass_hop(store: &mut ConnectionStore, at_us: u64, point: Point, index: u32, bytes: Range<u64>) {
    let device = DevicePlace { namespace: 9, index };
    let (offset, len) = (bytes.start, (bytes.end - bytes.start) as u32);
    let record = Record { at_ns: at_us * 1_000, offset, len, kind: Kind::Hop, ..Record::default() };
    store.flows[0].events.push(record.with_hop(Hop { point: Some(point), device }));
}

/// The figure of a flow whose hop is in a network namespace with a name.
fn drawn_in_shop(figure: Figure, store: &ConnectionStore) -> String {
    let names = [(9, "shop".to_owned())].into();
    let options = PlotOptions { network_namespaces: &names, ..PlotOptions::default() };
    draw(figure, store, &options).unwrap()
}

fn check_hops_are_in_the_place_of_the_wire(svg: &str) {
    let titles = panel_titles(svg);
    let place = |words: &str| titles.iter().position(|title| title.starts_with(words)).unwrap();
    let places = [
        place("interface queue, points 3 to 4"),
        place("transit from device 2 to device 3 of network namespace shop"),
        place("queue of device 3 of network namespace shop"),
        place("IP input queue, points 5 to 6"),
    ];
    assert!(places.is_sorted(), "{titles:?}");
}

#[test]
fn delays_at_hops_stand_in_the_place_of_the_wire() {
    let mut store = trace("0 c 1,2,3,4 0+100 | 90 c 5,6,7,8 0+100");
    pass_hop(&mut store, 10, Point::InputEnqueue, 2, 0..100);
    pass_hop(&mut store, 15, Point::InterfaceEnqueue, 3, 0..100);
    pass_hop(&mut store, 70, Point::InterfaceDequeue, 3, 0..100);
    let svg = drawn_in_shop(Figure::QueueDelay, &store);
    check_hops_are_in_the_place_of_the_wire(&svg);
    assert!(svg.contains("1 run; median 5.00 µs, longest 5.00 µs"), "{svg}");
    assert!(svg.contains("1 run; median 55.0 µs, longest 55.0 µs"), "{svg}");
    // With many hops those of the longest waits remain.
    for index in 10..20 {
        pass_hop(&mut store, 72, Point::InterfaceEnqueue, index, 0..100);
        let end_us = 72 + u64::from(index) - 9;
        pass_hop(&mut store, end_us, Point::InterfaceDequeue, index, 0..100);
    }
    let svg = drawn_in_shop(Figure::QueueDelay, &store);
    let hops = panel_titles(&svg).iter().filter(|title| title.contains("shop")).count();
    assert_eq!(hops, 4);
    assert!(svg.contains("8 places of hops with shorter waits left out"), "{svg}");
}

#[test]
fn a_wait_is_as_tall_as_it_was_long() {
    let svg = drawn(Figure::QueueDelay, &trace(STALLED));
    let panel = group(&svg, "send_queue");
    assert_eq!(strokes(panel, "thin place-send_queue"), 2);
    assert!(texts(panel).contains(&"2 runs; median 2.00 µs, longest 40.0 ms"), "{panel}");
}

#[test]
fn protocol_delays_have_count_median_and_p99() {
    let store =
        trace("0 c 2 0+10 | 3 c 3 0+10 | 5 c 2 10+10 | 9 c 3 10+10 | 10 c 2 20+10 | 17 c 3 20+10");
    let svg = drawn(Figure::ProtocolDelay, &store);
    let words = texts(group(&svg, "tcp_output")).join(" | ");
    for wanted in ["3 runs; bins of", "median 4.00 µs", "p99 7.00 µs", "delay (µs)", "runs"] {
        assert!(words.contains(wanted), "{wanted} is not in {words}");
    }
    assert!(texts(group(&svg, "tcp_input")).contains(&"no bytes seen at point 6"));
}

/// The one line of the figure that counts acknowledgments.
fn counts_of_acks(svg: &str) -> &str {
    let words = texts(group(svg, "acks"));
    let counts: Vec<_> = words.iter().filter(|text| text.contains(" on data, ")).collect();
    let [counts] = counts[..] else { panic!("not one line of counts in {words:?}") };
    counts
}

#[test]
fn the_acknowledgment_that_broke_the_stall_is_late_and_the_other_rides_on_data() {
    let svg = drawn(Figure::Acks, &trace(STALLED));
    assert_snapshot!(counts_of_acks(&svg), @"1 on data, 0 pure, 1 late, 0 repeat");
    let repeated = trace("0 c 7 0+10 | 1 s 4 0+0 ack 10 | 2 s 4 0+0 ack 10 | 3 s 4 0+0 ack 0 SYN");
    let svg = drawn(Figure::Acks, &repeated);
    assert_snapshot!(counts_of_acks(&svg), @"0 on data, 1 pure, 0 late, 1 repeat");
    let closed = trace("0 c 7 0+10 | 1 s 4 0+0 ack 10 | 2 s 4 0+0 ack 10 FIN");
    let svg = drawn(Figure::Acks, &closed);
    assert_snapshot!(counts_of_acks(&svg), @"0 on data, 1 pure, 0 late, 0 repeat");
    let answered = trace("0 c 7 0+10 | 1 s 4 0+0 ack 10 | 2 c 6 10+0 FIN | 3 s 4 0+0 ack 10");
    let svg = drawn(Figure::Acks, &answered);
    assert_snapshot!(counts_of_acks(&svg), @"0 on data, 1 pure, 0 late, 0 repeat");
}

#[test]
fn the_ladder_has_an_arrow_for_each_segment_and_cuts_the_stall() {
    let svg = drawn(Figure::TimeSequence, &trace(STALLED));
    let words = texts(group(&svg, "time-sequence"));
    for wanted in [
        "0:100 (100 B), ack 0",
        "ack 100",
        "100:400 (300 B), ack 0",
        "0:60 (60 B), ack 400",
        "40.0 ms",
        "write 300 B",
        "read 60 B",
    ] {
        assert!(words.contains(&wanted), "{wanted} is not in {words:?}");
    }
    assert_eq!(strokes(group(&svg, "time-sequence"), "fill data"), 3, "heads of data arrows");
    assert_eq!(strokes(group(&svg, "time-sequence"), "fill ack"), 1, "heads of pure ACKs");
}

/// Waits of 1, 1, 10, 30, 50, 1 and 200 ms.
const WAITS: &str = "0 c 4 0+10 | 1000 s 4 0+0 ack 10 | 2000 c 4 10+10 | 12000 c 4 20+10 | 42000 s 4 0+0 ack 30 | \
    92000 c 4 30+10 | 93000 s 4 0+0 ack 40 | 293000 c 4 40+10";

#[test]
fn the_longest_waits_are_cut_and_no_more_than_a_third_of_them() {
    let words = |text: &str| {
        let svg = drawn(Figure::TimeSequence, &trace(text));
        let cut = |words: &&str| words.ends_with(" ms") && !words.starts_with("time");
        let cuts = texts(group(&svg, "time-sequence")).into_iter().filter(cut).map(str::to_owned);
        (cuts.collect::<Vec<_>>().join(", "), svg.contains("the longest waits are cut"))
    };
    assert_eq!(words(WAITS), ("50.0 ms, 200 ms".to_owned(), true));
    let even: Vec<_> = (0..9).map(|n| format!("{} c 4 {}+10", n * 40_000, n * 10)).collect();
    assert_eq!(words(&even.join(" | ")), (String::new(), false), "no wait is longer");
    assert_eq!(words("0 c 4 0+10 | 40000 c 4 10+10"), ("40.0 ms".to_owned(), true));
}

/// Data that was sent and not acknowledged waits, where no record shows a program.
#[test]
fn a_long_capture_is_drawn_around_its_longest_wait() {
    let call = |n: u64| {
        let at = n * 500 + if n >= 40 { 200_000 } else { 0 };
        let acknowledged = if n == 39 { at + 200_000 } else { at + 100 };
        format!("{at} c 4 {}+10 | {acknowledged} s 5 0+0 ack {}", n * 10, n * 10 + 10)
    };
    let text: Vec<_> = (0..100).map(call).collect();
    let svg = drawn(Figure::TimeSequence, &trace(&text.join(" | ")));
    assert!(svg.contains("14 of 200 segments shown, around the longest wait"), "{svg}");
    assert!(svg.contains("390:400 (10 B)") && svg.contains("200 ms"), "{svg}");
}

#[test]
fn a_packet_trace_of_a_capture_has_one_panel_and_of_two_hosts_two() {
    let panels = |text: &str| {
        let svg = drawn(Figure::PacketTrace, &trace(text));
        assert!(!svg.contains("no packets seen"), "{svg}");
        let points = Point::ALL.into_iter();
        let here = points.filter(|point| svg.contains(&format!("<g id=\"{}\">", point.name())));
        here.map(Point::number).collect::<Vec<_>>()
    };
    assert_eq!(panels("0 c 4 0+100 | 9 s 5 0+0 ack 100"), [4]);
    assert_eq!(panels("0 c 5 0+100 | 9 s 4 0+0 ack 100"), [5]);
    assert_eq!(panels("0 c 4,5 0+100"), [4, 5]);
    let nothing = drawn(Figure::PacketTrace, &trace("0 s 4 0+100"));
    assert!(nothing.contains("no packets seen at point 4"), "{nothing}");
}

#[test]
fn the_segments_at_the_longest_wait_are_bold() {
    let stalled = "0 c 1 0+105 | 0 c 4 0+10 | 1 s 4 0+10 ack 10 | 2 c 4 10+5 | 9000 s 4 10+0 ack 15 | \
        9001 c 4 15+90 | 9002 s 4 10+0 ack 105";
    let svg = drawn(Figure::TimeSequence, &trace(stalled));
    let drawing = group(&svg, "time-sequence");
    assert_eq!((strokes(drawing, "bold data"), strokes(drawing, "bold ack")), (2, 1));
    assert!(drawing.contains("<text class=\"panel\" text-anchor=\"middle\""), "{drawing}");
    let bold: Vec<&str> =
        centred(drawing, Words::Panel).into_iter().map(|(_, _, words)| words).collect();
    for label in ["10:15 (5 B), ack 0", "ack 15", "15:105 (90 B), ack 0"] {
        assert!(bold.contains(&label), "{label} is not in {bold:?}");
    }
    assert!(svg.contains("bold: the segments at the longest wait"));
    // The wait is not in this part.
    let options = PlotOptions { from_ns: Some(9_000_000), ..PlotOptions::default() };
    let after = draw(Figure::TimeSequence, &trace(stalled), &options).unwrap();
    assert!(!after.contains("bold data") && !after.contains("bold ack"), "{after}");
}

#[test]
fn segments_without_data_that_no_record_shows_to_arrive_have_no_cross() {
    let crosses = |text: &str| {
        let svg = drawn(Figure::TimeSequence, &trace(text));
        let is_said = svg.contains("arrivals of segments without data were not recorded");
        (strokes(group(&svg, "time-sequence"), "line alarm"), is_said)
    };
    let data = "0 c 4 0+100 | 1 c 5 0+100 | 2 s 4 0+0 ack 100";
    assert_eq!(crosses(data), (0, true));
    let one_arrives = format!("{data} | 5 s 4 0+0 ack 200 | 6 s 5 0+0 ack 200");
    assert_eq!(crosses(&one_arrives), (2, false), "the other one did not");
}

#[test]
fn another_connection_of_the_two_hosts_is_drawn_among_the_segments() {
    let mut port_mapper = trace("1 c 4 0+56 | 3 s 4 0+28");
    port_mapper.connection.protocol = Protocol::Udp;
    port_mapper.connection.server.set_port(111);
    let options = PlotOptions { others: &[&port_mapper], ..PlotOptions::default() };
    let svg = draw(Figure::TimeSequence, &trace("9 c 4 0+0 SYN"), &options).unwrap();
    let words = texts(group(&svg, "time-sequence"));
    let place = |label| words.iter().position(|word| *word == label).expect(label);
    assert!(place("udp with port 111: 0:56 (56 B)") < place("udp with port 111: 0:28 (28 B)"));
    assert!(place("0.000") < place("0.008"), "time counts from the first of all: {words:?}");
}

#[test]
fn what_a_filter_drops_behind_point_6_is_drawn_as_lost() {
    let strokes = |text: &str| {
        let svg = drawn(Figure::TimeSequence, &trace(text));
        let drawing = group(&svg, "time-sequence").to_owned();
        (strokes(&drawing, "fill data"), strokes(&drawing, "line alarm"))
    };
    let dropped =
        "0 c 4 0+100 | 2 c 5,6 0+100 | 3 c drop 0+100 | 4 c 4 100+100 | 6 c 5,6,7 100+100";
    assert_eq!(strokes(dropped), (2, 2), "a cross of two strokes ends the first arrow");
    let again = format!("{dropped} | 9 c 4 0+100 again | 11 c 5,6,7 0+100 again");
    let crossed = strokes(&again).1;
    let came = strokes(&again.replace(" | 3 c drop 0+100", "")).1;
    assert_eq!(crossed, came + 2, "the repetition came");
    let without_sender = "2 c 5,6 0+100 | 3 c drop 0+100 | 6 c 5,6,7 100+100";
    assert_eq!(strokes(without_sender), (2, 2), "so it is where only its receiver's host was seen");
    let only = "2 c 5,6 0+100 | 3 c drop 0+100";
    assert_eq!(strokes(only), (1, 2), "nothing else came");
    let acknowledgment = "0 s 4 0+0 ack 100 | 1 s 5,6 0+0 ack 100 | 2 s drop 0+0";
    assert_eq!(
        strokes(acknowledgment).1,
        0,
        "a drop without a reason's name loses no bare segment"
    );
}

#[test]
fn a_dropped_acknowledgment_is_the_last_that_came_and_no_earlier_one() {
    let acknowledgments = "0 s 4 0+0 ack 100 | 1 s 5,6 0+0 ack 100 | 20 s 4 0+0 ack 200 | \
                           21 s 5,6 0+0 ack 200 | 22 s drop 0+0 | 40 s 4 0+0 ack 300 | 41 s 5,6 0+0 ack 300";
    let drop_reasons = &[(0, "NO_SOCKET".to_owned())].into();
    let options = PlotOptions { drop_reasons, ..PlotOptions::default() };
    let svg = draw(Figure::TimeSequence, &trace(acknowledgments), &options).unwrap();
    assert_eq!(strokes(group(&svg, "time-sequence"), "line alarm"), 2, "one cross");
}

#[test]
fn a_read_is_one_call_and_sizes_are_told_to_the_octet() {
    let copies = "0 c 1 0+4095 | 1 c 4 0+1460 | 2 c 5 0+1460 | 5 c 8 0+12 | 6 c 8 12+1448 | \
                  7 c 4 1460+100 | 8 c 5 1460+100 | 9 c 8 1460+100";
    let acts = |text: &str| {
        let svg = drawn(Figure::TimeSequence, &trace(text));
        let words = texts(group(&svg, "time-sequence")).into_iter();
        let acts = words.filter(|word| word.starts_with("read") || word.starts_with("write"));
        acts.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(acts(copies), "write 4,095 B, read 12 B, read 1,448 B, read 100 B");
    let calls = format!("{copies} | 6 c returned 0+1460 | 9 c returned 1460+100");
    assert_eq!(acts(&calls), "write 4,095 B, read 1,460 B, read 100 B");
}

#[test]
fn labels_of_arrows_that_cross_do_not_hide_each_other() {
    let store = trace(
        "0 c 4 0+100 | 1 s 4 0+60 ack 100 | 2 s 4 60+60 ack 100 | 9 c 5 0+100 | 10 s 5 0+60 | 11 s 5 60+60",
    );
    let svg = drawn(Figure::TimeSequence, &store);
    let number = |line: &str, name: &str| -> f64 {
        let value =
            line.split(&format!(" {name}=\"")).nth(1).and_then(|rest| rest.split('"').next());
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} in {line}"))
    };
    let labels: Vec<[f64; 4]> = svg
        .lines()
        .filter(|line| line.contains("class=\"halo\""))
        .map(|line| ["x", "y", "width", "height"].map(|name| number(line, name)))
        .collect();
    assert_eq!(labels.len(), 3);
    for (at, [x, y, width, height]) in labels.iter().enumerate() {
        for [other_x, other_y, other_width, _] in &labels[..at] {
            let is_beside = x + width <= *other_x || other_x + other_width <= *x;
            // The ground of a label is a little taller than its letters.
            assert!(is_beside || (y - other_y).abs() >= height - 2.0, "{labels:?}");
        }
    }
}

/// As in a capture of loopback.
#[test]
fn arrivals_whose_departures_have_no_record_have_a_line_each() {
    let svg = drawn(Figure::TimeSequence, &trace("0 c 5 0+100 | 1 s 5 0+60 | 2 c 5 100+100"));
    let number = |line: &str, name: &str| -> f64 {
        let value = line.split(&format!(" {name}=\"")).nth(1).and_then(|it| it.split('"').next());
        value.and_then(|value| value.parse().ok()).expect("a number")
    };
    let labels = svg.lines().filter(|line| line.contains("class=\"halo\""));
    let heights: Vec<f64> = labels.map(|line| number(line, "y")).collect();
    assert_eq!(heights.len(), 3);
    assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= 15.0), "{heights:?}");
}

#[test]
fn a_segment_that_never_arrived_ends_in_a_cross_and_its_copy_arrives() {
    let store = trace(
        "0 c 4 0+100 | 5 c 4 100+100 | 7 c 5 100+100 | 300 c 4 0+100 again | 302 c 5 0+100 again",
    );
    let svg = drawn(Figure::TimeSequence, &store);
    let ladder = group(&svg, "time-sequence");
    assert_eq!(strokes(ladder, "line alarm"), 1 + 2, "one shaft, one cross of two strokes");
    let words = texts(ladder);
    assert!(words.contains(&"0:100 (100 B), ack 0, again"), "{words:?}");
}

#[test]
fn a_long_trace_is_drawn_around_its_longest_wait() {
    let mut text = String::new();
    for call in 0..100 {
        let at = call * 50 + if call > 60 { 40_000 } else { 0 };
        let (offset, read) = (call * 10, at + 4 + if call == 60 { 39_999 } else { 0 });
        let next = at + 2;
        text += &format!(
            "{at} c 1,2,3,4 {offset}+10 | {next} c 5,6,7 {offset}+10 | {read} c 8 {offset}+10 | "
        );
    }
    let svg = drawn(Figure::TimeSequence, &trace(&text));
    assert!(
        svg.contains("600:610 (10 B)") && svg.contains("610:620 (10 B)"),
        "both sides of the wait"
    );
    assert!(svg.contains("14 of 100 segments shown, around the longest wait"));
    assert!(!svg.contains(">0:10 (10 B)"), "the calm start is left out");
}

#[test]
fn the_sequence_figure_shows_segments_copies_and_three_lines() {
    let store = trace(
        "0 c window 0+400 | 1 c 2 0+100 | 2 c 2 100+100 | 9 c 2 0+100 again | 11 s 6 0+0 ack 200 | \
         12 c 8 0+200",
    );
    let svg = drawn(Figure::Sequence, &store);
    let figure = group(&svg, "sequence");
    assert_eq!(strokes(figure, "line data"), 2);
    assert_eq!(strokes(figure, "line alarm"), 1 + 2, "a stroke and its cross");
    for class in ["dashed window", "line ack", "dotted program"] {
        assert_eq!(strokes(figure, class), 1, "{class}");
    }
}

#[test]
fn layers_have_a_line_for_each_segment_and_cut_the_stall() {
    let svg = drawn(Figure::Layers, &trace(STALLED));
    let figure = group(&svg, "layers");
    assert_eq!(strokes(figure, "line data"), 2, "two segments of the client");
    let words = texts(figure);
    for wanted in ["program", "driver", "40.0 ms", "100 at 0, 0.020 ms", "300 at 100, 40.020 ms"] {
        assert!(words.contains(&wanted), "{wanted} is not in {words:?}");
    }
    let nothing = drawn(Figure::Layers, &trace("0 s 1 0+10"));
    assert!(texts(group(&nothing, "layers")).contains(&"no segments seen"));
}

/// The part of a segment's way that lies in user mode: a layer has the bytes before they are written, and
/// when all of a message has been read.
#[test]
fn layers_show_what_the_program_does_above_its_socket() {
    let store = trace(&format!(
        "{STALLED} | 0 c converted 0+400 since 0 | 40090 c taken 0+400 since 40030"
    ));
    let svg = drawn(Figure::Layers, &store);
    let figure = group(&svg, "layers");
    let words = texts(figure);
    for wanted in ["stub", "is called", "XDR", "done", "begins", "is done", "100 at 0, 40.090 ms"] {
        assert!(words.contains(&wanted), "{wanted} is not in {words:?}");
    }
    let columns =
        |svg: &str| texts(group(svg, "layers")).iter().filter(|it| **it == "stub").count();
    assert_eq!(columns(&svg), 2);
    assert_eq!(columns(&drawn(Figure::Layers, &trace(STALLED))), 0, "nobody told of such a layer");
}

/// Twelve columns have no room for their heads side by side: every other one is higher.
#[test]
fn heads_of_layers_do_not_cover_each_other() {
    let called = "0 c converted 0+400 since 0 | 40090 c taken 0+400 since 40030";
    let small = PlotOptions { width: 800, height: 600, ..PlotOptions::default() };
    let rows = [STALLED.to_owned(), format!("{STALLED} | {called}")].map(|words| {
        let svg = draw(Figure::Layers, &trace(&words), &small).unwrap();
        let figure = group(&svg, "layers");
        for size in [Words::Panel, Words::Tick] {
            let heads = centred(figure, size);
            for (at, (x, y, head)) in heads.iter().enumerate() {
                for (other_x, other_y, other) in &heads[..at] {
                    let room_px = (size.width_px(head) + size.width_px(other)) / 2.0;
                    assert!(y != other_y || (x - other_x).abs() > room_px, "{head}, {other}");
                }
            }
        }
        let mut names = centred(figure, Words::Panel);
        names.retain(|(.., name)| !name.ends_with(" ms"));
        let mut rows: Vec<_> = names.iter().map(|(_, y, _)| y.to_string()).collect();
        rows.sort_unstable();
        rows.dedup();
        (names.len(), rows.len())
    });
    assert_eq!(rows, [(8, 1), (12, 2)]);
}

#[test]
fn what_was_lost_is_hatched_and_named() {
    let store = trace("0 c 1 0+300 | 10 c 2 0+100 | 900 c 2 200+100 | 1000 c 8 0+1");
    let loss = LossInterval {
        start_ns: 100_000,
        end_ns: 600_000,
        point: Some(Point::SendDequeue),
        count: 3,
        of_datagrams: false,
        is_anchored: false,
    };
    let options = PlotOptions { losses: &[loss], ..PlotOptions::default() };
    let svg = draw(Figure::QueueLength, &store, &options).unwrap();
    let panel = group(&svg, "send_queue");
    assert_eq!(panel.matches("class=\"unknown\"").count(), 1);
    assert!(texts(panel).contains(&"unknown"), "{panel}");
    assert!(svg.contains("3 records missed in the trace"));
}

#[test]
fn a_connection_without_records_gives_figures_that_say_so() {
    for figure in Figure::ALL {
        let svg = drawn(figure, &no_records());
        assert_well_formed(&svg);
        let words = texts(&svg).join(" | ");
        assert!(words.contains("no ") && words.contains(" seen"), "{figure:?}: {words}");
        assert!(words.contains("0 records of this connection"), "{figure:?}: {words}");
    }
}

#[test]
fn a_window_shows_its_part_and_counts_time_from_the_zero_given() {
    let options = PlotOptions {
        from_ns: Some(39_990_000),
        to_ns: Some(40_070_000),
        zero_ns: Some(39_990_000),
        ..PlotOptions::default()
    };
    let svg = draw(Figure::PacketTrace, &trace(STALLED), &options).unwrap();
    assert_eq!(strokes(group(&svg, "InterfaceEnqueue"), "thin data"), 1);
    assert!(texts(&svg).contains(&"time (µs)") && texts(&svg).contains(&"80"), "{svg}");
}

#[test]
fn a_figure_may_have_a_title_and_notes_of_its_own() {
    let notes = ["four probes".to_owned()];
    let options = PlotOptions {
        title: Some("Packets of a burst"),
        about: Some("Figure 10, model"),
        notes: &notes,
        ..PlotOptions::default()
    };
    for figure in Figure::ALL {
        let svg = draw(figure, &trace(STALLED), &options).unwrap();
        assert_well_formed(&svg);
        let words = texts(&svg);
        assert!(words.contains(&"Packets of a burst"), "{figure:?}: {words:?}");
        assert!(words.iter().any(|it| it.starts_with("Figure 10, model: tcp ")), "{words:?}");
        assert!(words.iter().any(|it| it.contains("four probes")), "{words:?}");
    }
}

#[test]
fn options_that_no_figure_can_have_are_refused() {
    let store = no_records();
    let refused = |options| draw(Figure::Acks, &store, &options).unwrap_err().to_string();
    assert_snapshot!(refused(PlotOptions { width: 10, ..PlotOptions::default() }),
        @"a figure is 320 to 8192 pixels wide and tall, not 10");
    assert_snapshot!(
        refused(PlotOptions { from_ns: Some(9), to_ns: Some(9), ..PlotOptions::default() }),
        @"nothing to show: the end, 9 ns, is not after the start, 9 ns");
    assert_eq!("acks".parse(), Ok(Picture::Flow(Figure::Acks)));
    assert_eq!("requests".parse(), Ok(Picture::Requests));
    let unknown = "pie".parse::<Picture>().unwrap_err();
    assert!(matches!(&unknown, PlotError::UnknownFigure { name, .. } if name == "pie"));
    assert!(unknown.to_string().contains("packet-trace, queue-length"), "{unknown}");
}

#[test]
fn a_small_figure_is_drawn_as_it_was() {
    let store = trace("0 c 7 0+100 | 10 c 7 100+100 | 30 c 8 0+200 | 31 s 4 0+0 ack 200");
    let options = PlotOptions { width: 480, height: 360, ..PlotOptions::default() };
    let svg = draw(Figure::Acks, &store, &options).unwrap();
    insta::assert_snapshot!("small_acks", svg.split_once("</style>").unwrap().1);
}

#[test]
fn a_trace_of_half_a_million_records_stays_small_and_keeps_its_extremes() {
    let mut store = no_records();
    for number in 0..60_000u64 {
        let len = if number == 31_234 { 65_000 } else { 100 };
        let segment = Record {
            at_ns: number * 1_000,
            offset: number * 100,
            len,
            tcp_flags: tcp_flags::ACK,
            marks: if number % 3 == 0 { marks::RETRANSMITTED } else { 0 },
            ..Record::default()
        };
        for point in 0..8 {
            let at_ns = segment.at_ns + 100 * point as u64;
            put(&mut store.flows[0], point, Record { at_ns, ..segment });
        }
        let header = SegmentHeader { acknowledged: Some(segment.offset), window_bytes: 0 };
        let ack = Record { offset: 0, len: 0, ..segment }.with_segment_header(header);
        put(&mut store.flows[1], 3, ack);
    }
    for figure in Figure::ALL {
        let svg = drawn(figure, &store);
        assert!(svg.len() < 600_000, "{figure:?} has {} bytes", svg.len());
    }
    let svg = drawn(Figure::PacketTrace, &store);
    assert!(svg.contains("envelope"), "the figure says what it left out");
    let texts = texts(group(&svg, "InterfaceEnqueue"));
    assert!(texts.contains(&"60,000"), "the last packet's number: {texts:?}");
}

fn any_passed() -> impl Strategy<Value = Record> {
    let time = prop_oneof![0..50_000u64, Just(u64::MAX), any::<u64>()];
    let offset = prop_oneof![0..5_000u64, Just(u64::MAX - 7), any::<u64>()];
    let len = prop_oneof![Just(0), 1..3_000u32, any::<u32>()];
    (time, offset, len, any::<u64>(), any::<u8>(), any::<u8>()).prop_map(
        |(at_ns, offset, len, acknowledged, tcp_flags, marks)| {
            // As the analysis hands them out: no position past the last one.
            let offset = offset.min(u64::MAX - u64::from(len));
            let acknowledged = Some(acknowledged);
            let passed = Record { at_ns, offset, len, tcp_flags, marks, ..Record::default() };
            passed.with_segment_header(SegmentHeader { acknowledged, window_bytes: 0 })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_records_give_whole_figures(
        passes in prop::collection::vec((0usize..2, 0usize..8, any_passed()), 0..60),
        windows in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 0..5),
        window in prop::option::of((0..100_000u64, 1..1_000_000u64)),
        loss in (any::<u64>(), any::<u64>()),
        width in 320u32..2000,
        height in 320u32..1000,
    ) {
        let mut store = no_records();
        for (flow, point, pass) in passes {
            put(&mut store.flows[flow], point, pass);
        }
        for (at_ns, offset, bytes) in windows {
            let noted = Record { at_ns, offset, ..Record::default() };
            let window = SendWindow { bytes, segment_bytes: 0 };
            store.flows[0].events.push(noted.with_send_window(window));
        }
        for flow in &mut store.flows {
            flow.passages.iter_mut().for_each(|passes| passes.sort_by_key(|pass| pass.at_ns));
            flow.events.sort_by_time();
        }
        let losses = [LossInterval {
            start_ns: loss.0.min(loss.1),
            end_ns: loss.0.max(loss.1),
            point: Some(Point::InterfaceDequeue),
            count: u64::MAX,
            of_datagrams: false,
            is_anchored: false,
        }];
        let options = PlotOptions {
            from_ns: window.map(|window| window.0),
            to_ns: window.map(|window| window.0 + window.1),
            width,
            height,
            losses: &losses,
            ..PlotOptions::default()
        };
        for figure in Figure::ALL {
            let svg = draw(figure, &store, &options).unwrap();
            assert_well_formed(&svg);
            prop_assert_eq!(&svg, &draw(figure, &store, &options).unwrap());
        }
    }
}

#[test]
fn the_ledger_has_a_panel_for_each_place_with_its_share_of_the_time() {
    let svg = drawn(Figure::Ledger, &trace(STALLED));
    let held = group(&svg, "send_queue.other");
    assert!(held.contains("99.8 %, 40.0 ms"), "{held}");
    // Nearly all pixel columns are its own.
    assert!(strokes(held, "thin place-send_queue-other") > 800, "{held}");
    let look = palette::place(LedgerPart::SendOther);
    let (light, dark) = svg.split_once("@media (prefers-color-scheme:dark)").unwrap();
    let rule = |colour: &str| format!(".pale-thin.{}{{stroke:{colour}}}", look.class);
    assert!(light.contains(&rule(look.on_light)) && dark.contains(&rule(look.on_dark)), "{light}");
    assert!(group(&svg, "app_idle").contains("everything written was read"));
    assert!(drawn(Figure::Ledger, &no_records()).contains("no bytes seen in this time"));
}

#[test]
fn requests_are_drawn_over_time_and_as_a_distribution() {
    let analysis = crate::fixture::slow_calls();
    let svg = draw_requests(&analysis, &PlotOptions::default()).unwrap();
    let over_time = group(&svg, "over-time");
    assert!(over_time.contains("5 requests, 1 not answered; longest 3.00 s"), "{over_time}");
    assert!(over_time.contains("connection 1"), "{over_time}");
    // The three short calls share a pixel; two strokes make a cross.
    assert_eq!((strokes(over_time, "line data"), strokes(over_time, "line alarm")), (2, 2));
    assert!(svg.contains("requests that share a pixel have one mark"), "{svg}");
    let distribution = group(&svg, "distribution");
    assert!(distribution.contains("p50 5.00 ms"), "{distribution}");
    let options = PlotOptions { from_ns: Some(u64::MAX - 9), ..PlotOptions::default() };
    let later = draw_requests(&analysis, &options).unwrap();
    assert!(later.contains("no requests seen in this time"), "{later}");
    let options = PlotOptions { from_ns: Some(9), to_ns: Some(9), ..PlotOptions::default() };
    assert!(matches!(draw_requests(&analysis, &options), Err(PlotError::EmptyWindow { .. })));
}

/// A finding that cost these times, in nanoseconds.
fn finding(id: FindingId, times: &[(u64, u64)]) -> Finding {
    let cost_ns = times.iter().map(|(from_ns, to_ns)| to_ns - from_ns).sum();
    Finding {
        id,
        flow: ConnectionId(1).flow(Direction::FromClient),
        side: Side::Server,
        count: times.len() as u64,
        connections: 1,
        cost_ns,
        times: times.to_vec(),
        summary: String::new(),
        evidence: Vec::new(),
        fix: String::new(),
    }
}

/// Bars of this ink that lie along an axis of time.
fn bars(svg: &str, ink: &str) -> usize {
    let bar = |rect: &&str| rect.contains("width=\"5\"") || rect.contains("height=\"5\"");
    let start = format!("<rect class=\"fill {ink}\"");
    let rects = svg.split(&start).skip(1).map(|rect| rect.split("/>").next().unwrap_or_default());
    rects.filter(bar).count()
}

#[test]
fn times_of_findings_are_marked_and_named() {
    let findings = [
        finding(FindingId::NagleDelayedAck, &[(40_000, 20_000_000), (30_000_000, 40_040_000)]),
        finding(FindingId::LateWakeup, &[(40_050_000, 40_055_000)]),
        finding(FindingId::SlowReader, &[(50_000_000, 60_000_000)]),
    ];
    let options = PlotOptions { findings: &findings, ..PlotOptions::default() };
    for figure in Figure::ALL {
        let svg = draw(figure, &trace(STALLED), &options).unwrap();
        assert_well_formed(&svg);
        let words = texts(&svg);
        assert!(words.contains(&"nagle-delayed-ack 2× (30.0 ms)"), "{figure:?}: {words:?}");
        assert!(words.contains(&"late-wakeup 1× (5.00 µs)"), "{figure:?}: {words:?}");
        assert!(!svg.contains("slow-reader"), "{figure:?} does not show its time");
        // The legend has one more of each. A histogram has no axis of time.
        let has_time = figure != Figure::ProtocolDelay;
        let of_nagle = bars(&svg, "alarm") - 1;
        assert_eq!(of_nagle > 0, has_time, "{figure:?}");
        assert_eq!(bars(&svg, "program") - 1, usize::from(has_time), "{figure:?}");
        let plain = drawn(figure, &trace(STALLED));
        assert_eq!((bars(&plain, "alarm"), bars(&plain, "program")), (0, 0), "{figure:?}");
    }
    let svg = draw(Figure::QueueLength, &trace(STALLED), &options).unwrap();
    assert_eq!(bars(&svg, "alarm") - 1, 2, "each time has its bar, and four panels have them once");
}

#[test]
fn three_rules_have_bars_and_others_are_named() {
    let ids = [
        FindingId::NagleDelayedAck,
        FindingId::LateWakeup,
        FindingId::SlowReader,
        FindingId::SplitMessage,
    ];
    let findings: Vec<_> =
        (1..).zip(ids).map(|(ms, id)| finding(id, &[(0, ms * 1_000_000)])).collect();
    let options = PlotOptions { findings: &findings, ..PlotOptions::default() };
    let svg = draw(Figure::QueueDelay, &trace(STALLED), &options).unwrap();
    let words = texts(&svg).join(" ");
    let order = ["split-message", "slow-reader", "late-wakeup", "without a bar: nagle-delayed-ack"];
    let places: Vec<_> = order.iter().map(|id| words.find(id).expect("all are named")).collect();
    assert!(places.is_sorted(), "{words}");
}

#[test]
fn the_figure_of_requests_marks_the_findings_of_all_connections() {
    let mut analysis = crate::fixture::slow_calls();
    let start_ns = analysis.start_ns;
    let times = [(start_ns, start_ns + 1_000_000)];
    analysis.connections.iter_mut().for_each(|one| one.findings.clear());
    analysis.connections[0].findings.push(finding(FindingId::Unanswered, &times));
    let svg = draw_requests(&analysis, &PlotOptions::default()).unwrap();
    assert!(texts(&svg).contains(&"unanswered 1× (1.00 ms)"), "{svg}");
    assert_eq!(bars(group(&svg, "over-time"), "alarm"), 1);
}

/// Bytes of a Unix socket: three writes and their reads.
fn of_unix(protocol: Protocol) -> ConnectionStore {
    let mut store = trace(
        "0 c 1,7 0+100 | 20 c 8 0+100 | 30 c 1,7 100+300 | 50 c 8 100+300 | 60 s 1,7 0+60 | 90 s 8 0+60",
    );
    let ends = ["unix:7", "/run/a.sock"].map(UnixName::new);
    store.connection = Connection::of_unix(ConnectionId(1), protocol, ends, 0);
    store
}

#[test]
fn figures_of_a_unix_socket_have_its_names_and_no_word_of_tcp() {
    let allowed = |text: &str| text.starts_with("a Unix socket has no") || text.starts_with("unix");
    for protocol in [Protocol::Unix, Protocol::UnixDatagram, Protocol::UnixSeqpacket] {
        for figure in Figure::ALL {
            let svg = drawn(figure, &of_unix(protocol));
            let texts = texts(&svg);
            let about =
                texts.iter().find(|text| text.starts_with(protocol.name())).expect("the ends");
            assert!(about.contains("unix:7") && about.contains("/run/a.sock"), "{about}");
            // The title stays, and the reason why there is no such figure.
            for text in texts.iter().skip(1).filter(|text| !allowed(text)) {
                for word in [
                    "segment",
                    "ACK",
                    "window",
                    "sent again",
                    "no bytes",
                    "packet",
                    "point 2",
                    "IP ",
                ] {
                    assert!(!text.contains(word), "{} has {word}: {text}", figure.name());
                }
            }
        }
    }
}

#[test]
fn a_unix_socket_has_one_queue_and_an_arrow_for_each_write() {
    let store = of_unix(Protocol::Unix);
    for figure in [Figure::QueueLength, Figure::QueueDelay] {
        let svg = drawn(figure, &store);
        assert_eq!(svg.matches("<g id=\"").count(), 1, "{svg}");
        assert!(svg.contains("<g id=\"receive_queue\">"), "{svg}");
    }
    // Arrows of both directions, each from the end that writes to the other one.
    let svg = drawn(Figure::TimeSequence, &store);
    assert_eq!(strokes(group(&svg, "time-sequence"), "line data"), 3, "{svg}");
    for (figure, words) in [
        (Figure::PacketTrace, "a Unix socket has no packets"),
        (Figure::ProtocolDelay, "a Unix socket has no protocol"),
        (Figure::Acks, "a Unix socket has no acknowledgments"),
        (Figure::Layers, "a Unix socket has no layers"),
    ] {
        let svg = drawn(figure, &store);
        assert!(texts(&svg).iter().skip(1).any(|text| text.contains(words)), "{svg}");
    }
}

#[test]
fn a_time_between_two_hosts_has_a_band_as_wide_as_its_error() {
    // Each packet is 500 us on the wire.
    let store = trace(
        "0 c 1,2,3,4 0+100 | 500 c 5,6,7 0+100 | 600 c 8 0+100 | 1000 c 1,2,3,4 100+100 | \
         1500 c 5,6,7 100+100 | 1600 c 8 100+100 | 2000 c 1,2,3,4 200+100 | 2500 c 5,6,7,8 200+100",
    );
    let with = |figure, uncertainty| {
        draw(figure, &store, &PlotOptions { uncertainty, ..PlotOptions::default() }).unwrap()
    };
    let band = |svg: &str, ink: &str| {
        let (_, path) = svg.split_once(&format!("<path class=\"pale-fill {ink}\" d=\""))?;
        path.split_once('"').map(|(path, _)| path.to_owned())
    };
    // Of the first step: from its left edge, `M x y V y`, to its right one, `H x`.
    let width = |ns| {
        let path = band(&with(Figure::Sequence, Some(Uncertainty::AtMost(ns))), "program").unwrap();
        let number = |text: &str| {
            let end = text.find(|it: char| !"0123456789.".contains(it)).unwrap_or(text.len());
            text[..end].parse::<f64>().unwrap()
        };
        let [left, right] = ['M', 'H'].map(|it| number(path.split_once(it).unwrap().1.trim()));
        right - left
    };
    assert!((width(50_000) - width(100_000) / 2.0).abs() < 0.2, "{}", width(100_000));
    let error = Some(Uncertainty::AtMost(100_000));
    for (figure, ink) in
        [(Figure::Layers, "data"), (Figure::TimeSequence, "data"), (Figure::Sequence, "program")]
    {
        let svg = with(figure, error);
        assert!(band(&svg, ink).is_some(), "{svg}");
        assert!(svg.contains("times between the two hosts are ±100 µs: the pale band"), "{svg}");
        let (known, unknown) = (with(figure, None), with(figure, Some(Uncertainty::Unknown)));
        assert!(band(&known, ink).or(band(&unknown, ink)).is_none(), "{unknown}");
        assert!(unknown.contains("the error of times between the two hosts is not known"));
        assert!(!known.contains("hosts"), "{known}");
    }
    assert!(with(Figure::PacketTrace, error).contains("are ±100 µs, from point 4 to point 7"));
    // No byte was seen to arrive: the figure has no band, and the foot names none.
    let sent = trace("0 c 1,2,3,4 0+100 | 1000 c 1,2,3,4 100+100");
    for figure in [Figure::Layers, Figure::TimeSequence, Figure::Sequence] {
        let options = PlotOptions { uncertainty: error, ..PlotOptions::default() };
        let svg = draw(figure, &sent, &options).unwrap();
        assert!(svg.contains("±100 µs") && !svg.contains("pale band"), "{svg}");
    }
    // Both ends of each queue are on one host.
    assert_eq!(with(Figure::QueueLength, error), with(Figure::QueueLength, None));
}

#[test]
fn lengths_at_hops_are_those_of_the_bytes_between_their_passes() {
    let mut store = trace("0 c 1,2,3,4 0+300 | 90 c 5,6,7,8 0+300");
    pass_hop(&mut store, 10, Point::InputEnqueue, 2, 0..300);
    pass_hop(&mut store, 15, Point::InterfaceEnqueue, 3, 0..200);
    pass_hop(&mut store, 16, Point::InterfaceEnqueue, 3, 200..300);
    pass_hop(&mut store, 60, Point::InterfaceDequeue, 3, 0..100);
    pass_hop(&mut store, 70, Point::InterfaceDequeue, 3, 100..300);
    let svg = drawn_in_shop(Figure::QueueLength, &store);
    check_hops_are_in_the_place_of_the_wire(&svg);
    let queue = svg.split("<g id=\"hop\">").nth(2).expect("the queue of the hop");
    assert!(texts(queue).contains(&"most 300 B"), "{queue}");
    assert!(svg.contains("at a hop, bytes count that were seen to leave it"), "{svg}");
}
