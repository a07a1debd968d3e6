//! Packets alone, in the form of tcpdump around 1990: the packets on the wire and nothing else.
//!
//! One line a packet as it left (point 4), times in seconds since the first one. Sequence numbers
//! are positions plus 1: 1 is the number of the SYN and of the first byte, as in traces that count
//! from the connection's start.

use std::io;
use std::net::SocketAddr;

use sockscope_analysis::{ConnectionStore, FlowStore, Passage};
use sockscope_record::{Direction, FlowId, Point, Protocol, Record, marks, tcp_flags};

use super::concerns;
use crate::{ReportError, check_flow};

/// Writes every packet of `stores`, or of the connection of `flow`, in time order.
///
/// A packet is shown where the driver took it (point 4) or, if its direction has no record of that,
/// where it arrived (point 5). Hand it a buffered writer.
///
/// # Errors
///
/// As [`show`](super::show).
pub fn show_tcpdump(
    stores: &[ConnectionStore],
    flow: Option<FlowId>,
    out: &mut dyn io::Write,
) -> Result<(), ReportError> {
    check_flow(flow, stores.iter().flat_map(|it| &it.flows).map(|flow| flow.id))?;
    let picked = stores.iter().filter(|store| concerns(store, flow));
    let mut packets: Vec<Packet<'_>> = picked.flat_map(packets).collect();
    packets.sort_by_key(|packet| (packet.pass.at_ns, packet.flow));
    let start_ns = packets.first().map_or(0, |packet| packet.pass.at_ns);
    for packet in &packets {
        packet.write(start_ns, out)?;
    }
    Ok(())
}

struct Packet<'a> {
    store: &'a ConnectionStore,
    direction: Direction,
    flow: FlowId,
    pass: &'a Passage,
}

fn packets(store: &ConnectionStore) -> impl Iterator<Item = Packet<'_>> {
    [Direction::FromClient, Direction::FromServer].into_iter().flat_map(move |direction| {
        let flow = store.flow(direction);
        let packet = move |pass| Packet { store, direction, flow: flow.id, pass };
        on_the_wire(flow).iter().map(packet)
    })
}

fn on_the_wire(flow: &FlowStore) -> &[Passage] {
    let left = flow.at(Point::InterfaceDequeue);
    if left.is_empty() { flow.at(Point::InputEnqueue) } else { left }
}

impl Packet<'_> {
    fn write(&self, start_ns: u64, out: &mut dyn io::Write) -> io::Result<()> {
        let Self { pass, .. } = self;
        let at_us = pass.at_ns.saturating_sub(start_ns) / 1000;
        write!(out, "{}.{:06} ", at_us / 1_000_000, at_us % 1_000_000)?;
        let connection = &self.store.connection;
        let ends = match self.direction {
            Direction::FromClient => (connection.client, connection.server),
            Direction::FromServer => (connection.server, connection.client),
        };
        write!(out, "{} > {}: ", end_words(ends.0), end_words(ends.1))?;
        if connection.protocol != Protocol::Tcp {
            return writeln!(out, "udp {}", pass.len);
        }
        write!(out, "{}", flag_letters(pass.tcp_flags))?;
        const NUMBERED: u8 = tcp_flags::SYN | tcp_flags::FIN;
        if pass.len > 0 || pass.tcp_flags & NUMBERED != 0 {
            let (first, last) = (number(pass.offset), number(pass.end()));
            write!(out, " {first}:{last}({})", pass.len)?;
        }
        if pass.tcp_flags & tcp_flags::ACK != 0 {
            write!(out, " ack {}", self.ack())?;
        }
        write!(out, " win {}", pass.window_bytes())?;
        if let Some(bytes) = self.announced_bytes() {
            write!(out, " <mss {bytes}>")?;
        }
        let again = if pass.marks & marks::RETRANSMITTED != 0 { " (again)" } else { "" };
        writeln!(out, "{again}")
    }

    /// The segment size that a SYN announces, where the trace has it.
    fn announced_bytes(&self) -> Option<u32> {
        if self.pass.tcp_flags & tcp_flags::SYN == 0 {
            return None;
        }
        let events = self.store.flow(self.direction).events.iter();
        let earlier = events.take_while(|event| event.at_ns <= self.pass.at_ns);
        let last = earlier.filter_map(Record::announced_segment_bytes).last()?;
        Some(last).filter(|bytes| *bytes > 0)
    }

    /// The number acknowledged. A FIN takes one of its own, which positions do not show: it counts
    /// once the peer's FIN, at the acknowledged position, has left before.
    fn ack(&self) -> u64 {
        let acknowledged = self.pass.acknowledged();
        let reverse = self.store.reverse(self.direction);
        let fin = |pass: &&Passage| pass.tcp_flags & tcp_flags::FIN != 0;
        let has_fin = on_the_wire(reverse)
            .iter()
            .find(fin)
            .is_some_and(|fin| fin.at_ns < self.pass.at_ns && fin.end() == acknowledged);
        number(acknowledged).saturating_add(has_fin.into())
    }
}

fn number(position: u64) -> u64 {
    position.saturating_add(1)
}

/// `10.0.0.1.1043`, as tcpdump joins address and port.
fn end_words(end: SocketAddr) -> String {
    format!("{}.{}", end.ip(), end.port())
}

/// Letters as in the traces of the time: `S`, `F`, `P`, `R`, or a dot for none of them.
fn flag_letters(flags: u8) -> String {
    const LETTERS: [(u8, char); 4] = [
        (tcp_flags::SYN, 'S'),
        (tcp_flags::FIN, 'F'),
        (tcp_flags::PSH, 'P'),
        (tcp_flags::RST, 'R'),
    ];
    let set = LETTERS.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, letter)| letter);
    let letters: String = set.collect();
    if letters.is_empty() { ".".to_owned() } else { letters }
}
