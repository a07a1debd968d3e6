//! Segments that both hosts recorded: when they left the one and reached the other.

use std::collections::{HashMap, HashSet};

use sockscope_record::{Connection, ConnectionId, FlowId, Kind, Protocol, Record, marks};

use crate::bundle::Bundle;
use crate::clock_band::Crossing;
use crate::error::Error;
use crate::merge_plan::Place;

/// Segments from and to the host whose times are to be moved.
#[derive(Debug, Default)]
pub(crate) struct Crossings {
    pub(crate) from_moved: Vec<Crossing>,
    pub(crate) to_moved: Vec<Crossing>,
    /// First and last time of that host's records.
    pub(crate) range_ns: Option<[u64; 2]>,
}

/// The packets of one flow at one host.
#[derive(Debug, Default)]
struct Packets {
    /// Those that left.
    sent: Vec<Packet>,
    /// Those that arrived.
    received: Vec<Packet>,
}

/// A packet at an end of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    at_ns: u64,
    /// Positions of its octets; both are the same without data.
    begin: u64,
    end: u64,
    acknowledged: Option<u64>,
}

impl Packets {
    fn add(&mut self, record: &Record) {
        let list = match record.kind {
            Kind::InterfaceDequeue => &mut self.sent,
            Kind::InputEnqueue | Kind::InputDequeue if !record.is_marked(marks::DERIVED) => {
                &mut self.received
            }
            _ => return,
        };
        let acknowledged = record.segment_header().and_then(|header| header.acknowledged);
        let (at_ns, begin, end) = (record.at_ns, record.offset, record.end());
        list.push(Packet { at_ns, begin, end, acknowledged });
    }

    /// When the octets and the acknowledgments left first. A segment that leaves again bounds nothing.
    fn departures(&mut self) -> Departures {
        self.sent.sort_unstable();
        let mut left = Departures::default();
        for packet in &self.sent {
            let begin = left.octets.last().map_or(0, |last| last.end).max(packet.begin);
            if packet.end > begin {
                left.octets.push(Packet { begin, ..*packet });
            }
            if let Some(position) = packet.acknowledged {
                left.acks.entry(position).or_insert(packet.at_ns);
            }
        }
        left
    }
}

/// First departures of one flow.
#[derive(Debug, Default)]
struct Departures {
    /// In order of their octets.
    octets: Vec<Packet>,
    acks: HashMap<u64, u64>,
}

impl Departures {
    /// When this segment left at the earliest: its last octet, or the acknowledgment that it carries.
    fn left_ns(&self, arrived: &Packet) -> Option<u64> {
        let after = self.octets.partition_point(|sent| sent.end < arrived.end);
        let has_data = arrived.end > arrived.begin;
        let data = self.octets.get(after).filter(|sent| has_data && sent.begin < arrived.end);
        let ack = arrived.acknowledged.and_then(|position| self.acks.get(&position).copied());
        data.map(|sent| sent.at_ns).into_iter().chain(ack).max()
    }
}

/// The crossings of two bundles, of which the one with this index is to be moved.
pub(crate) fn crossings(
    bundles: [&Bundle; 2],
    places: &[HashMap<ConnectionId, Place>; 2],
    connections: &[Connection],
    moved: usize,
) -> Result<Crossings, Error> {
    // Positions agree where both hosts saw the handshake.
    let usable = connections.iter().filter(|row| row.protocol == Protocol::Tcp && !row.preexisting);
    let usable: HashSet<ConnectionId> = usable.map(|row| row.id).collect();
    let mut found = Crossings::default();
    let mut packets = [HashMap::<FlowId, Packets>::new(), HashMap::new()];
    for (index, bundle) in bundles.into_iter().enumerate() {
        let mut reader = bundle.records()?;
        while let Some(batch) = reader.next_batch()? {
            for record in batch {
                if index == moved && record.at_ns > 0 {
                    let [first, last] = found.range_ns.get_or_insert([record.at_ns; 2]);
                    (*first, *last) = ((*first).min(record.at_ns), (*last).max(record.at_ns));
                }
                let Some(place) = places[index].get(&record.flow.connection()) else { continue };
                if !usable.contains(&place.id) {
                    continue;
                }
                let flow = place.id.flow(record.flow.direction());
                let flow = if place.is_swapped { flow.reverse() } else { flow };
                packets[index].entry(flow).or_default().add(record);
            }
        }
    }
    let [mut first, mut second] = packets;
    let (own, other) =
        if moved == 0 { (&mut first, &mut second) } else { (&mut second, &mut first) };
    for (flow, here) in own {
        let Some(there) = other.get_mut(flow) else { continue };
        let (left_here, left_there) = (here.departures(), there.departures());
        let arrived = there.received.iter().filter_map(|packet| {
            Some(Crossing { moved_ns: left_here.left_ns(packet)?, base_ns: packet.at_ns })
        });
        found.from_moved.extend(arrived);
        let arrived = here.received.iter().filter_map(|packet| {
            Some(Crossing { moved_ns: packet.at_ns, base_ns: left_there.left_ns(packet)? })
        });
        found.to_moved.extend(arrived);
    }
    Ok(found)
}
