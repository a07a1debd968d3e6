//! Traces written and decoded again.

use prost::Message;

use super::*;

/// A trace as its packets.
#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

fn written(events: impl FnOnce(&mut Writer<&mut Vec<u8>>) -> io::Result<()>) -> Vec<TracePacket> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, 5, 1_000).unwrap();
    events(&mut writer).unwrap();
    writer.finish().unwrap();
    Trace::decode(&file[..]).unwrap().packet
}

#[test]
fn a_name_is_written_with_its_first_event_alone() {
    let packets = written(|writer| {
        let track = writer.track(&Track { name: "ledger", ..Track::default() })?;
        let event = Event { name: "wire", category: "ledger", ..Event::default() };
        writer.slice(track, (10, 20), event)?;
        writer.slice(track, (20, 30), event)?;
        writer.instant(track, 30, Event { name: "drop", ..event })
    });
    let names = packets.iter().filter_map(|packet| {
        let event = packet.track_event.as_ref()?;
        let data = packet.interned_data.as_ref();
        let new = data.and_then(|data| data.event_names.first()?.name.clone());
        Some((packet.timestamp?, u64::from(event.kind?), event.name_iid, new))
    });
    assert_eq!(
        names.collect::<Vec<_>>(),
        [
            (10, SLICE_BEGIN, Some(1), Some("wire".to_owned())),
            (20, SLICE_END, None, None),
            (20, SLICE_BEGIN, Some(1), None),
            (30, SLICE_END, None, None),
            (30, INSTANT, Some(2), Some("drop".to_owned())),
        ]
    );
}

#[test]
fn tracks_are_a_tree_and_the_first_packet_relates_the_clocks() {
    let packets = written(|writer| {
        let top = writer.track(&Track { name: "connection", ..Track::default() })?;
        let scale = Some("flow 2");
        let track = Track {
            name: "send",
            parent: Some(top),
            rank: 3,
            bytes_on_scale: scale,
            description: "",
        };
        let counter = writer.track(&track)?;
        writer.count(counter, 7, 300)
    });
    let clocks = &packets[0].clock_snapshot.as_ref().unwrap().clocks;
    let clocks: Vec<_> = clocks.iter().map(|it| (it.clock_id, it.timestamp)).collect();
    assert_eq!(clocks, [(Some(1), Some(1_000)), (Some(3), Some(5))]);
    let counter = packets[2].track_descriptor.as_ref().unwrap();
    assert_eq!(
        (counter.uuid, counter.parent_uuid, counter.sibling_order_rank),
        (Some(2), Some(1), Some(3))
    );
    assert_eq!(packets[3].track_event.as_ref().unwrap().counter_value, Some(300));
    assert!(packets.iter().all(|packet| packet.trusted_packet_sequence_id == Some(WRITER)));
}
