//! Devices of a flow's path: those of its two ends, and the hops between them.
//!
//! The probes know a hop by its network namespace. Within the namespace of an end a segment may pass several devices, as
//! a bridge and its port, or a tunnel and the device below it: there the end's own is the first one.

use std::collections::HashMap;

use sockscope_record::{DevicePlace, Hop, Kind, Point, Record};

use super::hit::{Hit, point_of_raw};
use super::positions::Positions;
use crate::layout::{RawHop, RawTcpPacket, constants as raw};

/// Devices of a flow that are named, at most: those of one path are fewer.
const NAMED_MAX: usize = 32;
/// Devices remembered with their names, at most; with more all are forgotten. The probes remember as many.
const DEVICES_MAX: usize = 1024;

/// The own device of one end of a flow.
#[derive(Default)]
pub(super) struct OwnDevice {
    index: u32,
    /// Furthest byte that passed it.
    reached: u64,
    /// Furthest acknowledgment that passed it.
    acknowledged: u64,
}

impl OwnDevice {
    /// A segment up to `end` passes a device of the end's namespace; whether that is the end's own. Bytes or an
    /// acknowledgment that passed none before show the own one, also where the route has changed.
    pub(super) fn is_passed(&mut self, index: u32, end: u64, acknowledged: u64) -> bool {
        if index == 0 {
            return true;
        }
        let is_first = end > self.reached || acknowledged > self.acknowledged;
        if is_first || self.index == 0 {
            self.index = index;
        }
        if self.index != index {
            return false;
        }
        self.reached = self.reached.max(end);
        self.acknowledged = self.acknowledged.max(acknowledged);
        true
    }
}

impl RawHop {
    fn is_input(&self) -> bool {
        self.at == raw::RAW_INPUT || self.at == raw::RAW_RECEIVE
    }

    /// The same as the passage of an end's device.
    fn at_end(&self) -> RawTcpPacket {
        let Self { stamp, at_ns, flow, seq, len, ack, window, tcp_flags, marks, device, .. } =
            *self;
        let (kind, packet) = (self.at, RawTcpPacket::default());
        let head = RawTcpPacket { stamp, at_ns, flow, kind, marks, ..packet };
        RawTcpPacket { seq, len, ack, window, tcp_flags, device, ..head }
    }
}

/// A hit in a namespace that the probes did not know as that of the end, as a packet of that end: `None` of a hop. A
/// connection that was open before the recording has its ends one after the other.
pub(super) fn packet_of_end(raw: &RawHop, namespaces: [u32; 2]) -> Option<RawTcpPacket> {
    let sender = (raw.flow & 1) as usize;
    let namespace = namespaces[if raw.is_input() { 1 - sender } else { sender }];
    (namespace != 0 && namespace == raw.netns).then(|| raw.at_end())
}

/// Data passes a hop.
pub(super) fn passed(hit: &mut Hit<'_>, positions: &mut Positions, raw: &RawHop) {
    let Some(offset) = positions.claimed(raw.seq) else {
        hit.has_no_position = true;
        return;
    };
    let device = DevicePlace { namespace: raw.netns, index: raw.device };
    record(hit, point_of_raw(raw.at), (offset, raw.len), device);
}

/// Bytes pass a device of this namespace, which is not the own one of its end.
pub(super) fn record(
    hit: &mut Hit<'_>,
    point: Option<Point>,
    (offset, len): (u64, u32),
    device: DevicePlace,
) {
    if len > 0 {
        let passed = hit.record(Kind::Hop, offset, len);
        hit.out.push(passed.with_hop(Hop { point, device }));
    }
}

/// Names of devices.
#[derive(Default)]
pub(super) struct DeviceNames(HashMap<DevicePlace, [u8; 16]>);

impl DeviceNames {
    pub(super) fn insert(&mut self, device: DevicePlace, name: [u8; 16]) {
        if self.0.len() == DEVICES_MAX {
            self.0.clear();
        }
        self.0.insert(device, name);
    }
}

/// The devices of a flow's hops, and whether each was named.
#[derive(Default)]
pub(super) struct HopNames(Vec<(DevicePlace, bool)>);

impl HopNames {
    /// A record of the name of a device that a record shows, at its first pass with a known name.
    pub(super) fn of(&mut self, record: &Record, names: &DeviceNames) -> Option<Record> {
        let device = record.hop()?.device;
        let index = self.0.iter().position(|(known, _)| *known == device).or_else(|| {
            let has_room = self.0.len() < NAMED_MAX;
            has_room.then(|| {
                self.0.push((device, false));
                self.0.len() - 1
            })
        })?;
        let (_, is_named) = &mut self.0[index];
        let name = names.0.get(&device).filter(|_| !*is_named)?;
        *is_named = true;
        let Record { at_ns, flow, cpu, .. } = *record;
        let named = Record { at_ns, flow, cpu, ..Record::default() };
        Some(named.with_hop_device(device, *name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_device_is_the_first_that_new_bytes_pass() {
        let mut own = OwnDevice::default();
        // A bridge, then its port; the port again, later; the next bytes; and an acknowledgment alone.
        let passes = [(5, 100, 0), (2, 100, 0), (2, 100, 0), (5, 200, 0), (2, 200, 0), (2, 200, 7)];
        let is_own = passes.map(|(index, end, ack)| own.is_passed(index, end, ack));
        assert_eq!(is_own, [true, false, false, true, false, true]);
    }

    #[test]
    fn bytes_sent_again_by_a_new_route_wait_for_new_ones() {
        let mut own = OwnDevice::default();
        let passes = [(2, 100), (3, 100), (3, 200), (3, 100), (2, 100)];
        assert_eq!(
            passes.map(|(it, end)| own.is_passed(it, end, 0)),
            [true, false, true, true, false]
        );
    }
}
