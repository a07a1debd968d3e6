//! What the kernel dropped of a flow, and why; of datagrams, what IP had taken and did not come into the
//! receive queue.

use std::collections::BTreeMap;

use sockscope_record::{Connection, Kind, Point, Protocol, Record};

use crate::{DropCount, DropReasons, FlowStore, Pass};

/// Why a datagram was dropped between IP and the receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The socket's receive buffer had no room.
    FullBuffer,
    /// No socket took it: nobody listens there, or a filter dropped it.
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

/// All of a flow of datagrams, in time order; none of a stream. The kernel's reason says why where
/// it has a name and the name says it, else the receive queue does.
pub(crate) fn at_the_socket<'a>(
    connection: &Connection,
    flow: &'a FlowStore,
    reasons: &DropReasons,
) -> impl Iterator<Item = SocketDrop<'a>> {
    let mut entered = Running::new(flow.at(Point::ReceiveEnqueue));
    let mut left = Running::new(flow.at(Point::ReceiveDequeue));
    let is_datagrams = connection.protocol == Protocol::Udp;
    let drops = flow.events.iter().filter(move |event| is_datagrams && event.kind == Kind::Drop);
    // Later than point 6 it had been taken: its socket was closed with it unread.
    let drops = drops.filter(|drop| drop.code == Point::InputDequeue.number());
    drops.map(move |drop| {
        entered.advance(drop.at_ns);
        left.advance(drop.at_ns);
        let waiting_bytes = entered.bytes.saturating_sub(left.bytes);
        let by_queue = match (waiting_bytes, entered.passes) {
            (0, 0) => Cause::NoSocket,
            (0, _) => Cause::Unknown,
            _ => Cause::FullBuffer,
        };
        let cause = named(drop, reasons).unwrap_or(by_queue);
        SocketDrop { drop, cause, waiting_bytes }
    })
}

/// How many of a flow's datagrams came to their host, this one, and found no socket.
pub(crate) fn refused(connection: &Connection, flow: &FlowStore, reasons: &DropReasons) -> u64 {
    let drops = at_the_socket(connection, flow, reasons);
    drops.filter(|drop| drop.cause == Cause::NoSocket).count() as u64
}

/// Whether a datagram was dropped when it had come to its host, which is this one then.
pub(crate) fn came_to_host(connection: &Connection, flow: &FlowStore) -> bool {
    let had_come =
        |event: &Record| event.kind == Kind::Drop && event.code >= Point::InputDequeue.number();
    connection.protocol == Protocol::Udp && flow.events.iter().any(had_come)
}

/// By Linux's name of the reason (`enum skb_drop_reason`), or the model's.
pub(crate) fn named(drop: &Record, reasons: &DropReasons) -> Option<Cause> {
    match reasons.get(&u32::try_from(drop.detail).ok()?)?.as_str() {
        "NO_SOCKET" | "no-socket" => Some(Cause::NoSocket),
        "SOCKET_RCVBUFF" | "PROTO_MEM" | "receive-buffer-full" => Some(Cause::FullBuffer),
        _ => None,
    }
}

/// Whether the segment was lost by it. The kernel also frees what it has made use of, what had come
/// before and what a closed socket holds.
pub(crate) fn loses_segment(drop: &Record, reasons: &DropReasons) -> bool {
    let name = u32::try_from(drop.detail).ok().and_then(|number| reasons.get(&number));
    let is_no_loss = |name: &str| {
        matches!(name, "NOT_SPECIFIED" | "QUEUE_PURGE" | "TCP_RESET")
            || name.starts_with("TCP_OLD_")
    };
    !name.is_some_and(|name| is_no_loss(name))
}

/// What was lost of a flow in the kernel, by reason; the most frequent first. A segment without data that
/// was dropped for a reason without a name may be one that a closed socket held: it is left out.
pub(crate) fn counts(flow: &FlowStore, reasons: &DropReasons) -> Vec<DropCount> {
    let mut by_reason: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let drops = flow.events.iter().filter(|event| event.kind == Kind::Drop);
    for drop in drops.filter(|drop| loses_segment(drop, reasons)) {
        let is_named = u32::try_from(drop.detail).is_ok_and(|number| reasons.contains_key(&number));
        if !is_named && drop.len == 0 {
            continue;
        }
        let (count, bytes) = by_reason.entry(drop.detail).or_default();
        *count += 1;
        *bytes += u64::from(drop.len);
    }
    let named = by_reason.into_iter().map(|(number, (count, bytes))| {
        let name = u32::try_from(number).ok().and_then(|number| reasons.get(&number));
        let reason = name.cloned().unwrap_or_else(|| number.to_string());
        DropCount { reason, count, bytes }
    });
    let mut all: Vec<_> = named.collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.count));
    all
}

/// `reason SOCKET_RCVBUFF`, or `reason 6` where the trace has no name for it.
pub(crate) fn reason(names: &DropReasons, number: u64) -> String {
    let name = u32::try_from(number).ok().and_then(|number| names.get(&number));
    match name {
        Some(name) => format!("reason {name}"),
        None => format!("reason {number}"),
    }
}

/// Passes and their bytes up to a time that only moves forward.
struct Running<'a> {
    rest: &'a [Pass],
    passes: u64,
    bytes: u64,
}

impl<'a> Running<'a> {
    fn new(passes: &'a [Pass]) -> Self {
        Self { rest: passes, passes: 0, bytes: 0 }
    }

    fn advance(&mut self, at_ns: u64) {
        while let Some((first, rest)) = self.rest.split_first()
            && first.at_ns <= at_ns
        {
            self.passes += 1;
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
    fn what_was_lost_is_counted_by_reason_and_what_was_freed_after_use_is_not() {
        let text = "1ms 1-6 +1000 | 1ms drop 0..1000 detail=77 | 2ms drop 0..1000 detail=77
                    3ms drop 1000..1500 detail=9 | 4ms drop at=1500 detail=2 | 4ms drop at=1500 detail=8 | 5ms drop 0..1000 detail=4";
        let names = [(2, "NOT_SPECIFIED"), (4, "TCP_OLD_DATA"), (77, "NETFILTER_DROP")];
        let reasons = names.map(|(number, name)| (number, name.to_owned())).into();
        let store = testing::store_of(testing::connection(1), text);
        let counts = counts(&store.flows[0], &reasons);
        let said: Vec<_> = counts.iter().map(|it| (&it.reason[..], it.count, it.bytes)).collect();
        assert_eq!(said, [("NETFILTER_DROP", 2, 2000), ("9", 1, 500)]);
    }

    #[test]
    fn what_was_dropped_before_the_host_or_behind_the_socket_is_none_of_these() {
        assert_eq!(causes("1ms 1-4 +100 | 2ms drop +100 code=3"), []);
        assert_eq!(causes("1ms 5-7 +100 | 2ms drop +100 code=7"), []);
    }
}
