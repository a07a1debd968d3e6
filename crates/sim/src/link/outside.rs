//! A line whose other end is not simulated: packets leave with their time, and others arrive when the owner of the
//! simulation delivers them.

use std::collections::VecDeque;

use sockscope_record::FlowId;
use sockscope_stack::{Endpoint, Mark};

use super::FrameId;
use super::context::{LinkContext, LinkCounts, Station};
use super::frames::Frame;
use super::port::Port;
use super::streams::Streams;
use crate::event::Event;

/// The line and the known connections over it.
#[derive(Debug)]
pub(crate) struct Outside {
    port: Option<Port>,
    frame: Option<FrameId>,
    /// Sent, and not yet seen by the owner, with their times.
    departed: VecDeque<(u64, Frame)>,
    streams: Streams,
    pub(super) counts: LinkCounts,
}

impl Outside {
    /// The first station is the only one that sends.
    pub(super) fn new(stations: &[Station]) -> Self {
        Self {
            port: stations.first().map(|station| station.port),
            frame: None,
            departed: VecDeque::new(),
            streams: Streams::default(),
            counts: LinkCounts::default(),
        }
    }

    pub(super) fn accept(&mut self, frame: FrameId) {
        assert!(self.frame.is_none(), "the device sends already");
        self.frame = Some(frame);
    }

    /// The packet leaves at once: the outside network has the rate and the delay.
    pub(super) fn attempt(&mut self, context: &mut LinkContext<'_>) {
        let Some((id, port)) = self.frame.take().zip(self.port) else { return };
        let frame = std::mem::take(context.frames.frame_mut(id));
        context.frames.release(id);
        self.counts.frames += 1;
        self.counts.bytes += frame.bytes.len() as u64;
        self.streams.leaves(&frame);
        self.departed.push_back((context.now_ns, frame));
        context.events.schedule(context.now_ns, Event::sent(port));
    }

    /// The next packet that has left, with its time.
    pub(crate) fn departed(&mut self) -> Option<(u64, Frame)> {
        self.departed.pop_front()
    }

    /// The client and the server of the connection that a packet opens which arrives, if it does.
    pub(crate) fn opened_by(&self, packet: &[u8]) -> Option<[Endpoint; 2]> {
        self.streams.opened_by(packet)
    }

    /// The host that a packet from outside reaches, and the packet's mark. `opened` is the client's flow of the
    /// connection that it opens.
    pub(crate) fn arrives(
        &mut self,
        packet: &[u8],
        opened: Option<FlowId>,
    ) -> Option<(Port, Option<Mark>)> {
        let port = self.port?;
        Some((port, self.streams.arrives(packet, opened)))
    }
}
