//! Drivers of the interfaces: frames out, frames in, and their interrupts.

use sockscope_record::{Kind, Point, Record, marks};
use sockscope_stack::{Effect, Packet, Routine};

use super::Host;
use super::device::{Device, HardInterrupt};
use crate::cpu::{End, Level, Mask};
use crate::interrupts::Interrupts;
use crate::link::FrameId;
use crate::machine::Driver;
use crate::shared::Shared;

/// Frames that a device holds for a CPU that does not take them.
const RECEIVED_FRAMES_MAX: usize = 32;

impl Host {
    pub(crate) fn attach(&mut self, interface: u8, station: u16) {
        if let Some(Some(device)) = self.devices.get_mut(usize::from(interface)) {
            device.station = station;
        }
    }

    /// Frames that arrived while the device could hold no more.
    pub fn overruns(&self) -> u64 {
        self.devices.iter().flatten().map(|device| device.overruns).sum()
    }

    fn device(&mut self, interface: u8) -> Option<&mut Device> {
        self.devices.get_mut(usize::from(interface))?.as_mut()
    }

    fn device_has_room(&mut self, interface: u8) -> bool {
        let has_room =
            |device: &mut Device| device.starting + device.ring.len() < device.frames_max;
        self.device(interface).is_some_and(has_room)
    }

    /// A packet enters the interface queue (point 3), and the driver starts if it is idle.
    pub(super) fn output(
        &mut self,
        now_ns: u64,
        level: Level,
        interface: u8,
        packet: Packet,
        shared: &mut Shared,
    ) {
        let mark = self.stack.seen(packet.mark);
        self.meter.begin();
        let is_queued = self.stack.interface_enqueue(interface, packet, &mut self.meter);
        if !is_queued {
            // The stack has noted why it was dropped.
            self.begin_step(now_ns, level, Mask::All, End::Nothing);
            return;
        }
        if let Some(mark) = mark {
            self.hand_over(now_ns, mark.record(Point::InterfaceEnqueue), shared);
        }
        self.meter.charge_probe(Point::InterfaceEnqueue, mark.is_some());
        if self.device_has_room(interface) {
            self.start(now_ns, level, interface, shared);
        } else if self.meter.elapsed_ns() > 0 {
            self.begin_step(now_ns, level, Mask::All, End::Nothing);
        }
    }

    /// The driver takes a packet from the queue (point 4); the meter has begun a step.
    fn start(&mut self, now_ns: u64, level: Level, interface: u8, shared: &mut Shared) {
        let id = shared.frames.make();
        let frame = shared.frames.frame_mut(id);
        let before = self.meter.elapsed_ns();
        if !self.stack.interface_start(interface, frame, &mut self.meter) {
            shared.frames.release(id);
            self.begin_step(now_ns, level, Mask::All, End::Nothing);
            return;
        }
        let mark = self.stack.seen(frame.mark);
        if let Some(mark) = mark {
            let taken_ns = before + u64::from(self.machine.costs.of(Routine::Enstart).call_ns);
            self.meter.effect_at(taken_ns, Effect::Observed(mark.record(Point::InterfaceDequeue)));
        }
        self.meter.charge_probe(Point::InterfaceDequeue, mark.is_some());
        self.begin_step(now_ns, level, Mask::All, End::Transmit(interface, id));
        if let Some(device) = self.device(interface) {
            device.starting += 1;
        }
    }

    /// The driver has handed the device a frame.
    pub(super) fn transmit(
        &mut self,
        now_ns: u64,
        interface: u8,
        frame: FrameId,
        shared: &mut Shared,
    ) {
        let Driver { start_ns, gap_ns, .. } = self.machine.driver;
        let Some(device) = self.device(interface) else { return };
        device.starting -= 1;
        device.ring.push_back(frame);
        assert!(device.starting + device.ring.len() <= device.frames_max, "{device:?}");
        if !device.is_sending {
            device.is_sending = true;
            let sent_ns = device.sent_ns;
            let earliest_ns = if sent_ns == 0 { 0 } else { sent_ns + gap_ns };
            let at_ns = (now_ns + start_ns).max(earliest_ns);
            device.offer(now_ns, at_ns, frame, shared);
        }
    }

    /// The frame being sent has gone; whether the host has to run.
    pub(crate) fn sent(&mut self, now_ns: u64, interface: u8, shared: &mut Shared) -> bool {
        let Driver { start_ns, gap_ns, .. } = self.machine.driver;
        let Some(device) = self.device(interface) else { return false };
        assert!(device.is_sending, "a frame has gone that was not with the link");
        device.ring.pop_front();
        device.sent_ns = now_ns;
        let next = device.ring.front().copied();
        device.is_sending = next.is_some();
        if let Some(frame) = next {
            // The device fetches each frame's beginning, as it does that of the first in its ring.
            device.offer(now_ns, now_ns + start_ns.max(gap_ns), frame, shared);
        }
        self.interrupt(HardInterrupt::Sent(interface));
        true
    }

    /// The frame being sent has collided; whether the host has to run.
    pub(crate) fn collided(&mut self) -> bool {
        let restarts = self.machine.driver.restarts_in_software;
        if restarts {
            self.interrupt(HardInterrupt::Collided);
        }
        restarts
    }

    /// A frame has arrived; whether the host has to run.
    pub(crate) fn arrived(&mut self, interface: u8, frame: FrameId, shared: &mut Shared) -> bool {
        let Some(device) = self.device(interface) else { return false };
        if device.received >= RECEIVED_FRAMES_MAX {
            device.overruns += 1;
            shared.frames.release(frame);
            return false;
        }
        device.received += 1;
        self.interrupt(HardInterrupt::Received(interface, frame));
        true
    }

    pub(super) fn hard_interrupt(
        &mut self,
        now_ns: u64,
        interrupt: HardInterrupt,
        shared: &mut Shared,
    ) {
        self.meter.begin();
        match interrupt {
            HardInterrupt::Sent(interface) => {
                let waits = self.stack.transmit_done(interface, &mut self.meter);
                if waits && self.device_has_room(interface) {
                    self.start(now_ns, Level::Hard, interface, shared);
                    return;
                }
            }
            HardInterrupt::Clock => {
                let len_ns = self.machine.cpu.clock_ns;
                self.cpu.begin(now_ns, Level::Hard, Mask::All, len_ns, End::Nothing);
                return;
            }
            HardInterrupt::Collided => self.stack.interface_restart(&mut self.meter),
            HardInterrupt::Received(interface, frame) => {
                self.receive(now_ns, interface, frame, shared);
                return;
            }
        }
        self.begin_step(now_ns, Level::Hard, Mask::All, End::Nothing);
    }

    /// The receive interrupt: at its end the packet is in the IP input queue (point 5).
    fn receive(&mut self, now_ns: u64, interface: u8, id: FrameId, shared: &mut Shared) {
        if let Some(device) = self.device(interface) {
            assert!(device.received > 0, "a frame is taken that was not received");
            device.received -= 1;
        }
        let frame = shared.frames.frame(id);
        let (stack, meter) = (&mut self.stack, &mut self.meter);
        let is_taken = stack.receive_frame(interface, frame, meter);
        if is_taken {
            let mark = stack.seen(frame.mark);
            meter.probe(Point::InputEnqueue, mark.map(|mark| mark.record(Point::InputEnqueue)));
        }
        shared.frames.release(id);
        self.begin_step(now_ns, Level::Hard, Mask::All, End::Nothing);
    }

    /// A packet passes the loopback interface: points 3, 4 and 5 are one moment. A probe of the kernel is at
    /// the third alone, since the interface has no queue.
    pub(super) fn loop_back(
        &mut self,
        now_ns: u64,
        level: Level,
        interface: u8,
        packet: Packet,
        shared: &mut Shared,
    ) {
        let mark = packet.mark;
        if let Some(mark) = mark {
            let mut record = mark.record(Point::InterfaceEnqueue);
            record.marks |= marks::NO_QUEUE | marks::LOOPBACK;
            self.record(now_ns, record, shared);
            self.record(now_ns, Record { kind: Kind::InterfaceDequeue, ..record }, shared);
        }
        self.meter.begin();
        let is_taken = self.stack.loopback_input(interface, packet, &mut self.meter);
        if let Some(mark) = mark.filter(|_| is_taken) {
            let mut record = mark.record(Point::InputEnqueue);
            record.marks |= marks::LOOPBACK;
            self.hand_over(now_ns, record, shared);
        }
        if is_taken {
            // Its only effect is the soft interrupt.
            self.meter.drain_effects();
            self.pending.add(Interrupts::NET);
            self.meter.charge_probe(Point::InputEnqueue, mark.is_some());
        }
        if !is_taken || self.meter.elapsed_ns() > 0 {
            self.begin_step(now_ns, level, Mask::All, End::Nothing);
        }
    }
}
