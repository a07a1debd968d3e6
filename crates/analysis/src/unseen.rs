//! Bytes that may have passed unseen where no hole in the positions shows it.
//!
//! A hole needs a later record at its point. There are four cases without one:
//!
//! - The first record of a stream's points 7 or 8 behind a loss starts at the position that was known before
//!   it, so that it also has the bytes that passed meanwhile.
//! - After the last record of a point, more bytes may have passed than any point saw.
//! - Datagrams have no positions: one that all points missed leaves no trace.
//! - Sequence numbers wrap every 4 GiB. Where 2 GiB or more may have passed between two records, the later
//!   positions may be short by a multiple of 4 GiB, unless the recorder joined them anew by other counters.

use sockscope_record::{Connection, Point, Protocol, marks, tcp_flags};

use crate::curve::{Curve, FirstPassage, MissedPassage};
use crate::ranges::{Range, union};
use crate::record_loss_times::Losses;
use crate::{FlowStore, Passage};

/// A position is certain while fewer bytes than this pass between two records: see `Unwrapper`.
const UNWRAP_BYTES: u64 = 1 << 31;

/// Payload and headers of the largest packet on a device whose limit was not raised (`GSO_LEGACY_MAX_SIZE`).
const PACKET_BYTES_USUAL: u64 = 65_536;

/// Takes the first passages out of a stream's curve that may run over a loss at their point, and gives the times
/// between which their bytes passed. A passage of point 7 with exactly the bytes of one packet at point 6 is
/// whole.
pub(crate) fn take_spans(
    curves: &mut [Curve; 8],
    point: Point,
    passes: &[Passage],
    losses: &Losses,
) -> Vec<MissedPassage> {
    if !matches!(point, Point::ReceiveEnqueue | Point::ReceiveDequeue) {
        return Vec::new();
    }
    let (before, from_here) = curves.split_at_mut(point.index());
    let (curve, packets) = (&mut from_here[0], &before[Point::InputDequeue.index()].seen);
    let is_packet = |run: &FirstPassage| {
        let packet = packets.binary_search_by_key(&run.offset, |packet| packet.offset);
        let Some(packet) = packet.ok().map(|at| &packets[at]) else { return false };
        // Its time may be that of the read that showed its arrival.
        let is_derived = passes[run.pass as usize].marks & marks::DERIVED != 0;
        let times = (packet.at_ns.min(run.at_ns), packet.at_ns.max(run.at_ns));
        let is_late = is_derived && losses.within(point, times.0, times.1).is_some();
        packet.len == run.len && !is_late
    };
    let runs = curve.seen.iter();
    let runs = runs.filter(|run| point == Point::ReceiveDequeue || !is_packet(run));
    let spans = runs.filter_map(|run| {
        let before = (run.pass as usize).checked_sub(1).and_then(|before| passes.get(before));
        let before_ns = before.map_or(0, |pass| pass.at_ns);
        let (from_ns, _) = losses.within(point, before_ns, run.at_ns)?;
        Some(MissedPassage { offset: run.offset, end: run.end(), from_ns, until_ns: run.at_ns })
    });
    let spans: Vec<_> = spans.collect();
    if !spans.is_empty() {
        let ranges: Vec<Range> = spans.iter().map(|span| (span.offset, span.end)).collect();
        *curve = curve.without(&union(&ranges, &[]));
    }
    spans
}

/// Notes the time from which each curve may have more bytes than its last record shows.
///
/// Bytes that no point saw passed the first point and all after it unseen, or wait before the next one. A FIN
/// shows the end of a stream.
pub(crate) fn note_open_ends(
    curves: &mut [Curve; 8],
    flow: &FlowStore,
    losses: &Losses,
    connection: &Connection,
) {
    let until_ns = connection.closed_ns.unwrap_or(u64::MAX);
    if connection.protocol == Protocol::Tcp && has_known_end(curves, flow) {
        return;
    }
    let is_nothing_seen = curves.iter().all(Curve::is_without_bytes);
    let mut since_ns = connection.opened_ns;
    let mut is_first = true;
    for point in Point::ALL {
        let is_seen = is_nothing_seen || !curves[point.index()].is_without_bytes();
        if is_first && !is_seen {
            continue;
        }
        is_first = false;
        let last_ns = last_ns(curves, flow, point, connection.protocol).max(since_ns);
        let Some((from_ns, _)) = losses.within_hits(point, last_ns, until_ns) else { return };
        curves[point.index()].open_ns = Some(from_ns);
        since_ns = from_ns;
    }
}

/// Time up to which all bytes that passed `point` were seen there. A stream's position shows that at points 7
/// and 8; between them and point 1 the furthest byte does when it passes first, and not when it is sent again. A
/// packet without data has the position up to which its sender had sent.
fn last_ns(curves: &[Curve; 8], flow: &FlowStore, point: Point, protocol: Protocol) -> u64 {
    let last_ns = flow.at(point).last().map_or(0, |pass| pass.at_ns);
    if protocol != Protocol::Tcp || !(1..6).contains(&point.index()) {
        return last_ns;
    }
    let end = curves.iter().map(Curve::end).max().unwrap_or(0);
    let shows_end = |pass: &&Passage| pass.len == 0 && pass.offset == end;
    let last_empty = |point| flow.at(point).iter().rev().find(shows_end).map(|pass| pass.at_ns);
    let empty = match point {
        Point::SendDequeue => [Point::InterfaceEnqueue, Point::InterfaceDequeue]
            .into_iter()
            .filter_map(last_empty)
            .max(),
        _ => last_empty(point),
    };
    let curve = &curves[point.index()];
    let is_first =
        |run: &&FirstPassage| flow.at(point)[run.pass as usize].marks & marks::RETRANSMITTED == 0;
    let first = curve.seen.last().filter(is_first).map(|run| run.at_ns);
    first.max(empty).unwrap_or(0)
}

/// Whether a FIN was seen right behind the furthest position.
fn has_known_end(curves: &[Curve; 8], flow: &FlowStore) -> bool {
    let end = curves.iter().map(Curve::end).max().unwrap_or(0);
    let fins = flow.passages[2..6]
        .iter()
        .flat_map(|passes| passes.iter().rev().take_while(|pass| pass.end() >= end).filter(is_fin));
    fins.map(Passage::end).any(|at| at == end)
}

fn is_fin(pass: &&Passage) -> bool {
    pass.tcp_flags & tcp_flags::FIN != 0
}

/// Notes the times at which datagrams may have passed each point that no point before it saw either.
pub(crate) fn note_blind_times(curves: &mut [Curve; 8], losses: &Losses, connection: &Connection) {
    let until_ns = connection.closed_ns.unwrap_or(u64::MAX);
    let mut since_ns = connection.opened_ns;
    for point in Point::ALL {
        let curve = &mut curves[point.index()];
        if curve.covered.is_empty() {
            continue;
        }
        curve.blind = losses.times_of_hits(point, (since_ns, until_ns));
        let Some(first) = curve.blind.first() else { return };
        since_ns = first.0;
    }
}

/// Time from which positions of a stream may be short by a multiple of 4 GiB; `None` while they are
/// certain.
///
/// Every packet passes points 4 and 6 where they are watched, and has a largest size: the number of missed
/// records there bounds the bytes that passed unseen. A damaged batch, whose losses have no count, leaves
/// the other positions as they were recorded.
pub(crate) fn uncertain_since_ns(flow: &FlowStore, losses: &Losses) -> Option<u64> {
    let sizes = flow.passages[2..6].iter().flatten().map(|pass| u64::from(pass.len));
    let packet_bytes = sizes.max().unwrap_or(0).max(PACKET_BYTES_USUAL);
    let mut since_ns = None;
    for point in [Point::InterfaceDequeue, Point::InputDequeue] {
        let passes = flow.at(point);
        if passes.is_empty() {
            continue;
        }
        // Where one of the points saw enough, all positions are certain.
        let packets = UNWRAP_BYTES.div_ceil(packet_bytes);
        since_ns = since_ns.max(Some(losses.unanchored(point).since_ns(passes, packets)?));
    }
    since_ns
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use sockscope_record::{Connection, Point, Protocol, Stage};

    use crate::{AtLeast, FlowAnalysis, testing};

    /// Losses of `count` records at each point between two times.
    fn missed_everywhere(from: &str, until: &str, count: u64) -> String {
        let losses = Point::ALL.map(|point| {
            format!("{until} loss code={} from={from} detail={count}", point.number())
        });
        losses.join(" | ")
    }

    /// A recorder that stands still from 2 ms to 8 ms, in which the bytes from 2000 to 800000 pass. Its first
    /// records at points 7 and 8 start at the last position that it knew there.
    fn standstill() -> String {
        let missed = missed_everywhere("2ms", "8ms", 900);
        format!(
            "1ms 1-7 0..1000 | 1100us 8 0..1000 thread=7 | 2ms 1-7 1000..2000 | 2100us 8 1000..2000 thread=7
             {missed}
             8100us 1-6 800000..801000 | 8200us 7 2000..801000 | 8300us 8 2000..801000 thread=7
             9ms 1-7 801000..802000 | 9100us 8 801000..802000 thread=7
             9200us 3-6 at=802000 fin ack=0"
        )
    }

    fn flow(text: &str) -> FlowAnalysis {
        testing::analyze(text).flows[0].clone()
    }

    /// Largest lengths, `?` where no length is known; with `+` they are lower bounds.
    fn longest(flow: &FlowAnalysis) -> String {
        let shown = flow.stages.iter().map(|stage| match stage.length_bytes {
            Some(length) => {
                format!("{}{}", length.max, if stage.unknown_intervals > 0 { "+" } else { "" })
            }
            None => "?".to_owned(),
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_recorder_that_stood_still_knows_the_bytes_by_their_positions_and_no_length_meanwhile() {
        let flow = flow(&standstill());
        assert_eq!((flow.bytes, flow.at_least.bytes), (802_000, false));
        // From the first write at 1 ms to the last read at 9.1 ms.
        let rate = flow.throughput_bytes_per_s.unwrap();
        assert!((rate - 802_000.0 / 0.0081).abs() < 1.0 && !flow.at_least.throughput, "{rate}");
        assert_snapshot!(longest(&flow), @"0+ 0+ 0+ 0+ 0+ 0+ 1000+ 1000+");
        assert_eq!(flow.read_bytes.unwrap().max, 1000, "a copy behind the loss is no read");
        assert!(flow.at_least.reads && flow.at_least.writes && flow.at_least.segments);
        let residues = flow.stages.iter().map(|stage| (stage.residue_bytes, stage.resident_bytes));
        assert!(residues.into_iter().all(|it| it == (None, Some(0))));
    }

    /// As a recorder on loopback counts it: a hit of point 4 records points 2, 3 and 5 too.
    #[test]
    fn bytes_that_no_point_saw_stay_in_no_queue() {
        let text = [2, 3, 5].iter().fold(standstill(), |text, point| {
            text.replace(&format!("| 8ms loss code={point} from=2ms detail=900"), "")
        });
        let flow = flow(&text);
        assert_snapshot!(longest(&flow), @"0+ 0+ 0+ 0+ 0+ 0+ 1000+ 1000+");
        assert!(flow.stages.iter().all(|stage| stage.resident_bytes == Some(0)));
    }

    #[test]
    fn without_a_loss_every_figure_is_known() {
        let missed = missed_everywhere("2ms", "8ms", 900);
        let whole = standstill().replace(&missed, "");
        let flow = flow(&whole);
        assert_eq!(flow.at_least, AtLeast::default());
        assert_eq!(flow.read_bytes.unwrap().max, 799_000);
        // Of a hole that no loss explains nothing is guessed: it is residue.
        assert_eq!((flow.bytes, flow.stages[0].residue_bytes), (4_000, Some(0)));
    }

    #[test]
    fn behind_the_last_record_more_may_have_passed_unless_a_fin_was_seen() {
        let missed = missed_everywhere("2ms", "8ms", 3);
        let open = flow(&format!("1ms 1-8 0..1000 | {missed} | 9ms write"));
        assert_eq!((open.bytes, open.at_least.bytes), (1000, true));
        assert_eq!(open.ledger.share(crate::LedgerPart::Unknown), 7.0 / 8.0);
        assert!(
            open.stages
                .iter()
                .all(|stage| (stage.residue_bytes, stage.resident_bytes) == (None, None))
        );
        let ended =
            flow(&format!("1ms 1-8 0..1000 | 1500us 3-6 at=1000 fin | {missed} | 9ms write"));
        assert_eq!((ended.bytes, ended.at_least.bytes), (1000, false));
        assert!(ended.stages.iter().all(|stage| stage.residue_bytes == Some(0)));
    }

    /// Written bytes may wait to be sent; sent ones were seen.
    #[test]
    fn a_write_that_was_missed_makes_no_other_stage_unknown() {
        let flow = flow("1ms 1-8 0..1000 | 3ms loss code=1 from=2ms detail=1 | 9ms write");
        assert!(flow.at_least.bytes);
        let unknown = flow.stages.iter().filter(|stage| stage.residue_bytes.is_none());
        let unknown: Vec<_> = unknown.map(|stage| stage.stage).collect();
        assert_eq!(unknown, [Stage::SendQueue, Stage::Total]);
        assert_eq!(
            flow.ledger.share(crate::LedgerPart::Unknown),
            0.0,
            "idle, as far as bytes were sent"
        );
    }

    /// 2 GiB and more may have passed between two records.
    #[test]
    fn positions_behind_half_of_the_sequence_numbers_are_lower_bounds() {
        let of = |count| flow(&standstill().replace("detail=900", &format!("detail={count}")));
        assert!(!of(32_767).at_least.bytes);
        let unsure = of(32_768);
        assert_eq!((unsure.bytes, unsure.at_least.bytes), (802_000, true));
        assert_eq!(unsure.throughput_bytes_per_s, None);
        assert!(unsure.stages.iter().all(|stage| stage.resident_bytes.is_none()));
        let anchored = standstill().replace("detail=900", "detail=70000 anchored");
        let anchored = flow(&anchored);
        assert_eq!((anchored.bytes, anchored.at_least.bytes), (802_000, false));
        // Short by 4 GiB, they go back to where the stream has been: nothing was sent again.
        let back = standstill().replace("800000..801000", "500..1500");
        let back = flow(&back.replace("detail=900", "detail=70000"));
        assert_eq!((back.retransmitted_bytes, back.at_least.retransmitted), (0, true));
    }

    /// Bytes 1000 to 2000 passed points 1 to 6 unseen by 5 ms. The first hit of point 7 behind that loss shows
    /// that they had arrived. Their read was missed too, later.
    #[test]
    fn bytes_that_only_a_loss_shows_at_one_point_may_have_passed_the_next_one_unseen() {
        let flow = flow(
            "1ms 1-7 0..1000 | 1100us 8 0..1000 thread=7 | 5ms loss code=1 from=2ms detail=1
             5ms loss code=4 from=2ms detail=1 | 5ms loss code=6 from=2ms detail=1
             5ms loss code=7 from=2ms detail=1 | 6ms 7 1000..2000
             9ms loss code=8 from=5ms detail=1 | 10ms write",
        );
        let queue = &flow.stages[Stage::ReceiveQueue as usize];
        assert_eq!((queue.residue_bytes, queue.resident_bytes), (None, None));
        assert_eq!(queue.length_bytes.unwrap().max, 1000);
    }

    /// The hit of 100..200 that was missed may have been the first: then the one at 22 us is of a copy.
    #[test]
    fn a_packet_that_later_ones_overtook_behind_a_loss_may_be_a_copy() {
        let of = |missed: &str| {
            let text = format!(
                "10us 1-5 0..300 | 11us 6-8 0..100 {missed} | 21us 6 200..300 | 22us 6 100..200 | 23us 7-8 100..300"
            );
            let queue = flow(&text).stages[Stage::InputQueue as usize].clone();
            (queue.delay_ns.unwrap().count, queue.unknown_intervals)
        };
        assert_eq!(of(""), (3, 0));
        assert_eq!(of("| 20us loss code=6 from=12us detail=1"), (2, 1));
    }

    /// 7 saw only the bytes before, and 8 all: 6 saw a second copy.
    #[test]
    fn bytes_that_any_point_beyond_saw_before_are_no_first_passage() {
        let flow = flow(
            "10us 1-8 0..100 | 14us 1-5 100..200 | 18us 8 100..200 | 20us loss code=6 from=12us detail=1
             20us loss code=7 from=12us detail=1 | 230us 2-5 100..200 retransmitted loopback | 231us 6 100..200
             300us write",
        );
        let queue = &flow.stages[Stage::InputQueue as usize];
        assert_eq!(queue.length_bytes.unwrap().mean, 0.0, "{queue:?}");
    }

    /// The packet at 60 us may be a copy: without its event, and with its sending missed, nothing else shows it.
    #[test]
    fn a_copy_of_which_only_the_arrival_was_recorded_is_no_first_passage() {
        let of = |missed: &str| {
            let text = format!(
                "10us 1-8 0..100 loopback | 20us 1 100..200 | 40us loss code=4 from=15us detail=2
                 40us loss code=6 from=15us detail=1 {missed} | 60us 6 100..200 loopback | 61us 7-8 100..200"
            );
            flow(&text).stages[Stage::TcpInput as usize].delay_ns.unwrap().count
        };
        assert_eq!(of(""), 2, "no event of a retransmission was missed");
        assert_eq!(of("| 40us loss code=31 from=15us detail=1"), 1);
    }

    /// Bytes from 100 on may have passed at any time in the loss; those sent again had been sent before.
    #[test]
    fn what_is_sent_again_behind_a_loss_does_not_show_that_no_more_passed() {
        let flow = flow(
            "10us 1-8 0..100 loopback | 40us loss code=4 from=20us detail=2
             40us loss code=1 from=20us detail=1 | 50us 2-5 0..100 retransmitted loopback | 51us 6 0..100 loopback",
        );
        let queue = &flow.stages[Stage::SendQueue as usize];
        assert_eq!((queue.residue_bytes, queue.resident_bytes), (None, None));
        let queue = &flow.stages[Stage::InputQueue as usize];
        assert_eq!((queue.residue_bytes, queue.resident_bytes), (None, None));
    }

    /// A sender elsewhere is known only by the bytes that arrived; its own positions go on.
    #[test]
    fn what_a_receiver_alone_missed_counts_by_its_positions() {
        let receiver = Connection { both_ends_here: false, ..testing::connection(1) };
        let text = "10us 5-8 0..100 | 40us loss code=6 from=20us detail=2 | 40us loss code=7 from=20us detail=2
                    40us loss code=8 from=20us detail=2
                    50us 5-8 300..400";
        let flow = &testing::analyze_of(receiver, text).flows[0];
        assert_eq!((flow.bytes, flow.at_least.bytes), (400, false));
    }

    /// Of the bytes from 100 on, the lower ones arrived last of all: when the others arrived is not known.
    #[test]
    fn what_came_behind_a_late_packet_is_unknown_from_the_loss_on() {
        let flow = flow(
            "10us 1-5 0..300 | 21us 6 200..300 | 22us 6 100..200 | 25us 7 0..300 | 30us 6 0..100
             40us loss code=6 from=11us detail=1 | 50us 1-8 300..400",
        );
        let queue = &flow.stages[Stage::InputQueue as usize];
        assert_eq!((queue.unknown_intervals, queue.residue_bytes), (1, None), "{queue:?}");
        assert_eq!(queue.length_bytes.unwrap().max, 300);
    }

    /// A hit at point 4 that was missed is one of point 2 too.
    #[test]
    fn a_datagram_whose_sending_was_missed_waits_in_no_send_queue() {
        let udp = Connection { protocol: Protocol::Udp, ..testing::connection(1) };
        let text =
            "10us 1-8 +100 | 20us 1 +100 | 21us 6-8 +100 | 30us loss code=4 from=15us detail=1
            50us 1-8 +100";
        let flow = &testing::analyze_of(udp, text).flows[0];
        let queue = &flow.stages[Stage::SendQueue as usize];
        assert_eq!((queue.residue_bytes, queue.resident_bytes), (None, Some(0)), "{queue:?}");
    }

    #[test]
    fn datagrams_that_no_point_saw_leave_their_time_unknown_and_no_more() {
        let udp = Connection { protocol: Protocol::Udp, ..testing::connection(1) };
        let missed = missed_everywhere("20us", "30us", 5);
        let text = format!(
            "10us 1-7 +100 | 11us 8 +100 | {missed} | 50us 1-7 +100 | 51us 8 +100 | 99us write"
        );
        let flow = &testing::analyze_of(udp, &text).flows[0];
        assert_eq!((flow.bytes, flow.at_least.bytes, flow.segments), (200, true, 2));
        assert!(flow.at_least.throughput && flow.at_least.segments);
        assert!(flow.ledger.ns[crate::LedgerPart::Unknown as usize] <= 11_000, "{:?}", flow.ledger);
    }
}
