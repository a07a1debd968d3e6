//! Numbers of segments as positions in the stream, and the evidence for retransmissions.

use std::collections::VecDeque;

use sockscope_record::{
    FlowId, Kind, Record, Retransmission, RetransmitClass, SegmentHeader, Unwrapper, marks,
    tcp_flags,
};

use super::headers::{Options, Segment};
use super::room::Room;

/// Segments without an acknowledgment that are kept for each flow; of older ones the times are forgotten.
const KEPT_MAX: usize = 512;
/// A list without entries gives its room back above this.
const EMPTY_MAX: usize = 64;
/// Ranges not seen yet that are kept for each flow.
const HOLES_MAX: usize = 64;
/// Duplicate acknowledgments that show a loss (RFC 5681 §3.2).
const DUPLICATES: u32 = 3;
/// The least time of a retransmission timer that a sender in use today has. RFC 6298 §2.4 says a second.
const TIMER_NS_MIN: u64 = 200_000_000;

/// One direction of a connection, as its packets show it.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// Number of its SYN.
    pub initial: Option<u32>,
    positions: Option<Unwrapper>,
    window_shift: Option<u8>,
    /// Position after the last octet seen.
    end: u64,
    /// Identification of the packet with the furthest octets.
    furthest_identification: Option<u16>,
    /// Ranges before `end` that were not seen.
    holes: Vec<(u64, u64)>,
    /// Segments not acknowledged, by their ends: (first, end, when).
    sent: VecDeque<(u64, u64, u64)>,
    /// The furthest octet acknowledged, and how often again without any change.
    acknowledged: u64,
    acknowledged_window: u16,
    duplicates: u32,
    /// The furthest octet of any selective acknowledgment.
    selected: u64,
    datagrams: u64,
    was_opened: bool,
    was_finished: bool,
}

/// Where a packet was seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// Its kind and marks.
    pub kind: Kind,
    pub marks: u8,
    /// Identification of its IPv4 header.
    pub identification: Option<u16>,
}

impl Stream {
    /// Whether a SYN opens another connection than the one before with the same addresses.
    pub fn is_another(&self, segment: &Segment<'_>) -> bool {
        let is_new = self.initial != Some(segment.sequence);
        is_new && (self.initial.is_some() || self.positions.is_some())
    }

    /// Takes the positions of the same stream at another vantage, where `number` is next.
    pub fn follow(&mut self, other: &Self, number: Option<u32>) {
        if let (Some(positions), Some(number)) = (&other.positions, number) {
            self.positions = Some(Unwrapper::joined_at(number, positions.peek(number)));
        }
        (self.initial, self.window_shift) = (other.initial, other.window_shift);
    }

    /// A datagram: its position is the running count of octets.
    pub fn datagram(&mut self, flow: FlowId, len: u32, at_ns: u64, place: Place) -> Record {
        let Place { kind, marks, .. } = place;
        let record =
            Record { at_ns, flow, len, offset: self.end, kind, marks, ..Record::default() };
        let record = record.with_datagram_number(self.datagrams);
        self.end += u64::from(len);
        self.datagrams += 1;
        record
    }

    /// A segment of this flow: its record, and that of a retransmission. `reverse` is the other direction, whose data
    /// it acknowledges.
    pub fn segment(
        &mut self,
        reverse: &mut Self,
        flow: FlowId,
        (segment, len): (&Segment<'_>, u32),
        at_ns: u64,
        place: Place,
        (out, room): (&mut Vec<Record>, &mut Room),
    ) {
        let is_syn = segment.flags & tcp_flags::SYN != 0;
        let options = if segment.has_options() { segment.options() } else { Options::default() };
        let was_opened = is_syn && self.was_opened && self.initial == Some(segment.sequence);
        if is_syn && !was_opened {
            room.free(&mut self.sent);
            room.free(&mut self.holes);
            *self = Self {
                initial: Some(segment.sequence),
                positions: Some(Unwrapper::new(segment.sequence.wrapping_add(1))),
                window_shift: options.window_shift,
                was_opened: true,
                ..Self::default()
            };
        }
        let positions = self.positions.get_or_insert_with(|| Unwrapper::new(segment.sequence));
        // Octet 0 is the one after the SYN, also for data that a SYN carries (RFC 7413).
        let offset = if is_syn { 0 } else { positions.position(segment.sequence) };
        // The FIN has a number, but is no octet.
        let offset = if self.was_finished && len == 0 { offset.min(self.end) } else { offset };
        let acknowledged = segment.acknowledged.map(|number| reverse.position(number));
        let shift = match (is_syn, self.window_shift, reverse.window_shift) {
            (false, Some(own), Some(_)) => own,
            _ => 0,
        };
        let window_bytes = u32::from(segment.window) << shift;
        let seen = self.seen((offset, len), at_ns, place, room);
        let len = if seen == Seen::KeepAlive { 0 } else { len };
        let is_again = matches!(seen, Seen::Again { .. });
        let mark = if is_again { marks::RETRANSMITTED } else { 0 };
        let record = Record {
            at_ns,
            flow,
            offset,
            len,
            kind: place.kind,
            tcp_flags: segment.flags,
            marks: place.marks | mark,
            ..Record::default()
        };
        out.push(record.with_segment_header(SegmentHeader { acknowledged, window_bytes }));
        if is_syn && !was_opened {
            let announced = options.segment_bytes.unwrap_or(0);
            let plain = Record { at_ns, flow, ..Record::default() };
            out.push(plain.with_announced_segment_bytes(u32::from(announced)));
        }
        // The sender's host alone shows each packet that is sent again.
        let is_at_sender = place.kind == Kind::InterfaceDequeue && place.marks == 0;
        let marks = if is_at_sender { 0 } else { marks::DERIVED };
        let again = match seen {
            _ if was_opened => Some((0, RetransmitClass::Handshake)),
            Seen::Again { class } => Some((len, class)),
            Seen::New | Seen::Reordered | Seen::KeepAlive => None,
        };
        if let Some((len, class)) = again {
            let plain = Record { at_ns, flow, offset, len, marks, ..Record::default() };
            out.push(plain.with_retransmission(Retransmission { class, duplicates: 0 }));
        }
        if let Some(acknowledged) = acknowledged {
            let is_bare =
                len == 0 && segment.flags & (tcp_flags::SYN | tcp_flags::FIN | tcp_flags::RST) == 0;
            let twice = reverse.acknowledge(
                acknowledged,
                is_bare.then_some(segment.window),
                &options,
                room,
            );
            if twice {
                // The acknowledged flow's sender learns that a segment arrived twice (RFC 2883).
                let is_at_sender = place.kind == Kind::InputEnqueue;
                let plain = Record {
                    at_ns,
                    flow: flow.reverse(),
                    offset: acknowledged,
                    marks: if is_at_sender { 0 } else { marks::DERIVED },
                    ..Record::default()
                };
                let spurious = Retransmission { class: RetransmitClass::Spurious, duplicates: 1 };
                out.push(plain.with_retransmission(spurious));
            }
        }
        self.was_finished |= segment.flags & tcp_flags::FIN != 0;
    }

    /// Position of an acknowledged number of this flow. A FIN has a number but no octet.
    fn position(&mut self, number: u32) -> u64 {
        let positions = self.positions.get_or_insert_with(|| Unwrapper::new(number));
        let position = positions.peek(number);
        if self.was_finished { position.min(self.end) } else { position }
    }

    /// Takes an acknowledgment of this flow's data; whether it says that a segment arrived twice.
    fn acknowledge(
        &mut self,
        position: u64,
        bare_window: Option<u16>,
        options: &Options,
        room: &mut Room,
    ) -> bool {
        let peek = |positions: &Option<Unwrapper>, number| {
            positions.as_ref().map_or(0, |positions: &Unwrapper| positions.peek(number))
        };
        let blocks = options.blocks.map(|block| {
            block.map(|(first, end)| (peek(&self.positions, first), peek(&self.positions, end)))
        });
        let twice = match (blocks[0], blocks[1]) {
            (Some((_, end)), _) if end <= position => true,
            (Some((first, end)), Some((outer, outer_end))) => outer <= first && end <= outer_end,
            _ => false,
        };
        let news = blocks.iter().flatten().skip(usize::from(twice)).map(|(_, end)| *end);
        self.selected = news.fold(self.selected, u64::max);
        if position > self.acknowledged {
            self.acknowledged = position;
            self.duplicates = 0;
            while self.sent.front().is_some_and(|(_, end, _)| *end <= position) {
                self.sent.pop_front();
            }
            if self.sent.is_empty() && self.sent.capacity() > EMPTY_MAX {
                room.free(&mut self.sent);
            }
        } else if position == self.acknowledged
            && bare_window == Some(self.acknowledged_window)
            && position < self.end
        {
            self.duplicates += 1;
        }
        self.acknowledged_window = bare_window.unwrap_or(self.acknowledged_window);
        twice
    }

    /// What `[offset, offset + len)` is to those seen so far.
    fn seen(
        &mut self,
        (offset, len): (u64, u32),
        at_ns: u64,
        place: Place,
        room: &mut Room,
    ) -> Seen {
        if len == 0 {
            return Seen::New;
        }
        let end = offset.saturating_add(u64::from(len));
        if len == 1 && end == self.end && self.acknowledged == end {
            return Seen::KeepAlive;
        }
        let before =
            self.sent.iter().rev().find(|(first, end, _)| (*first..*end).contains(&offset));
        let before_ns = before.map(|(_, _, at_ns)| *at_ns);
        let is_first = self.end == 0 && !self.was_opened;
        if offset >= self.end {
            if offset > self.end
                && !is_first
                && self.holes.len() < HOLES_MAX
                && room.is_for_one(&mut self.holes)
            {
                self.holes.push((self.end, offset));
            }
            (self.end, self.furthest_identification) = (end, place.identification);
            self.keep((offset, end), at_ns, room);
            return Seen::New;
        }
        let filled = self.fill(offset, end, room);
        let goes_on = end > self.end;
        let was_newer = match (place.identification, self.furthest_identification) {
            // Within half of the numbers, the greater one was sent later.
            (Some(this), Some(furthest)) => Some(this.wrapping_sub(furthest) < 0x8000),
            _ => None,
        };
        if goes_on {
            (self.end, self.furthest_identification) = (end, place.identification);
        }
        if filled && was_newer == Some(false) {
            return Seen::Reordered;
        }
        if filled && was_newer.is_none() {
            // Sent again after a loss before this place, or overtaken: the capture cannot tell.
            return Seen::New;
        }
        let class = self.class(offset, end, before_ns.map(|before| at_ns.saturating_sub(before)));
        self.keep((offset, end), at_ns, room);
        Seen::Again { class }
    }

    fn keep(&mut self, (offset, end): (u64, u64), at_ns: u64, room: &mut Room) {
        let is_full = self.sent.len() == KEPT_MAX || !room.is_for_one(&mut self.sent);
        // Without any room not even the last one is kept.
        if !is_full || self.sent.pop_front().is_some() {
            self.sent.push_back((offset, end, at_ns));
        }
    }

    /// Takes a range out of the holes; whether it lay in one.
    fn fill(&mut self, offset: u64, end: u64, room: &mut Room) -> bool {
        let Some(at) = self.holes.iter().position(|(from, to)| *from <= offset && end <= *to)
        else {
            return false;
        };
        let (from, to) = self.holes.swap_remove(at);
        for left in [(from, offset), (end, to)].into_iter().filter(|(from, to)| from < to) {
            if self.holes.len() < HOLES_MAX && room.is_for_one(&mut self.holes) {
                self.holes.push(left);
            }
        }
        true
    }

    /// Why the sender sent a range again, where the packets show it.
    fn class(&self, offset: u64, end: u64, since_ns: Option<u64>) -> RetransmitClass {
        let shows_hole = self.selected > end || self.duplicates >= DUPLICATES;
        if shows_hole && offset >= self.acknowledged {
            return RetransmitClass::Fast;
        }
        let waited = since_ns.is_some_and(|ns| ns >= TIMER_NS_MIN);
        // A timer sends the oldest octets. What is sent again earlier, or later in the stream, may be a probe.
        if waited && offset <= self.acknowledged && self.selected <= self.acknowledged {
            return RetransmitClass::Timeout;
        }
        RetransmitClass::Unknown
    }
}

/// What a range is to those seen before.
#[derive(Debug, PartialEq)]
enum Seen {
    /// Not seen, or not known to be sent again.
    New,
    /// Overtaken by later ones.
    Reordered,
    /// An octet that was acknowledged long ago, to ask for an acknowledgment (RFC 1122 §4.2.3.6).
    KeepAlive,
    /// Sent again.
    Again { class: RetransmitClass },
}
