//! Drops of a flow by the kernel, with reasons; of datagrams, those that IP had taken and that did not reach the
//! receive queue.

use std::collections::BTreeMap;

use sockscope_record::{Connection, Direction, Kind, Point, Protocol, Record, Side, tcp_flags};

use crate::ranges::RangeSet;
use crate::transmission::{last_like, seen_before, told_point};
use crate::{ConnectionStore, DropCount, DropReasons, FlowStore, Passage};

/// Drops within this time are one event: no timer of TCP is shorter.
const AT_ONCE_NS: u64 = 1_000_000;

/// Cause of a datagram's drop between IP and the receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The socket's receive buffer had no room.
    FullBuffer,
    /// No socket took it: none listens there, or a filter dropped it.
    NoSocket,
    /// Another one: a wrong checksum, a filter of a socket that took others.
    Unknown,
}

/// One datagram dropped there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SocketDrop<'a> {
    pub drop: &'a Record,
    pub cause: Cause,
    /// Bytes of the flow that waited in the receive queue, unread.
    pub waiting_bytes: u64,
}

/// All of a flow of datagrams, in time order; empty for a stream. The cause is from the kernel's
/// reason if that has a specific name, else from the receive queue.
pub(crate) fn at_the_socket<'a>(
    connection: &Connection,
    flow: &'a FlowStore,
    reasons: &DropReasons,
) -> impl Iterator<Item = SocketDrop<'a>> {
    let mut entered = Running::new(flow.at(Point::ReceiveEnqueue));
    let mut left = Running::new(flow.at(Point::ReceiveDequeue));
    let is_datagrams = connection.protocol == Protocol::Udp;
    let drops = flow.events_of(Kind::Drop).filter(move |_| is_datagrams);
    // Later than point 6 it had been taken: its socket was closed with it unread.
    let drops = drops.filter(|drop| told_point(drop) == Some(Point::InputDequeue));
    drops.map(move |drop| {
        entered.advance(drop.at_ns);
        left.advance(drop.at_ns);
        let waiting_bytes = entered.bytes.saturating_sub(left.bytes);
        let by_queue = match (waiting_bytes, entered.passages) {
            (0, 0) => Cause::NoSocket,
            (0, _) => Cause::Unknown,
            _ => Cause::FullBuffer,
        };
        let cause = named(drop, reasons).unwrap_or(by_queue);
        SocketDrop { drop, cause, waiting_bytes }
    })
}

/// Number of a flow's datagrams that arrived at their host, this one, and found no socket.
pub(crate) fn refused(connection: &Connection, flow: &FlowStore, reasons: &DropReasons) -> u64 {
    let drops = at_the_socket(connection, flow, reasons);
    drops.filter(|drop| drop.cause == Cause::NoSocket).count() as u64
}

/// Whether a datagram was dropped after it had reached its host, which is this one then.
pub(crate) fn came_to_host(connection: &Connection, flow: &FlowStore) -> bool {
    let had_come = |event: &Record| told_point(event) >= Some(Point::InputDequeue);
    connection.protocol == Protocol::Udp && flow.events.iter().any(had_come)
}

/// By Linux's name of the reason (`enum skb_drop_reason`), or the model's.
pub(crate) fn named(drop: &Record, reasons: &DropReasons) -> Option<Cause> {
    match name_of(drop, reasons)? {
        "NO_SOCKET" | "no-socket" => Some(Cause::NoSocket),
        "SOCKET_RCVBUFF" | "PROTO_MEM" | "receive-buffer-full" => Some(Cause::FullBuffer),
        "NOT_SPECIFIED" => None,
        // Of the model's other reasons the queue knows more.
        name if name.starts_with(|first: char| first.is_ascii_uppercase()) => Some(Cause::Unknown),
        _ => None,
    }
}

/// Whether the record is a drop of the segment, by its reason. The kernel also frees segments that it has used, that
/// had arrived before or that a closed socket holds, and copies of segments in transit. Without a specific reason, a
/// segment without data may be one that a closed socket held.
fn drops_segment(drop: &Record, reasons: &DropReasons) -> bool {
    let Some(name) = name_of(drop, reasons) else { return drop.len > 0 };
    match name {
        "NOT_SPECIFIED" => drop.len > 0,
        "QUEUE_PURGE" | "TCP_RESET" | "TCP_OFOMERGE" | "TCP_OFO_DROP" => false,
        "OTHERHOST" | "PACKET_SOCK_ERROR" => false,
        // A keepalive or an old one, where the kernel has no name of its own for these.
        "TCP_INVALID_SEQUENCE" if drop.len == 0 => {
            reasons.values().any(|known| known == "TCP_OLD_SEQUENCE")
        }
        name => !name.starts_with("TCP_OLD_"),
    }
}

/// The drops of segments and datagrams, in time order: their reasons are those of drops, and the bytes had not
/// arrived in the receive queue by then. Some drivers free a sent packet as if they dropped it, without a reason.
/// Where only the sender was seen, such bytes were dropped if they were retransmitted.
pub(crate) fn of_segments<'a>(
    flow: &'a FlowStore,
    reasons: &DropReasons,
) -> impl Iterator<Item = &'a Record> {
    let sender_alone =
        flow.at(Point::ReceiveEnqueue).is_empty() && !flow.at(Point::SendDequeue).is_empty();
    let mut sent_again = RangeSet::default();
    let mut next_drop = None;
    let mut dropped = Vec::new();
    let events = flow.events_with(&[Kind::Drop]);
    for event in events.iter().rev() {
        match event.kind {
            Kind::Retransmit => sent_again.insert(event.offset, event.end(), |_, _| ()),
            Kind::Drop if drops_segment(event, reasons) => {
                let has_no_reason = name_of(event, reasons) == Some("NOT_SPECIFIED");
                let next = event.offset.saturating_add(1);
                let is_sent = sender_alone && has_no_reason;
                let is_in_parts =
                    has_no_reason && next_drop.is_some_and(|part| is_part(part, event));
                if !is_in_parts && (!is_sent || sent_again.contains(event.offset, next)) {
                    dropped.push(event);
                }
                next_drop = Some(event);
            }
            _ => {}
        }
    }
    let mut came = RangeSet::default();
    let mut coming = flow.at(Point::ReceiveEnqueue).iter().peekable();
    dropped.into_iter().rev().filter(move |drop| {
        while let Some(pass) = coming.next_if(|pass| pass.at_ns <= drop.at_ns) {
            came.insert(pass.offset, pass.end(), |_, _| ());
        }
        !had_come(drop, &came)
    })
}

/// Whether `part` is one end of the packet `whole`, dropped with it. A queueing discipline that divides a packet and
/// has no room for any part frees the whole, without a reason, and then the parts with theirs.
fn is_part(part: &Record, whole: &Record) -> bool {
    let is_end = part.offset == whole.offset || part.end() == whole.end();
    is_end && part.len < whole.len && part.at_ns - whole.at_ns < AT_ONCE_NS
}

/// A segment without data has the position of the next byte: if that byte has arrived, the segment is a keepalive or
/// an old acknowledgment.
fn had_come(drop: &Record, came: &RangeSet) -> bool {
    let is_bare = tcp_flags::ACK
        == drop.tcp_flags & (tcp_flags::ACK | tcp_flags::SYN | tcp_flags::FIN | tcp_flags::RST);
    match drop.len {
        0 => is_bare && came.contains(drop.offset, drop.offset.saturating_add(1)),
        _ => came.contains(drop.offset, drop.end()),
    }
}

/// The kernel's name of the reason; `None` if the trace has no name.
pub(crate) fn name_of<'a>(drop: &Record, reasons: &'a DropReasons) -> Option<&'a str> {
    Some(reasons.get(&u32::try_from(number_of(drop)).ok()?)?.as_str())
}

/// Drops of a flow in the kernel, by reason; the most frequent first.
pub(crate) fn counts(
    store: &ConnectionStore,
    direction: Direction,
    reasons: &DropReasons,
) -> Vec<DropCount> {
    let flow = store.flow(direction);
    let mut by_reason: BTreeMap<u64, (u64, u64, Hosts)> = BTreeMap::new();
    let drops: Vec<_> = match store.connection.protocol.is_unix() {
        // A message that its reader did not take has arrived.
        true => flow.events_of(Kind::Drop).collect(),
        false => of_segments(flow, reasons).collect(),
    };
    for drop in drops {
        let (count, bytes, hosts) = by_reason.entry(number_of(drop)).or_default();
        *count += 1;
        *bytes += u64::from(drop.len);
        hosts.look(store, direction, drop);
    }
    let named = by_reason.into_iter().map(|(number, (count, bytes, hosts))| {
        let name = u32::try_from(number).ok().and_then(|number| reasons.get(&number));
        let reason = name.cloned().unwrap_or_else(|| number.to_string());
        DropCount { reason, count, bytes, host: hosts.most(direction) }
    });
    let mut all: Vec<_> = named.collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.count));
    all
}

/// Number of drops of one reason whose host is looked up: the first ones.
const HOST_LOOKS_MAX: usize = 64;

/// Hosts on which the drops of one reason were.
#[derive(Debug, Default)]
struct Hosts {
    looked_at: usize,
    senders: usize,
    receivers: usize,
}

impl Hosts {
    fn look(&mut self, store: &ConnectionStore, direction: Direction, drop: &Record) {
        if self.looked_at == HOST_LOOKS_MAX {
            return;
        }
        self.looked_at += 1;
        match host_of(store, direction, drop) {
            Some(side) if side == direction.receiver() => self.receivers += 1,
            Some(_) => self.senders += 1,
            None => {}
        }
    }

    fn most(&self, direction: Direction) -> Option<Side> {
        if self.senders * 2 > self.looked_at {
            return Some(direction.sender());
        }
        (self.receivers * 2 > self.looked_at).then_some(direction.receiver())
    }
}

/// The host on which a packet of that direction was dropped; `None` where too little is known.
pub(crate) fn host_of(
    store: &ConnectionStore,
    direction: Direction,
    drop: &Record,
) -> Option<Side> {
    let (flow, reverse) = (store.flow(direction), store.reverse(direction));
    match seen_before(flow, reverse, drop) {
        Some(point) if point >= Point::InputEnqueue => Some(direction.receiver()),
        Some(_) => Some(direction.sender()),
        None => was_refused(flow, drop).then_some(direction.sender()),
    }
}

/// Whether the segment's sender was recorded, and no such packet was seen in transit up to then: the sender's
/// own host refused it.
fn was_refused(flow: &FlowStore, drop: &Record) -> bool {
    let is_seen = |point: Point| !flow.at(point).is_empty();
    let sees_sender = is_seen(Point::SendEnqueue) || is_seen(Point::SendDequeue);
    let sees_way = is_seen(Point::InterfaceEnqueue);
    let sees_arrivals = is_seen(Point::InputEnqueue) || is_seen(Point::InputDequeue);
    sees_sender && (sees_way || !sees_arrivals) && last_like(flow, drop).is_none()
}

/// `reason SOCKET_RCVBUFF`, or `reason 6` where the trace has no name for it.
pub(crate) fn reason(names: &DropReasons, drop: &Record) -> String {
    match name_of(drop, names) {
        Some(name) => format!("reason {name}"),
        None => format!("reason {}", number_of(drop)),
    }
}

/// The kernel's number of the reason.
fn number_of(drop: &Record) -> u64 {
    drop.packet_drop().map_or(0, |drop| drop.reason)
}

/// Passages and their bytes up to a time that only moves forward.
struct Running<'a> {
    rest: &'a [Passage],
    passages: u64,
    bytes: u64,
}

impl<'a> Running<'a> {
    fn new(passages: &'a [Passage]) -> Self {
        Self { rest: passages, passages: 0, bytes: 0 }
    }

    fn advance(&mut self, at_ns: u64) {
        while let Some((first, rest)) = self.rest.split_first()
            && first.at_ns <= at_ns
        {
            self.passages += 1;
            self.bytes += u64::from(first.len);
            self.rest = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// Of 100 bytes each, with the kernel's names of two reasons.
    fn causes(text: &str) -> Vec<Cause> {
        let udp = Connection { protocol: Protocol::Udp, ..testing::connection(1) };
        let store = testing::store_of(udp, text);
        let reasons = [(3, "NO_SOCKET".to_owned()), (6, "SOCKET_RCVBUFF".to_owned())].into();
        at_the_socket(&store.connection, &store.flows[0], &reasons).map(|it| it.cause).collect()
    }

    #[test]
    fn the_receive_queue_tells_why() {
        let nobody = "1ms 5-6 +100 | 1ms drop +100 code=6 | 2ms 5-6 +100 | 2ms drop +100 code=6";
        assert_eq!(causes(nobody), [Cause::NoSocket; 2]);
        let full = "1ms 5-7 +100 | 2ms 5-6 +100 | 2ms drop 100..200 code=6 | 3ms 8 +100";
        assert_eq!(causes(full), [Cause::FullBuffer]);
        let empty = "1ms 5-8 +100 | 2ms 5-6 +100 | 2ms drop 100..200 code=6";
        assert_eq!(causes(empty), [Cause::Unknown]);
    }

    #[test]
    fn the_kernels_name_of_the_reason_is_believed() {
        let gone = "1ms 5-7 +100 | 2ms 5-6 +100 | 2ms drop 100..200 code=6 detail=3";
        assert_eq!(causes(gone), [Cause::NoSocket], "its unread ones went with the socket");
        let filled_by_others = "2ms 5-6 +100 | 2ms drop +100 code=6 detail=6";
        assert_eq!(causes(filled_by_others), [Cause::FullBuffer]);
    }

    #[test]
    fn what_was_dropped_is_counted_by_reason_and_what_was_freed_after_use_is_not() {
        let text = "1ms 1-6 +1000 | 1ms drop 0..1000 detail=77 | 2ms drop 0..1000 detail=77
                    3ms drop 1000..1500 detail=9 | 4ms drop at=1500 detail=2 | 4ms drop at=1500 detail=8 | 5ms drop 0..1000 detail=4";
        let names = [(2, "NOT_SPECIFIED"), (4, "TCP_OLD_DATA"), (77, "NETFILTER_DROP")];
        let reasons = names.map(|(number, name)| (number, name.to_owned())).into();
        let store = testing::store_of(testing::connection(1), text);
        let counts = counts(&store, Direction::FromClient, &reasons);
        let said: Vec<_> = counts.iter().map(|it| (&it.reason[..], it.count, it.bytes)).collect();
        assert_eq!(said, [("NETFILTER_DROP", 2, 2000), ("9", 1, 500)]);
    }

    /// The entries of `counts` for `text`, with the names of a kernel that has a reason for old segments, or of one
    /// before.
    fn counted(text: &str, has_old_sequence: bool) -> Vec<(String, u64, u64)> {
        let names = [
            (2, "NOT_SPECIFIED"),
            (5, "TCP_INVALID_SEQUENCE"),
            (6, "TCP_OFOMERGE"),
            (7, "TCP_OFO_DROP"),
            (8, "OTHERHOST"),
            (9, "PACKET_SOCK_ERROR"),
            (50, "QDISC_DROP"),
            (77, "NETFILTER_DROP"),
        ];
        let mut reasons: DropReasons = names.map(|(at, name)| (at, name.to_owned())).into();
        if has_old_sequence {
            reasons.insert(4, "TCP_OLD_SEQUENCE".to_owned());
        }
        let store = testing::store_of(testing::connection(1), text);
        let counts = counts(&store, Direction::FromClient, &reasons);
        counts.into_iter().map(|it| (it.reason, it.count, it.bytes)).collect()
    }

    fn one(reason: &str, bytes: u64) -> Vec<(String, u64, u64)> {
        vec![(reason.to_owned(), 1, bytes)]
    }

    #[test]
    fn a_duplicate_and_a_copy_are_no_loss_by_name() {
        for number in 6..=9 {
            let text = format!("1ms 1-6 +1000 | 1ms drop 0..1000 detail={number}");
            assert_eq!(counted(&text, true), []);
        }
    }

    #[test]
    fn what_had_come_before_is_no_loss_whatever_the_reason() {
        let again = "1ms 1-7 +1000 | 2ms drop 200..1000 detail=5";
        assert_eq!(counted(again, false), []);
        let in_part = "1ms 1-7 +1000 | 2ms drop 200..1001 detail=5";
        assert_eq!(counted(in_part, false), one("TCP_INVALID_SEQUENCE", 801));
        let first_dropped = "1ms 1-6 +1000 | 1ms drop 0..1000 detail=77 | 9ms 3-7 0..1000";
        assert_eq!(counted(first_dropped, true), one("NETFILTER_DROP", 1000));
    }

    #[test]
    fn a_keepalive_is_no_loss_nor_is_an_old_acknowledgment() {
        let keepalive = "1ms 1-7 +1000 | 9s drop at=999 ack=0 detail=5";
        assert_eq!(counted(keepalive, true), []);
        let before_any_data = "9s drop at=0 ack=0 detail=5";
        assert_eq!(counted(before_any_data, false), [], "it has no name of its own there");
        assert_eq!(counted(before_any_data, true), one("TCP_INVALID_SEQUENCE", 0));
        let acknowledgment = "1ms 1-7 +1000 | 2ms drop at=1000 ack=0 detail=77";
        assert_eq!(counted(acknowledgment, true), one("NETFILTER_DROP", 0));
    }

    #[test]
    fn a_drop_without_a_reason_counts_unless_the_data_had_arrived() {
        let full_ring = "1ms 1-4 +1000 | 1ms drop 0..1000 detail=2
                         202ms retransmit 0..1000 code=1 | 202ms 3-7 0..1000";
        assert_eq!(counted(full_ring, true), one("NOT_SPECIFIED", 1000));
        let unread_when_closed = "1ms 1-7 +1000 | 2ms drop 0..1000 detail=2";
        assert_eq!(counted(unread_when_closed, true), []);
        let on_the_receiver_alone = "1ms 5-6 +1000 | 1ms drop 0..1000 detail=2";
        assert_eq!(counted(on_the_receiver_alone, true), one("NOT_SPECIFIED", 1000));
    }

    #[test]
    fn what_a_queue_drops_in_parts_is_not_dropped_a_second_time_as_a_whole() {
        // A token bucket divides a large packet, finds no room for any part, and frees the whole first.
        let text = "1ms 1 +3000 | 2ms drop 0..3000 detail=2 | 2001us drop 1500..3000 detail=50
                    2002us drop 0..1500 detail=50 | 3ms 2-8 +3000";
        assert_eq!(counted(text, true), [("QDISC_DROP".to_owned(), 2, 3000)]);
        let later = "1ms 1 +3000 | 2ms drop 0..3000 detail=2 | 9ms drop 1500..3000 detail=50";
        assert_eq!(counted(later, true).len(), 2);
    }

    #[test]
    fn what_a_driver_frees_once_it_is_sent_is_no_loss() {
        // Towards another host: only data retransmitted later was dropped.
        let text = "1ms 1-4 +2000 | 1ms drop 0..1000 detail=2 | 1ms drop 1000..2000 detail=2
                    202ms retransmit 1000..2000 code=1 | 203ms drop 1000..2000 detail=2";
        assert_eq!(counted(text, true), one("NOT_SPECIFIED", 1000));
    }

    #[test]
    fn what_was_dropped_before_the_host_or_behind_the_socket_is_none_of_these() {
        assert_eq!(causes("1ms 1-4 +100 | 2ms drop +100 code=3"), []);
        assert_eq!(causes("1ms 5-7 +100 | 2ms drop +100 code=7"), []);
    }
}
