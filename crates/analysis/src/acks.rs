//! Acknowledgments of one flow's data: their number, the bytes of each, and the causes of late ones.
//!
//! They travel in the reverse flow and are taken where the receiver makes them (point 4, else 3), or where
//! they arrive when only the sender is on this host (point 6, else 5).

use sockscope_record::{Direction, Point, tcp_flags};

use crate::curve::{Cursor, Curve};
use crate::flow_curves::FlowCurves;
use crate::record_loss_times::Losses;
use crate::{AckDelayCause, AckSummary, ConnectionStore, Distribution, FlowStore, Passage};

/// An acknowledgment this long after its data is late: well above a busy receiver's softirq delay.
pub(crate) const LATE_NS: u64 = 10_000_000;
/// RFC 1122 §4.2.3.2: the delay must be less than 0.5 s; a longer one has another cause.
const TIMER_NS_MAX: u64 = 500_000_000;
/// Linux's delayed-ACK timer runs for 40 ms at least, in ticks of up to 10 ms that may round down.
const LINUX_TIMER_NS_MIN: u64 = 35_000_000;
/// An acknowledgment this soon after a read can be due to it (`tcp_cleanup_rbuf` runs in the read call
/// itself, microseconds after the copy).
pub(crate) const AFTER_READ_NS: u64 = 1_000_000;
/// More than the clocks of two CPUs disagree, and than a call takes to return and be recorded.
const CLOCKS_NS: u64 = 10_000_000;

/// Effect of an acknowledgment on the acknowledged data of its flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckNews {
    /// All data before `to` has arrived; before this acknowledgment that was known up to `from`.
    Advances {
        /// Acknowledged before.
        from: u64,
        /// Acknowledged now.
        to: u64,
    },
    /// The same position again, without data or a flag that would be its reason: a duplicate acknowledgment
    /// (RFC 5681 §2) or a window update.
    Repeats,
    /// Nothing. It has another reason: data of its own, its sender's SYN or FIN, or it answers that of the
    /// other end; or it is the first one seen of a connection that was open before the recording.
    Nothing,
}

/// Acknowledgments of the data in `direction` with their effects, in time order, without those of a
/// RST.
///
/// Made at point 4 of the flow that carries them, or at the first of points 3, 6 and 5 that was seen.
pub fn acknowledgments(
    store: &ConnectionStore,
    direction: Direction,
) -> impl Iterator<Item = (&Passage, AckNews)> {
    let with_bytes = store.flow(direction).passages.iter().flatten().filter(|pass| pass.len > 0);
    let ends = with_bytes.map(Passage::end);
    read(store, direction, Reader::new(store, direction, ends.max().unwrap_or(0), 0))
}

fn read(
    store: &ConnectionStore,
    direction: Direction,
    mut reader: Reader,
) -> impl Iterator<Item = (&Passage, AckNews)> {
    let is_ack =
        |pass: &&Passage| pass.tcp_flags & (tcp_flags::ACK | tcp_flags::RST) == tcp_flags::ACK;
    let acks = acks_of(store.reverse(direction)).iter().filter(is_ack);
    acks.map(move |pass| (pass, reader.news(pass)))
}

fn acks_of(reverse: &FlowStore) -> &[Passage] {
    reverse.at(point_of(reverse))
}

/// The point at which they are taken.
fn point_of(reverse: &FlowStore) -> Point {
    let points = [
        Point::InterfaceDequeue,
        Point::InterfaceEnqueue,
        Point::InputDequeue,
        Point::InputEnqueue,
    ];
    let seen = points.into_iter().find(|point| !reverse.at(*point).is_empty());
    seen.unwrap_or(Point::InterfaceDequeue)
}

/// Reads the acknowledgments of one flow in order.
struct Reader {
    /// Position after the last byte of the flow.
    data_end: u64,
    /// Time of its FIN's arrival, if that was seen; `None` once an acknowledgment may have answered it.
    fin_ns: Option<u64>,
    /// Furthest position acknowledged; `None` while that is not known.
    acknowledged: Option<u64>,
}

impl Reader {
    /// No FIN arrived before `since_ns`.
    fn new(store: &ConnectionStore, direction: Direction, data_end: u64, since_ns: u64) -> Self {
        let flow = store.flow(direction);
        Self {
            data_end,
            // Without data nothing is repeated.
            fin_ns: (data_end > 0).then(|| fin_ns(flow, since_ns)).flatten(),
            acknowledged: (!store.connection.preexisting).then_some(0),
        }
    }

    fn news(&mut self, pass: &Passage) -> AckNews {
        // A FIN takes one number of its own, beyond the data; a live trace does not count it.
        let reached = pass.acknowledged().min(self.data_end);
        let known = self.acknowledged;
        self.acknowledged = known.max(Some(reached));
        let answers_fin = reached == self.data_end
            && self.fin_ns.take_if(|fin_ns| *fin_ns <= pass.at_ns).is_some();
        // No record shows earlier acknowledgments of a connection open before the recording.
        let Some(from) = known else { return AckNews::Nothing };
        if reached > from {
            return AckNews::Advances { from, to: reached };
        }
        let is_bare = pass.len == 0 && pass.tcp_flags & (tcp_flags::SYN | tcp_flags::FIN) == 0;
        let is_repeat = reached == from && from > 0 && pass.acknowledged() <= self.data_end;
        match is_bare && is_repeat && !answers_fin {
            true => AckNews::Repeats,
            false => AckNews::Nothing,
        }
    }
}

/// Time at which the first FIN from `since_ns` on passed the last point that saw it.
fn fin_ns(flow: &FlowStore, since_ns: u64) -> Option<u64> {
    let points = Point::ALL[2..6].iter().rev();
    let mut fins = points.filter_map(|point| {
        let passes = flow.at(*point);
        let later = &passes[passes.partition_point(|pass| pass.at_ns < since_ns)..];
        later.iter().find(|pass| pass.tcp_flags & tcp_flags::FIN != 0)
    });
    fins.next().map(|pass| pass.at_ns)
}

/// No FIN can arrive before this: a program closes when it has written the last byte.
fn written_ns(curves: &FlowCurves, data_end: u64) -> u64 {
    let last = curves.at(Point::SendEnqueue).seen.last().filter(|run| run.end() == data_end);
    last.map_or(0, |run| run.at_ns.saturating_sub(CLOCKS_NS))
}

/// Whether the delayed-ACK timer made an acknowledgment that left `delay_ns` after its last byte arrived, as
/// the only possible cause: it carries neither data nor a FIN, and no recent read of the acknowledged bytes
/// could send it as a window update.
///
/// RFC 9293 §3.8.6.3. Linux's timer runs for 40 ms at least; BSD's ticks every 200 ms, whenever the data
/// arrived.
pub(crate) fn is_timers(ack: &Passage, delay_ns: u64, has_just_read: bool) -> bool {
    let is_bare = ack.len == 0 && ack.tcp_flags & tcp_flags::FIN == 0;
    is_bare && !has_just_read && (LATE_NS..TIMER_NS_MAX).contains(&delay_ns)
}

/// Acknowledgments of the flow in `direction`.
pub(crate) fn summarize(
    store: &ConnectionStore,
    direction: Direction,
    curves: &FlowCurves,
    losses: &Losses,
) -> AckSummary {
    let reads = store.flow(direction).at(Point::ReceiveDequeue);
    let mut tally = Tally::new(curves, reads, losses, point_of(store.reverse(direction)));
    let data_end = curves.curves.iter().map(Curve::end).max().unwrap_or(0);
    let reader = Reader::new(store, direction, data_end, written_ns(curves, data_end));
    for (pass, news) in read(store, direction, reader) {
        tally.take(pass, news);
    }
    tally.finish()
}

struct Tally<'a> {
    came: Cursor<'a>,
    reads: &'a [Passage],
    last_read_ns: Option<u64>,
    losses: &'a Losses,
    /// Point at which acknowledgments are taken, and the time of the last one.
    point: Point,
    last_ns: u64,
    /// Furthest position that the receiver allowed to send.
    right_edge: u64,
    summary: AckSummary,
    bytes: Vec<u64>,
    delays_ns: Vec<u64>,
    /// In the order of `AckDelayCause`.
    late: [u64; 4],
}

impl<'a> Tally<'a> {
    fn new(curves: &'a FlowCurves, reads: &'a [Passage], losses: &'a Losses, point: Point) -> Self {
        Self {
            came: Cursor::new(curves.at(Point::ReceiveEnqueue)),
            reads,
            last_read_ns: None,
            losses,
            point,
            last_ns: 0,
            right_edge: 0,
            summary: AckSummary::default(),
            bytes: Vec::new(),
            delays_ns: Vec::new(),
            late: [0; 4],
        }
    }

    fn take(&mut self, pass: &Passage, news: AckNews) {
        let right_edge = pass.window_edge();
        match news {
            AckNews::Advances { from, to } => {
                debug_assert!(from < to && to <= pass.acknowledged());
                self.advance(pass, to, to - from, right_edge > self.right_edge);
            }
            AckNews::Repeats => self.summary.duplicate += 1,
            AckNews::Nothing => {}
        }
        self.right_edge = self.right_edge.max(right_edge);
        debug_assert!(self.last_ns <= pass.at_ns);
        self.last_ns = pass.at_ns;
    }

    fn advance(&mut self, pass: &Passage, reached: u64, bytes: u64, window_opened: bool) {
        self.summary.advancing += 1;
        self.summary.pure += u64::from(pass.len == 0);
        // A missed acknowledgment in between covered a part of the bytes, or all that had arrived.
        if self.losses.within_hits(self.point, self.last_ns, pass.at_ns).is_some() {
            return;
        }
        self.bytes.push(bytes);
        if let Some(came) = self.came.seek(reached - 1) {
            let delay_ns = pass.at_ns.saturating_sub(came.at_ns);
            self.delays_ns.push(delay_ns);
            if delay_ns >= LATE_NS {
                let cause = self.cause(pass, delay_ns, window_opened);
                self.late[cause as usize] += 1;
            }
        }
    }

    fn cause(&mut self, pass: &Passage, delay_ns: u64, window_opened: bool) -> AckDelayCause {
        if pass.len > 0 || pass.tcp_flags & tcp_flags::FIN != 0 {
            return AckDelayCause::Piggyback;
        }
        let since_ns = pass.at_ns.saturating_sub(AFTER_READ_NS);
        let may_have_read =
            self.losses.within(Point::ReceiveDequeue, since_ns, pass.at_ns).is_some();
        let has_just_read = self.last_read(pass).is_some_and(|ns| pass.at_ns - ns <= AFTER_READ_NS);
        if !has_just_read && may_have_read {
            return AckDelayCause::Unknown;
        }
        if is_timers(pass, delay_ns, has_just_read) {
            return AckDelayCause::Timer;
        }
        // Too soon for Linux's timer: a read sends the pending acknowledgment, even if it does not open the
        // window.
        match has_just_read && (window_opened || delay_ns < LINUX_TIMER_NS_MIN) {
            true => AckDelayCause::Read,
            false => AckDelayCause::Unknown,
        }
    }

    /// Time of the last read, up to `ack`, of bytes that it acknowledges; acknowledgments are in order.
    fn last_read(&mut self, ack: &Passage) -> Option<u64> {
        let acknowledged = ack.acknowledged();
        let is_before = |read: &Passage| read.at_ns <= ack.at_ns && read.offset < acknowledged;
        let past = self.reads.partition_point(is_before);
        if let Some(read) = self.reads[..past].last() {
            self.last_read_ns = Some(read.at_ns);
            self.reads = &self.reads[past..];
        }
        self.last_read_ns
    }

    fn finish(mut self) -> AckSummary {
        use AckDelayCause::{Piggyback, Read, Timer, Unknown};
        let causes =
            [Timer, Piggyback, Read, Unknown].map(|cause| (cause, self.late[cause as usize]));
        self.summary.late = causes.into_iter().filter(|(_, count)| *count > 0).collect();
        self.summary.bytes = Distribution::of(&mut self.bytes);
        self.summary.delay_ns = Distribution::of(&mut self.delays_ns);
        self.summary
    }
}

#[cfg(test)]
mod tests {
    use sockscope_record::Connection;

    use super::*;
    use crate::testing;

    /// Acknowledgments of the client's data.
    fn acks(text: &str) -> AckSummary {
        testing::analyze(text).flows[0].acks.clone()
    }

    #[test]
    fn an_acknowledgment_for_two_segments_counts_once_for_all_their_bytes() {
        let acks = acks("10us 1-8 +1000 | 20us 1-8 +1000 | 30us <4 ack=2000 win=65535");
        assert_eq!((acks.advancing, acks.pure, acks.duplicate), (1, 1, 0));
        assert_eq!(acks.bytes.unwrap().max, 2000);
        assert_eq!(acks.delay_ns.unwrap().max, 10_000);
        assert_eq!(acks.late, []);
    }

    #[test]
    fn the_handshake_and_the_fin_are_no_duplicates() {
        let acks = acks("1us <4 syn ack=0 | 10us 1-8 +1000 | 20us <4 ack=1000 | 30us <4 ack=1001");
        assert_eq!((acks.advancing, acks.duplicate), (1, 0));
    }

    #[test]
    fn the_bare_acknowledgment_of_a_fin_is_no_duplicate() {
        // Live traces count no number for a FIN: its acknowledgment stands at the last byte.
        let late = "10us 1-8 +1000 | 20us <4 ack=1000 | 30us 3-6 fin | 70us <4 ack=1000";
        assert_eq!((acks(late).advancing, acks(late).duplicate), (1, 0));
        let window_update = format!("{late} | 90us <4 ack=1000 win=5000");
        assert_eq!(acks(&window_update).duplicate, 1, "a window update after it");
        let before = "10us 1-8 +1000 | 20us <4 ack=1000 | 25us <4 ack=1000 | 30us 3-6 fin";
        assert_eq!(acks(before).duplicate, 1, "the FIN had not come");
        let with_data = "10us 1-8 +1000 fin | 20us <4 ack=1000 | 25us <4 ack=1000";
        assert_eq!(acks(with_data).duplicate, 1, "the first one was that of data and FIN");
    }

    #[test]
    fn on_a_connection_joined_on_its_way_the_first_acknowledgment_repeats_none_that_was_seen() {
        let joined = Connection { preexisting: true, ..testing::connection(1) };
        let of = |text| testing::analyze_of(joined.clone(), text).flows[0].acks.clone();
        let first = of("10us 1-8 1000..2000 | 20us <4 ack=1000");
        assert_eq!((first.advancing, first.duplicate), (0, 0));
        let then =
            of("10us 1-8 1000..2000 | 20us <4 ack=1000 | 30us <4 ack=1000 | 40us <4 ack=2000");
        assert_eq!((then.advancing, then.duplicate), (1, 1));
    }

    #[test]
    fn a_fin_that_counts_as_a_position_is_no_data_to_acknowledge() {
        let text = "10us 1-8 +1000 | 20us <4 ack=1000 | 30us 3-6 fin | 40us <4 ack=1001 fin
                    50us 3-6 at=1001 ack=1";
        let acks = acks(text);
        assert_eq!((acks.advancing, acks.bytes.unwrap().max), (1, 1000));
    }

    #[test]
    fn the_same_position_again_without_data_is_a_duplicate() {
        let acks =
            acks("10us 1-8 +1000 | 20us <4 ack=1000 | 30us <4 ack=1000 | 40us <4 +5 ack=1000");
        assert_eq!((acks.advancing, acks.duplicate), (1, 1));
    }

    #[test]
    fn a_socket_connected_to_itself_acknowledges_in_the_same_flow() {
        let own = testing::connection(1);
        let own = Connection { server: own.client, ..own };
        let text = "1ms 1-8 +100 | 41ms 4 ack=100 win=1000 | 42ms 1-8 +50 ack=100";
        let flows = testing::analyze_of(own, text).flows;
        assert_eq!((flows[0].acks.advancing, flows[0].acks.pure), (1, 1));
        assert_eq!(flows[0].acks.late, [(AckDelayCause::Timer, 1)]);
        assert_eq!(flows[1].acks.advancing, 0);
        let nothing = flows[1].stages.iter().all(|stage| stage.residue_bytes == Some(0));
        assert!(nothing, "all that can pass was watched: {:?}", flows[1].stages);
    }

    #[test]
    fn late_ones_are_told_apart() {
        let timer = "1ms 1-8 +100 | 41ms <4 ack=100 win=1000";
        assert_eq!(acks(timer).late, [(AckDelayCause::Timer, 1)]);
        let piggyback = "1ms 1-8 +100 | 61ms <1-8 +20 ack=100";
        assert_eq!(acks(piggyback).late, [(AckDelayCause::Piggyback, 1)]);
        let closing = "1ms 1-7 +100 | 16ms 8 +100 | 16010us <4 ack=100 fin win=900";
        assert_eq!(acks(closing).late, [(AckDelayCause::Piggyback, 1)]);
        let read = "1ms 1-7 +100 | 60ms 8 +100 | 60100us <4 ack=100 win=1000";
        assert_eq!(acks(read).late, [(AckDelayCause::Read, 1)]);
        // The window's edge stays where it was: as much arrived as was read.
        let full = "0ms <4 ack=0 win=1000 | 1ms 1-7 +100 | 16ms 8 +50 | 16010us <4 ack=100 win=900";
        assert_eq!(acks(full).late, [(AckDelayCause::Read, 1)]);
        let unknown = "1ms 1-8 +100 | 502ms <4 ack=100 win=1000";
        assert_eq!(acks(unknown).late, [(AckDelayCause::Unknown, 1)]);
    }
}
