//! Devices between the two ends of a flow on this host: of routers, bridges, and below tunnels.
//!
//! A hop is a device by which packets leave a host or namespace that is not their sender's, or leave it once more. Its
//! bytes are in transit from the device that received them there until its queue takes them, and then in its queue. All
//! of this lies between points 4 and 5 of the flow, so that it divides the `wire`.

use std::collections::BTreeMap;

use sockscope_record::{DevicePlace, Kind, Point};

use crate::curve::Curve;
use crate::interface::device_name;
use crate::queue::residences;
use crate::ranges::{self, Range};
use crate::{
    Device, Distribution, FlowCurves, FlowStore, HopAnalysis, LedgerPart, LedgerSpan,
    LengthSummary, NamespaceNames, Residence,
};

/// Passes that are searched for the last entry of bytes which were sent again: far more than a queue holds.
const SEARCHED_MAX: usize = 4096;

/// Passes of one device by point: time, first position, end.
#[derive(Default)]
struct Passes {
    points: [Vec<(u64, u64, u64)>; 8],
}

impl Passes {
    fn at(&self, point: Point) -> &[(u64, u64, u64)] {
        &self.points[point.index()]
    }

    /// Where bytes arrive: with the first of the two points that was recorded.
    fn arrivals(&self) -> &[(u64, u64, u64)] {
        let points = [Point::InputEnqueue, Point::InputDequeue];
        points.map(|point| self.at(point)).into_iter().find(|list| !list.is_empty()).unwrap_or(&[])
    }

    fn first_ns(&self) -> Option<u64> {
        self.points.iter().filter_map(|passes| passes.first()).map(|pass| pass.0).min()
    }
}

/// One hop, with the residences of its bytes by position.
#[derive(Debug)]
pub struct HopPath {
    /// Which.
    pub device: Device,
    /// The device of the same namespace by which the bytes arrived there; `None` where that was not recorded.
    pub arrived_by: Option<Device>,
    /// From their arrival until its queue, or without one the device itself, takes them.
    pub transit: Vec<Residence>,
    /// From entering its queue to leaving; empty without a queue.
    pub queue: Vec<Residence>,
    entered: Option<Curve>,
    left: Curve,
}

/// The hops of a flow, in the order in which their first bytes passed.
pub fn paths(flow: &FlowStore, namespaces: &NamespaceNames) -> Vec<HopPath> {
    let mut devices: BTreeMap<DevicePlace, Passes> = BTreeMap::new();
    for record in flow.events_of(Kind::Hop) {
        let Some(hop) = record.hop() else { continue };
        let Some(point) = hop.point.filter(|point| (2..6).contains(&point.index())) else {
            continue;
        };
        let passes = devices.entry(hop.device).or_default();
        passes.points[point.index()].push((record.at_ns, record.offset, record.end()));
    }
    let names: BTreeMap<_, _> =
        flow.events_of(Kind::HopDevice).filter_map(|record| record.hop_device()).collect();
    let named = |place: &DevicePlace| {
        let name = names.get(place).map(|octets| device_name(*octets));
        let namespace_name = namespaces.get(&place.namespace).cloned();
        Device { name, index: place.index, namespace: place.namespace, namespace_name }
    };
    let arrivals: Vec<_> = devices
        .iter()
        .filter(|(_, passes)| !passes.arrivals().is_empty())
        .map(|(place, passes)| (place, curve(passes.arrivals()), passes.arrivals()))
        .collect();
    let leaves = |passes: &Passes| !passes.at(Point::InterfaceDequeue).is_empty();
    let mut hops: Vec<_> = devices.iter().filter(|(_, passes)| leaves(passes)).collect();
    hops.sort_unstable_by_key(|(place, passes)| (passes.first_ns(), **place));
    let path = |(place, passes): (&DevicePlace, &Passes)| {
        let entering = passes.at(Point::InterfaceEnqueue);
        let leaving = passes.at(Point::InterfaceDequeue);
        let has_queue = !entering.is_empty();
        let taken = if has_queue { entering } else { leaving };
        let left = curve(leaving);
        let common =
            |arrived: &Curve| ranges::total(&ranges::intersection(&arrived.covered, &left.covered));
        let here = arrivals.iter().filter(|(from, ..)| from.namespace == place.namespace);
        let from = here.max_by_key(|(_, arrived, _)| common(arrived));
        let from = from.filter(|(_, arrived, _)| common(arrived) > 0);
        HopPath {
            device: named(place),
            arrived_by: from.map(|(from, ..)| named(from)),
            transit: from.map(|(.., arriving)| stays(arriving, taken)).unwrap_or_default(),
            queue: if has_queue { stays(entering, leaving) } else { Vec::new() },
            entered: has_queue.then(|| curve(entering)),
            left,
        }
    };
    hops.into_iter().map(path).collect()
}

fn curve(passes: &[(u64, u64, u64)]) -> Curve {
    Curve::of_ranges(passes.len(), passes.iter().copied())
}

/// Residences between two lists of passes, by position. Bytes that were sent again stay from their last entry on: those
/// before were dropped. Bytes that leave before they entered are left out: their order is unknown.
fn stays(entering: &[(u64, u64, u64)], leaving: &[(u64, u64, u64)]) -> Vec<Residence> {
    let entered = curve(entering);
    let is_repeated = entered.repeated_bytes > 0;
    let mut stays = residences(&entered, &curve(leaving), 0);
    for stay in stays.iter_mut().filter(|_| is_repeated) {
        let by_then = entering.partition_point(|pass| pass.0 <= stay.left_ns);
        let before = entering[..by_then].iter().rev().take(SEARCHED_MAX);
        let mut before = before.filter(|pass| pass.1 <= stay.offset && stay.offset < pass.2);
        stay.entered_ns = before.next().map_or(stay.entered_ns, |pass| pass.0);
    }
    stays.retain(|stay| stay.entered_ns <= stay.left_ns);
    stays
}

/// The hops of a flow with these curves and this ledger.
pub(crate) fn hops(
    flow: &FlowStore,
    curves: &FlowCurves,
    timeline: &[LedgerSpan],
    has_losses: bool,
    namespaces: &NamespaceNames,
) -> Vec<HopAnalysis> {
    if !flow.events_of(Kind::Hop).any(|_| true) {
        return Vec::new();
    }
    let beyond = &curves.seen_beyond()[Point::InterfaceDequeue.index()];
    let figures = |hop: HopPath| HopAnalysis {
        bytes: ranges::total(&hop.left.covered),
        transit_ns: delays(&hop.transit),
        queue_ns: delays(&hop.queue),
        queue_bytes: length(&hop.queue),
        residue_bytes: (!has_losses).then(|| residue(&hop, beyond)),
        ledger_transit_ns: in_ledger(&hop.transit, timeline),
        ledger_queue_ns: in_ledger(&hop.queue, timeline),
        device: hop.device,
        arrived_by: hop.arrived_by,
    };
    paths(flow, namespaces).into_iter().map(figures).collect()
}

fn delays(stays: &[Residence]) -> Option<Distribution> {
    Distribution::of(&mut stays.iter().map(Residence::delay_ns).collect::<Vec<_>>())
}

/// Bytes in a place over time, by the residences there: from each instant on, until the next one.
pub fn residence_lengths(stays: &[Residence]) -> impl Iterator<Item = (u64, u64)> + use<> {
    let mut changes: Vec<(u64, i128)> = stays
        .iter()
        .flat_map(|stay| {
            [(stay.entered_ns, i128::from(stay.len)), (stay.left_ns, -i128::from(stay.len))]
        })
        .collect();
    // At one instant bytes leave first: the rest of a cut packet is counted once.
    changes.sort_unstable();
    changes.into_iter().scan(0, |bytes: &mut i128, (at_ns, change)| {
        *bytes += change;
        Some((at_ns, u64::try_from(*bytes).unwrap_or(0)))
    })
}

/// From the first byte in to the last byte out.
fn length(stays: &[Residence]) -> Option<LengthSummary> {
    let steps: Vec<(u64, u64)> = residence_lengths(stays).collect();
    let (first, last) = (steps.first()?.0, steps.last()?.0);
    let areas =
        steps.windows(2).map(|pair| u128::from(pair[0].1) * u128::from(pair[1].0 - pair[0].0));
    Some(LengthSummary {
        mean: areas.sum::<u128>() as f64 / (last - first).max(1) as f64,
        max: steps.iter().map(|step| step.1).max().unwrap_or(0),
    })
}

fn residue(hop: &HopPath, beyond: &[Range]) -> u64 {
    let Some(entered) = &hop.entered else { return 0 };
    let only_left = ranges::minus(&hop.left.covered, &entered.covered);
    let stayed = ranges::minus(&entered.covered, &hop.left.covered);
    ranges::total(&only_left) + ranges::total(&ranges::intersection(&stayed, beyond))
}

/// Time of the ledger's `wire` in which the oldest byte was in one of these residences.
fn in_ledger(stays: &[Residence], timeline: &[LedgerSpan]) -> u64 {
    let on_wire = timeline.iter().filter(|span| span.part == LedgerPart::Wire);
    let times = on_wire.filter_map(|span| {
        let after = stays.partition_point(|stay| stay.offset + stay.len <= span.offset);
        let stay = stays.get(after).filter(|stay| stay.offset <= span.offset)?;
        let until_ns = stay.left_ns.min(span.end_ns);
        Some(until_ns.saturating_sub(stay.entered_ns.max(span.start_ns)))
    });
    times.sum()
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::testing;

    /// The hops of the client's flow, one a line.
    fn shown(text: &str) -> String {
        let analysis = testing::analyze(text);
        let [flow, _] = &analysis.flows;
        let p50 = |of: &Option<Distribution>| of.map(|of| of.p50);
        let line = |hop: &HopAnalysis| {
            let by = hop.arrived_by.as_ref().map_or("-".to_owned(), Device::shown);
            format!(
                "{by} > {} of {}: {} B, transit {:?}, queue {:?}, {:?} B at most, residue {:?}, ledger {} + {} of {}",
                hop.device.shown(),
                hop.device.namespace,
                hop.bytes,
                p50(&hop.transit_ns),
                p50(&hop.queue_ns),
                hop.queue_bytes.map(|it| it.max),
                hop.residue_bytes,
                hop.ledger_transit_ns,
                hop.ledger_queue_ns,
                flow.ledger.ns[LedgerPart::Wire as usize],
            )
        };
        flow.hops.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_routers_queue_divides_the_wire() {
        // Two packets; the second waits for the first.
        let text = "0ns 1-4 +100 | 1ns hop code=5 extra=2 detail=9 0..100 | 3ns hop code=3 extra=3 detail=9 0..100
            4ns hop code=4 extra=3 detail=9 0..100 | 5ns 5-8 +100
            0ns 1-4 +100 | 2ns hop code=5 extra=2 detail=9 100..200 | 3ns hop code=3 extra=3 detail=9 100..200
            50ns hop code=4 extra=3 detail=9 100..200 | 60ns 5-8 +100";
        assert_snapshot!(shown(text), @"device 2 > device 3 of 9: 200 B, transit Some(1), queue Some(1), Some(200) B at most, residue Some(0), ledger 2 + 46 of 60");
    }

    #[test]
    fn a_namespace_with_a_name_has_it_in_each_place() {
        let named = |name: Option<&str>| Device {
            name: Some("r1".to_owned()),
            index: 3,
            namespace: 9,
            namespace_name: name.map(str::to_owned),
        };
        assert_eq!(named(None).placed(), "r1 of network namespace 9");
        assert_eq!(named(Some("shop")).placed(), "r1 of network namespace shop");
        let text = "0ns 1-4 +100 | 10ns hop code=4 extra=3 detail=9 0..100
            20ns hop code=4 extra=3 detail=8 0..100 | 40ns 5-8 +100";
        let store = testing::store(text);
        let names = NamespaceNames::from([(9, "shop".to_owned())]);
        let hops = paths(&store.flows[0], &names);
        let names: Vec<_> = hops.iter().map(|hop| hop.device.shown_namespace()).collect();
        assert_eq!(names, [Some("shop".to_owned()), Some("8".to_owned())]);
    }

    #[test]
    fn bytes_sent_again_stand_in_the_queue_since_they_were() {
        let text = "0ns 1-4 +100 | 10ns hop code=3 extra=3 detail=9 0..100
            500ns 4 0..100 retransmitted | 510ns hop code=3 extra=3 detail=9 0..100
            530ns hop code=4 extra=3 detail=9 0..100 | 540ns 5-8 +100";
        assert_snapshot!(shown(text), @"- > device 3 of 9: 100 B, transit None, queue Some(20), Some(100) B at most, residue Some(0), ledger 0 + 20 of 540");
    }

    #[test]
    fn hops_are_in_the_order_of_their_first_bytes_and_a_device_may_have_no_queue() {
        let text = "0ns 1-4 +100 | 10ns hop code=4 extra=7 detail=8 0..100 | 20ns hop code=5 extra=2 detail=9 0..100
            25ns hop code=4 extra=3 detail=9 0..100 | 30ns 5-8 +100";
        assert_snapshot!(shown(text), @r"
        - > device 7 of 8: 100 B, transit None, queue None, None B at most, residue Some(0), ledger 0 + 0 of 30
        device 2 > device 3 of 9: 100 B, transit Some(5), queue None, None B at most, residue Some(0), ledger 5 + 0 of 30
        ");
    }

    #[test]
    fn what_leaves_before_it_entered_has_no_known_time() {
        let text = "0ns 1-4 +100 | 20ns hop code=4 extra=3 detail=9 0..100 | 30ns hop code=3 extra=3 detail=9 0..100 | 40ns 5-8 +100";
        assert_snapshot!(shown(text), @"- > device 3 of 9: 100 B, transit None, queue None, None B at most, residue Some(0), ledger 0 + 0 of 40");
    }

    #[test]
    fn bytes_that_left_no_queue_are_its_residue_if_they_went_on() {
        let text = "0ns 1-4 +100 | 10ns hop code=3 extra=3 detail=9 0..100 | 20ns hop code=4 extra=3 detail=9 0..60 | 40ns 5-8 +100";
        assert_snapshot!(shown(text), @"- > device 3 of 9: 60 B, transit None, queue Some(10), Some(60) B at most, residue Some(40), ledger 0 + 10 of 40");
    }
}
