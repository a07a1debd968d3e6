//! Connections whose only records are packets, as a capture has them.
//!
//! A capture at a host has the packets that the host sent at point 4 and those that it received at point 5. One on the
//! wire has both flows at point 4, marked as derived. One of a loopback interface has both at point 5.

use std::iter::Peekable;
use std::slice::Iter;

use sockscope_record::{Direction, Kind, Point, Record, Side, marks, tcp_flags};

use crate::{ConnectionStore, FlowStore, Passage};

/// Points that only a recorder in the kernel or a protocol's engine sees.
const OF_SOCKETS: [Point; 4] =
    [Point::SendEnqueue, Point::SendDequeue, Point::ReceiveEnqueue, Point::ReceiveDequeue];

/// Events that only those see.
const EVENTS_OF_SOCKETS: [Kind; 5] =
    [Kind::TcpState, Kind::SendWindow, Kind::StateChange, Kind::Accept, Kind::Drop];

/// Whether no record shows a socket or a program.
pub fn are_alone(store: &ConnectionStore) -> bool {
    let passed_before = |watched: &[bool; 8]| OF_SOCKETS.iter().any(|it| watched[it.index()]);
    if store.window.is_some_and(|window| window.watched.iter().any(passed_before)) {
        return false;
    }
    store.flows.iter().all(|flow| {
        OF_SOCKETS.iter().all(|point| flow.at(*point).is_empty())
            && !flow.events.has(&EVENTS_OF_SOCKETS)
    })
}

/// The retransmissions of a flow. A capture at the receiver's host guesses them, and those of the sender's are exact.
pub(crate) fn retransmissions(flow: &FlowStore) -> impl Iterator<Item = &Record> {
    let is_derived = |marks: u8| marks & marks::DERIVED != 0;
    let sent = flow.at(Point::InterfaceDequeue).iter();
    let is_sender_seen = sent.map(|pass| pass.marks).any(|marks| !is_derived(marks));
    let events = flow.events_of(Kind::Retransmit);
    events.filter(move |event| !(is_sender_seen && is_derived(event.marks)))
}

/// A place at which the packets of both flows were recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// By flow.
    points: [Point; 2],
    is_on_wire: bool,
}

impl Place {
    const CLIENT: Self =
        Self { points: [Point::InterfaceDequeue, Point::InputEnqueue], is_on_wire: false };
    const SERVER: Self =
        Self { points: [Point::InputEnqueue, Point::InterfaceDequeue], is_on_wire: false };
    const LOOPBACK: Self = Self { points: [Point::InputEnqueue; 2], is_on_wire: false };
    const WIRE: Self = Self { points: [Point::InterfaceDequeue; 2], is_on_wire: true };

    /// Those of a connection: several where captures of several places were merged. The host of `nearest` is the
    /// first, if it is one.
    pub(crate) fn all(store: &ConnectionStore, nearest: Side) -> Vec<Self> {
        let hosts = match nearest {
            Side::Client => [Self::CLIENT, Self::SERVER],
            Side::Server => [Self::SERVER, Self::CLIENT],
        };
        let is_here = |place: &Self| {
            let mut flows = store.flows.iter().zip(place.points);
            flows.all(|(flow, point)| flow.at(point).iter().any(|it| place.has(it)))
        };
        // Captures of two hosts have both flows at point 5 too, at different places.
        let [client, server] = [0, 1].map(|flow| {
            store.flows[flow].at(Point::InterfaceDequeue).iter().any(|it| Self::CLIENT.has(it))
        });
        let is_loopback = !client && !server;
        let places = [hosts[0], hosts[1], Self::LOOPBACK, Self::WIRE].into_iter();
        places.filter(is_here).filter(|place| *place != Self::LOOPBACK || is_loopback).collect()
    }

    /// The point at which packets of a flow pass it.
    pub(crate) fn point_of(self, direction: Direction) -> Point {
        self.points[direction as usize]
    }

    /// Whether it is on the wire between the hosts.
    pub(crate) fn is_on_wire(self) -> bool {
        self.is_on_wire
    }

    fn has(self, pass: &Passage) -> bool {
        (pass.marks & marks::DERIVED != 0) == self.is_on_wire
    }

    /// Whether it is the host of that side.
    fn is_at(self, side: Side) -> bool {
        self == match side {
            Side::Client => Self::CLIENT,
            Side::Server => Self::SERVER,
        }
    }
}

/// A packet of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet<'a> {
    pub direction: Direction,
    pub pass: &'a Passage,
}

impl Packet<'_> {
    /// Whether it has data that its flow has for the first time.
    pub(crate) fn is_new_data(&self) -> bool {
        self.pass.len > 0 && self.pass.marks & marks::RETRANSMITTED == 0
    }

    /// Whether it is an acknowledgment with neither data nor a flag of its own.
    pub(crate) fn is_bare_ack(&self) -> bool {
        let others = tcp_flags::SYN | tcp_flags::FIN | tcp_flags::RST;
        self.pass.len == 0 && self.pass.tcp_flags & (tcp_flags::ACK | others) == tcp_flags::ACK
    }
}

/// The packets at a place, in time order.
pub(crate) fn packets(store: &ConnectionStore, place: Place) -> impl Iterator<Item = Packet<'_>> {
    let of = |direction: Direction| {
        store.flow(direction).at(place.point_of(direction)).iter().peekable()
    };
    let mut flows = [of(Direction::FromClient), of(Direction::FromServer)];
    let next_ns = |flow: &mut Peekable<Iter<'_, Passage>>| flow.peek().map(|pass| pass.at_ns);
    let all = std::iter::from_fn(move || {
        let [client, server] = &mut flows;
        let is_clients = match (next_ns(client), next_ns(server)) {
            (Some(client_ns), Some(server_ns)) => client_ns <= server_ns,
            (client_ns, _) => client_ns.is_some(),
        };
        let (direction, flow) = match is_clients {
            true => (Direction::FromClient, client),
            false => (Direction::FromServer, server),
        };
        flow.next().map(|pass| Packet { direction, pass })
    });
    all.filter(move |packet| place.has(packet.pass))
}

/// Round trips between a place and the two hosts, by the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RoundTrips {
    /// To the client and to the server; `None` where it is not known.
    to_ns: [Option<u64>; 2],
}

impl RoundTrips {
    /// Packets of a handshake at most, also where they are sent again.
    const PACKETS_MAX: usize = 32;

    pub(crate) fn of(store: &ConnectionStore, place: Place) -> Self {
        let (mut syn_ns, mut answer_ns, mut trips) = (None, None, Self::default());
        for Packet { direction, pass } in packets(store, place).take(Self::PACKETS_MAX) {
            let is_syn = pass.tcp_flags & tcp_flags::SYN != 0;
            match direction {
                // One that was sent twice does not show its answer (Karn's rule, RFC 6298 §3).
                Direction::FromClient if is_syn && syn_ns.is_some() => break,
                Direction::FromServer if is_syn && answer_ns.is_some() => break,
                Direction::FromClient if is_syn => syn_ns = Some(pass.at_ns),
                Direction::FromServer if is_syn => answer_ns = Some(pass.at_ns),
                Direction::FromClient if answer_ns.is_some() => {
                    let between = |from: Option<u64>, to: Option<u64>| to?.checked_sub(from?);
                    let to_client = between(answer_ns, Some(pass.at_ns));
                    trips.to_ns = [to_client, between(syn_ns, answer_ns)];
                    break;
                }
                _ => {}
            }
        }
        for side in [Side::Client, Side::Server].into_iter().filter(|side| place.is_at(*side)) {
            trips.to_ns[side as usize] = Some(0);
        }
        trips
    }

    /// From the place to the host of a side and back, nanoseconds.
    pub(crate) fn to(self, side: Side) -> Option<u64> {
        self.to_ns[side as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{StoreWindow, testing};

    fn places(text: &str) -> Vec<(Place, RoundTrips)> {
        let store = testing::store(text);
        let all = Place::all(&store, Side::Client).into_iter();
        all.map(|place| (place, RoundTrips::of(&store, place))).collect()
    }

    fn trips(to_ns: [u64; 2]) -> RoundTrips {
        RoundTrips { to_ns: to_ns.map(Some) }
    }

    #[test]
    fn a_capture_at_a_host_knows_the_round_trip_to_the_other_one() {
        let client = "0ns 4 syn | 30ns <5 syn ack=0 | 32ns 4 ack=0 | 40ns 4 +10";
        assert_eq!(places(client), [(Place::CLIENT, trips([0, 30]))]);
        let server = "15ns 5 syn | 17ns <4 syn ack=0 | 47ns 5 ack=0 | 55ns 5 +10";
        assert_eq!(places(server), [(Place::SERVER, trips([30, 0]))]);
        let both = places(&format!("{client} | {server}"));
        assert_eq!(both, [(Place::CLIENT, trips([0, 30])), (Place::SERVER, trips([30, 0]))]);
    }

    #[test]
    fn one_on_the_wire_has_a_part_of_it_on_either_side() {
        let wire = "0ns 4 syn derived | 10ns <4 syn ack=0 derived | 30ns 4 ack=0 derived";
        assert_eq!(places(wire), [(Place::WIRE, trips([20, 10]))]);
        let loopback = "0ns 5 syn | 2ns <5 syn ack=0 | 5ns 5 ack=0";
        assert_eq!(places(loopback), [(Place::LOOPBACK, trips([3, 2]))]);
    }

    #[test]
    fn a_handshake_that_was_sent_twice_or_not_seen_shows_no_round_trip() {
        let twice = "0ns 4 syn derived | 5ns 4 syn derived | 10ns <4 syn ack=0 derived | 30ns 4 ack=0 derived";
        assert_eq!(places(twice), [(Place::WIRE, RoundTrips::default())]);
        let late = "0ns 4 +9 | 5ns <5 ack=9";
        assert_eq!(places(late), [(Place::CLIENT, RoundTrips { to_ns: [Some(0), None] })]);
    }

    #[test]
    fn of_two_captures_the_senders_says_what_was_sent_again() {
        let count = |text: &str| retransmissions(&testing::store(text).flows[0]).count();
        let receivers = "3ns 5 +9 | 8ns 5 0..9 retransmitted | 8ns retransmit 0..9 code=1 derived";
        assert_eq!(count(receivers), 1);
        let senders = "0ns 4 +9 | 5ns 4 0..9 retransmitted | 5ns retransmit 0..9 code=1";
        assert_eq!(count(&format!("{senders} | {receivers}")), 1);
    }

    #[test]
    fn a_record_of_a_socket_shows_that_more_than_packets_is_known() {
        assert!(are_alone(&testing::store("0ns 4 +9 | 5ns <5 ack=9 | 9ns retransmit 0..9 code=1")));
        for more in ["1 +9", "2 +9", "7 +9", "8 +9", "tcp-state", "send-window", "accept", "drop"] {
            assert!(!are_alone(&testing::store(&format!("0ns 4 +9 | 5ns {more}"))), "{more}");
        }
        // What passed before a window shows it too.
        let mut store = testing::store("0ns 4 +9 | 5ns <5 ack=9");
        for (written, alone) in [(false, true), (true, false)] {
            let mut watched = [[false; 8]; 2];
            watched[1][Point::SendEnqueue.index()] = written;
            store.window = Some(StoreWindow { since_ns: 0, until_ns: 9, watched, floors: [0; 2] });
            assert_eq!(are_alone(&store), alone);
        }
    }
}
