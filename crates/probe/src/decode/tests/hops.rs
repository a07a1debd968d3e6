//! Devices between the two ends: routers, bridges and tunnels of this host.

use sockscope_record::{DevicePlace, Hop, Kind, Point, Record};

use super::super::Decoder;
use super::{check, check_with, feed, opened, reported, state};
use crate::layout::{RawEvent, constants as raw};

const ROUTER: u32 = 70;

fn device(number: u32, netns: u32, name: &[u8]) -> RawEvent {
    let kind = u32::from(raw::EVENT_DEVICE);
    let mut event = RawEvent { kind, number, netns, ..RawEvent::default() };
    for (to, from) in event.comm.iter_mut().zip(name) {
        *to = *from as _;
    }
    event
}

/// As [`opened`], with the ends in network namespaces 50 and 60.
fn opened_between_namespaces() -> Decoder {
    let mut decoder = opened();
    decoder.event(&RawEvent { netns: 50, ..state(2, 1, 1000, 5000) });
    decoder.event(&RawEvent { netns: 60, ..state(3, 1, 5000, 1000) });
    reported(&mut decoder).clear();
    decoder
}

type Passes = Vec<(u64, Hop)>;
type Names = Vec<(u32, String)>;

/// Passes of hops, and names of their devices, among the records decoded since the last call.
fn hops(decoder: &mut Decoder) -> (Passes, Names) {
    let records: Vec<Record> = reported(decoder).drain(..).collect();
    let passes = records.iter().filter_map(|it| Some((it.at_ns, it.hop()?))).collect();
    let names = records.iter().filter_map(Record::hop_device);
    let text =
        |octets: [u8; 16]| String::from_utf8_lossy(&octets).trim_end_matches('\0').to_owned();
    (passes, names.map(|(place, octets)| (place.index, text(octets))).collect())
}

#[test]
fn a_router_is_a_hop_and_its_passes_are_of_no_point() {
    check(
        "10 transmit 1000+100 device=2 | 20 hop-input 1000+100 device=2 netns=70
         30 hop-receive 1000+100 device=2 netns=70 | 40 hop-queued 1000+100 device=3 netns=70
         90 hop-transmit 1000+100 device=3 netns=70 | 91 input 1000+100 device=2
         92 receive 1000+100 device=2",
        "10 2d 3n 4n 0+100
         20 Hop 0+100
         30 Hop 0+100
         40 Hop 0+100
         90 Hop 0+100
         91 5 0+100
         92 6 0+100",
    );
}

#[test]
fn a_hop_is_named_once_and_as_soon_as_its_name_is_known() {
    let mut decoder = opened();
    feed(&mut decoder, "20 hop-input 1000+100 device=2 netns=70");
    decoder.event(&device(2, ROUTER, b"r0"));
    feed(
        &mut decoder,
        "30 hop-input 1100+100 device=2 netns=70 | 40 hop-input 1200+9 device=2 netns=70",
    );
    let (passes, names) = hops(&mut decoder);
    let place = DevicePlace { namespace: ROUTER, index: 2 };
    let hop = Hop { point: Some(Point::InputEnqueue), device: place };
    assert_eq!(passes, [(20, hop), (30, hop), (40, hop)]);
    assert_eq!(names, [(2, "r0".to_owned())]);
}

#[test]
fn a_bridge_of_the_senders_host_is_its_own_device_and_the_port_a_hop() {
    let mut decoder = opened_between_namespaces();
    feed(
        &mut decoder,
        "10 transmit 1000+100 device=5 | 11 queued 1000+100 device=2 again | 19 transmit 1000+100 device=2 again",
    );
    let points: Vec<_> = reported(&mut decoder).iter().map(|it| (it.at_ns, it.kind)).collect();
    let own = [Kind::SendDequeue, Kind::InterfaceEnqueue, Kind::InterfaceDequeue];
    assert!(own.into_iter().all(|kind| points.contains(&(10, kind))), "{points:?}");
    let (passes, _) = hops(&mut decoder);
    let place = DevicePlace { namespace: 50, index: 2 };
    let expected = [(11, Point::InterfaceEnqueue), (19, Point::InterfaceDequeue)];
    let expected =
        expected.map(|(at_ns, point)| (at_ns, Hop { point: Some(point), device: place }));
    assert_eq!(passes, expected);
}

#[test]
fn an_acknowledgment_at_the_port_of_a_bridge_is_no_second_one() {
    check(
        "10 <transmit 5000 ack=1100 device=5 | 11 <transmit 5000 ack=1100 device=2
         12 <transmit 5000 ack=1200 device=2",
        "10 <3n 4n 0+0
         12 <3n 4n 0+0",
    );
}

#[test]
fn bytes_of_a_new_route_are_those_of_the_senders_own_device() {
    check(
        "10 transmit 1000+100 device=2 | 20 transmit 1100+100 device=3 | 30 transmit 1200+100 device=3",
        "10 2d 3n 4n 0+100
         20 2d 3n 4n 100+100
         30 2d 3n 4n 200+100",
    );
}

/// The probes learn the ends of a connection that was open before one after the other.
#[test]
fn a_pass_in_the_namespace_of_its_end_is_no_hop() {
    check_with(
        opened_between_namespaces(),
        "20 hop-input 1000+100 device=2 netns=60 | 21 hop-receive 1000+100 device=2 netns=60
         30 <hop-input 5000+100 device=2 netns=60",
        "20 5 0+100
         21 6 0+100
         30 <Hop 0+100",
    );
}

#[test]
fn a_hop_moves_no_position() {
    check(
        "10 hop-input 900000+100 device=2 netns=70 | 20 transmit 1000+100 device=2",
        "10 Hop 899000+100
         20 2d 3n 4n 0+100",
    );
}
