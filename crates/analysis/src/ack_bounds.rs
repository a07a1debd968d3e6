//! Upper bounds of the stages behind point 4, by the acknowledgments that a capture has.
//!
//! Data is in the receive queue (point 7) before its acknowledgment leaves the receiver's host. So the time from a point
//! of the path to the acknowledgment bounds each stage between that point and point 7. Where both are seen at the
//! receiver's host, the bound is the narrowest: the receiver's own delay.

use sockscope_record::{Direction, Protocol, Stage, tcp_flags};

use crate::flow_curves::FlowCurves;
use crate::packets::{Place, are_alone, packets};
use crate::{ConnectionStore, Distribution};

/// Stages from point 4 to point 7.
const BOUNDED: [Stage; 3] = [Stage::Wire, Stage::InputQueue, Stage::TcpInput];

/// For each stage, in the order of [`Stage::ALL`], the most that its delays can be, by run of bytes; `None` where
/// nothing bounds it, where it was measured, and where more than packets is known.
pub(crate) fn at_most_ns(
    store: &ConnectionStore,
    direction: Direction,
    curves: &FlowCurves,
) -> [Option<Distribution>; 8] {
    let mut bounds = [None; 8];
    if store.connection.protocol != Protocol::Tcp || !are_alone(store) {
        return bounds;
    }
    // The receiver's host is the nearest place to what is bounded.
    let Some(place) = Place::all(store, direction.receiver()).first().copied() else {
        return bounds;
    };
    let from = place.point_of(direction);
    let Some(most) = times_to_acknowledgment(store, direction, curves, place) else {
        return bounds;
    };
    for stage in BOUNDED.into_iter().filter(|stage| !curves.is_observed(*stage)) {
        // A capture on the wire does not show when the packet left its host.
        let begins_before = stage.enter() < from || stage == Stage::Wire && place.is_on_wire();
        bounds[stage as usize] = (!begins_before).then_some(most);
    }
    bounds
}

/// From the first passage of each run of bytes to the first acknowledgment of all of it, at one place.
fn times_to_acknowledgment(
    store: &ConnectionStore,
    direction: Direction,
    curves: &FlowCurves,
    place: Place,
) -> Option<Distribution> {
    let passed = curves.at(place.point_of(direction));
    let mut waiting = passed.seen.iter().peekable();
    let mut times = Vec::with_capacity(passed.seen.len());
    for packet in packets(store, place).filter(|packet| packet.direction != direction) {
        let flags = packet.pass.tcp_flags & (tcp_flags::ACK | tcp_flags::RST);
        if flags != tcp_flags::ACK {
            continue;
        }
        while let Some(run) = waiting.next_if(|run| run.end() <= packet.pass.acknowledged()) {
            // A run that the capture missed at first, and has only of a later transmission, is not bounded.
            times.extend(packet.pass.at_ns.checked_sub(run.at_ns));
        }
    }
    Distribution::of(&mut times)
}

#[cfg(test)]
mod tests {
    use sockscope_record::{Connection, Stage};

    use crate::testing;

    /// The largest bounds of the client's data, as `wire 7 input_queue 7`, in nanoseconds.
    fn bounds(text: &str) -> String {
        let connection = Connection { both_ends_here: false, ..testing::connection(1) };
        let analysis = testing::analyze_of(connection, text);
        let stages = analysis.flows[0].stages.iter();
        let shown = stages.filter_map(|stage| {
            Some(format!("{} {}", stage.stage.name(), stage.delay_at_most_ns?.max))
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    const AT_CLIENT: &str =
        "10ns 4 +100 | 12ns 4 +100 | 40ns <5 ack=200 | 50ns 4 +100 | 57ns <5 ack=300";
    const AT_SERVER: &str =
        "20ns 5 +100 | 22ns 5 +100 | 29ns <4 ack=200 | 55ns 5 +100 | 56ns <4 ack=300";

    #[test]
    fn an_acknowledgment_bounds_the_way_to_the_receive_queue_from_where_the_data_was_seen() {
        assert_eq!(bounds(AT_CLIENT), "wire 30 input_queue 30 tcp_input 30");
        assert_eq!(bounds(AT_SERVER), "input_queue 9 tcp_input 9");
        let on_wire = AT_CLIENT.replace("<5", "<4").replace(" |", " derived |") + " derived";
        assert_eq!(bounds(&on_wire), "input_queue 30 tcp_input 30");
    }

    #[test]
    fn two_captures_leave_the_wire_to_its_measure_and_bound_the_rest_at_the_receiver() {
        let both = format!("{AT_CLIENT} | {AT_SERVER}");
        assert_eq!(bounds(&both), "input_queue 9 tcp_input 9");
        let connection = Connection { both_ends_here: false, ..testing::connection(1) };
        let wire = &testing::analyze_of(connection, &both).flows[0].stages[Stage::Wire as usize];
        assert_eq!(wire.delay_ns.unwrap().max, 10);
    }

    #[test]
    fn what_is_sent_again_is_bounded_from_its_first_passage() {
        let again = "10ns 4 +100 | 90ns 4 0..100 retransmitted | 95ns <5 ack=100";
        assert_eq!(bounds(again), "wire 85 input_queue 85 tcp_input 85");
    }

    #[test]
    fn nothing_is_bounded_without_an_acknowledgment_and_where_the_receiver_is_seen() {
        assert_eq!(bounds("10ns 4 +100 | 12ns <5 ack=0"), "");
        assert_eq!(bounds(&format!("{AT_CLIENT} | 30ns 7 +100")), "");
    }
}
