//! A line between two hosts: a rate and a delay, each way by itself.

use super::context::{LinkContext, LinkCounts, Station, serial_ns};
use super::faults::FaultSource;
use super::frames::FrameId;
use super::port::Port;
use crate::event::Event;

/// A line between two stations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointToPointConfig {
    /// Bits per second each way; 0 for no limit.
    pub bits_per_s: u64,
    /// From the last bit sent to the last bit received, in nanoseconds.
    pub delay_ns: u64,
}

#[derive(Debug)]
struct Sender {
    port: Port,
    frame: Option<FrameId>,
}

#[derive(Debug)]
pub(crate) struct PointToPoint {
    config: PointToPointConfig,
    senders: Vec<Sender>,
    faults: FaultSource,
    pub(super) counts: LinkCounts,
}

impl PointToPoint {
    pub(super) fn new(
        config: PointToPointConfig,
        stations: &[Station],
        faults: FaultSource,
    ) -> Self {
        let senders = stations.iter().map(|station| Sender { port: station.port, frame: None });
        Self { config, senders: senders.collect(), faults, counts: LinkCounts::default() }
    }

    pub(super) fn accept(&mut self, station: u16, frame: FrameId) {
        let sender = &mut self.senders[usize::from(station)];
        assert!(sender.frame.is_none(), "the device sends already");
        sender.frame = Some(frame);
    }

    pub(super) fn attempt(&mut self, station: u16, context: &mut LinkContext<'_>) {
        let sender = &mut self.senders[usize::from(station)];
        let port = sender.port;
        let Some(frame) = sender.frame.take() else { return };
        let bytes = context.frames.frame(frame).bytes.len() as u64;
        let serial_ns = serial_ns(bytes, self.config.bits_per_s);
        let sent_ns = context.now_ns + serial_ns;
        self.counts.frames += 1;
        self.counts.bytes += bytes;
        self.counts.busy_ns += serial_ns;
        context.events.schedule(sent_ns, Event::sent(port));
        let other = usize::from(1 - station.min(1));
        match self.senders.get(other) {
            Some(receiver) => {
                let arrival_ns = sent_ns + self.config.delay_ns;
                self.faults.deliver(arrival_ns, receiver.port, frame, &mut self.counts, context);
            }
            None => context.frames.release(frame),
        }
    }
}
