//! Ethernet: one cable, carrier sense, collisions, back-off (IEEE 802.3-1985 §4.2.3).
//!
//! The cable is as long as its propagation time everywhere: a station hears another one after
//! that time, and until then may begin to send too. Both then stop, jam, and wait for a random
//! number of slots. Stations that found the cable busy begin together when it falls silent, which
//! causes most collisions.

use super::capture::{Capture, CaptureConfig};
use super::context::{LinkContext, LinkCounts, LinkId, Station, serial_ns};
use super::faults::FaultSource;
use super::frames::FrameId;
use super::port::Port;
use super::traffic::{OtherTraffic, TrafficSource};
use crate::event::Event;
use crate::random::Random;

/// Parameters of an Ethernet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EthernetConfig {
    /// Bits per second.
    pub bits_per_s: u64,
    /// Preamble and frame check sequence, in bytes, which frames here do not hold.
    pub framing_bytes: u64,
    /// Silence between frames, in nanoseconds.
    pub gap_ns: u64,
    /// Unit of the back-off time, in nanoseconds.
    pub slot_ns: u64,
    /// Time of the jam after a collision, in nanoseconds.
    pub jam_ns: u64,
    /// Propagation from end to end, in nanoseconds.
    pub propagation_ns: u64,
    /// After so many collisions a frame is given up.
    pub attempts_max: u32,
    /// Frames of other stations.
    pub other: OtherTraffic,
    /// A host that captures what the cable carries.
    pub capture: Option<CaptureConfig>,
}

impl EthernetConfig {
    /// 10 Mbit/s (IEEE 802.3-1985 §4.4.2.1); half a segment of 500 m.
    pub const TEN: Self = Self {
        bits_per_s: 10_000_000,
        framing_bytes: 12,
        gap_ns: 9_600,
        slot_ns: 51_200,
        jam_ns: 3_200,
        propagation_ns: 1_200,
        attempts_max: 16,
        other: OtherTraffic::NONE,
        capture: None,
    };

    /// The experimental Ethernet of Metcalfe and Boggs (CACM 19:7, 1976): 2.94 Mbit/s, one bit of
    /// preamble, which counts as none, a CRC of 16 bits, a slot of 16 µs for a cable of 1 km.
    pub const THREE: Self = Self {
        bits_per_s: 2_940_000,
        framing_bytes: 2,
        gap_ns: 1_000,
        slot_ns: 16_000,
        jam_ns: 3_000,
        propagation_ns: 1_200,
        attempts_max: 16,
        other: OtherTraffic::NONE,
        capture: None,
    };
}

/// Back-off grows up to two to this power (IEEE 802.3-1985 §4.2.3.2.5).
const BACKOFF_BITS_MAX: u32 = 10;

/// Octets of an address of IEEE 802; the experimental Ethernet has other ones, without groups.
const ADDRESS_BYTES: usize = 6;

#[derive(Debug)]
struct Sender {
    station: Station,
    frame: Option<FrameId>,
    collisions: u32,
    /// It waits for the cable to fall silent.
    is_deferring: bool,
    /// It holds its own frames back until then, for one that arrived.
    held_ns: u64,
}

impl Sender {
    fn new(station: Station) -> Self {
        Self { station, frame: None, collisions: 0, is_deferring: false, held_ns: 0 }
    }

    /// One that stands for the stations that are not modelled: no frame is for it.
    fn of_others() -> Self {
        let port = Port { host: u16::MAX, interface: 0 };
        Self::new(Station { port, address: Vec::new(), hold_ns: 0 })
    }

    /// Whether a frame of these bytes is for this station.
    fn is_called(&self, bytes: &[u8]) -> bool {
        !self.station.address.is_empty() && bytes.starts_with(&self.station.address)
    }
}

#[derive(Debug, Clone, Copy)]
struct Transmission {
    station: u16,
    started_ns: u64,
}

#[derive(Debug)]
pub(crate) struct Ethernet {
    config: EthernetConfig,
    id: u16,
    senders: Vec<Sender>,
    current: Option<Transmission>,
    /// Number of the transmission under way: the end of one that collided does not count.
    number: u32,
    /// No station may begin before.
    silent_ns: u64,
    random: Random,
    faults: FaultSource,
    /// Other stations, if there are some; theirs are the last of `senders`.
    others: Option<TrafficSource>,
    pub(super) capture: Option<Box<Capture>>,
    pub(super) counts: LinkCounts,
}

impl Ethernet {
    pub(super) fn new(
        config: EthernetConfig,
        id: LinkId,
        stations: Vec<Station>,
        faults: FaultSource,
        seed: u64,
    ) -> Self {
        let mut senders: Vec<_> = stations.into_iter().map(Sender::new).collect();
        let others = TrafficSource::new(config.other, senders.len() as u16, seed, id as u64);
        let stations = others.iter().flat_map(TrafficSource::stations);
        senders.extend(stations.map(|_| Sender::of_others()));
        Self {
            config,
            id: id as u16,
            senders,
            others,
            capture: config.capture.map(Capture::new).map(Box::new),
            current: None,
            number: 0,
            silent_ns: 0,
            random: Random::new(seed, 0x0e00 + id as u64),
            faults,
            counts: LinkCounts::default(),
        }
    }

    pub(super) fn accept(&mut self, station: u16, frame: FrameId) {
        let sender = &mut self.senders[usize::from(station)];
        assert!(sender.frame.is_none(), "the device sends already");
        sender.frame = Some(frame);
        sender.collisions = 0;
    }

    /// The first events of a link on which others send, with their times.
    pub(super) fn first_events(&mut self) -> Vec<(u64, Event)> {
        let Some(others) = &mut self.others else { return Vec::new() };
        let (link, stations) = (self.id, others.stations());
        stations.map(|station| (others.pause_ns(), Event::Attempt { link, station })).collect()
    }

    fn is_other(&self, station: u16) -> bool {
        self.others.as_ref().is_some_and(|others| others.stations().contains(&station))
    }

    /// One of the others has a frame to send, unless it still has one.
    fn offer_other(&mut self, station: u16, context: &mut LinkContext<'_>) {
        let Some(others) = &self.others else { return };
        let sender = &mut self.senders[usize::from(station)];
        if sender.frame.is_none() {
            let frame = context.frames.make();
            others.fill(&mut context.frames.frame_mut(frame).bytes);
            (sender.frame, sender.collisions) = (Some(frame), 0);
        }
    }

    /// A station's frame has left it, or was given up: its device learns it. Others send their next one later.
    fn tell_sent(&mut self, station: u16, context: &mut LinkContext<'_>) {
        let now_ns = context.now_ns;
        if !self.is_other(station) {
            let port = self.senders[usize::from(station)].station.port;
            context.events.schedule(now_ns, Event::sent(port));
        } else if let Some(others) = &mut self.others {
            let at_ns = now_ns + others.pause_ns();
            context.events.schedule(at_ns, Event::Attempt { link: self.id, station });
        }
    }

    /// One that collided ended before.
    pub(super) fn transmission_ends(&mut self, number: u32, context: &mut LinkContext<'_>) {
        if number == self.number {
            self.end(context);
        }
    }

    /// Begins, waits for silence, or collides.
    pub(super) fn attempt(&mut self, station: u16, context: &mut LinkContext<'_>) {
        if self.is_other(station) {
            self.offer_other(station, context);
        }
        let now_ns = context.now_ns;
        let ready_ns = self.silent_ns.max(self.senders[usize::from(station)].held_ns);
        match self.current {
            Some(other) if now_ns - other.started_ns < self.config.propagation_ns => {
                self.collide(other.station, station, context);
            }
            Some(_) => {
                self.senders[usize::from(station)].is_deferring = true;
            }
            None if now_ns < ready_ns => {
                context.events.schedule(ready_ns, Event::Attempt { link: self.id, station });
            }
            None => self.begin(station, context),
        }
    }

    fn begin(&mut self, station: u16, context: &mut LinkContext<'_>) {
        let Some(frame) = self.senders[usize::from(station)].frame else { return };
        self.number = self.number.wrapping_add(1);
        self.current = Some(Transmission { station, started_ns: context.now_ns });
        let bytes = context.frames.frame(frame).bytes.len() as u64 + self.config.framing_bytes;
        let end_ns = context.now_ns + serial_ns(bytes, self.config.bits_per_s);
        let end = Event::TransmissionEnd { link: self.id, number: self.number };
        context.events.schedule(end_ns, end);
    }

    fn end(&mut self, context: &mut LinkContext<'_>) {
        let Some(transmission) = self.current.take() else { return };
        assert!(transmission.started_ns <= context.now_ns, "a frame ends before it begins");
        let Transmission { station, started_ns } = transmission;
        let frame = self.senders[usize::from(station)].frame.take();
        self.tell_sent(station, context);
        if let (Some(frame), Some(capture)) = (frame, &mut self.capture) {
            let heard_ns = context.now_ns + self.config.propagation_ns;
            let is_of_others =
                self.others.as_ref().is_some_and(|others| others.stations().contains(&station));
            capture.hears(heard_ns, &context.frames.frame(frame).bytes, is_of_others);
        }
        match frame {
            Some(frame) if self.is_other(station) => {
                context.frames.release(frame);
                self.counts.other_frames += 1;
            }
            Some(frame) => {
                self.counts.busy_ns += context.now_ns - started_ns;
                self.deliver(station, frame, context);
            }
            None => {}
        }
        self.fall_silent(context.now_ns + self.config.gap_ns, context);
    }

    fn deliver(&mut self, from: u16, frame: FrameId, context: &mut LinkContext<'_>) {
        let bytes = &context.frames.frame(frame).bytes;
        self.counts.frames += 1;
        self.counts.bytes += bytes.len() as u64;
        let mut senders = self.senders.iter_mut();
        match senders.find(|sender| sender.is_called(bytes)) {
            Some(receiver) => {
                let port = receiver.station.port;
                if receiver.station.hold_ns > 0 {
                    receiver.held_ns =
                        context.now_ns + self.config.gap_ns + receiver.station.hold_ns;
                }
                let at_ns = context.now_ns + self.config.propagation_ns;
                self.faults.deliver(at_ns, port, frame, &mut self.counts, context);
            }
            None => self.deliver_to_group(from, frame, context),
        }
    }

    /// Every station but the sender hears a frame to a group address of IEEE 802, whose first octet is
    /// odd; a frame for a station that is not here is lost.
    fn deliver_to_group(&mut self, from: u16, frame: FrameId, context: &mut LinkContext<'_>) {
        let is_group =
            context.frames.frame(frame).bytes.first().is_some_and(|octet| octet & 1 == 1);
        let at_ns = context.now_ns + self.config.propagation_ns;
        for (sender, station) in self.senders.iter().zip(0..) {
            if is_group && station != from && sender.station.address.len() == ADDRESS_BYTES {
                let copy = context.frames.copy(frame);
                let port = sender.station.port;
                self.faults.deliver(at_ns, port, copy, &mut self.counts, context);
            }
        }
        context.frames.release(frame);
    }

    fn collide(&mut self, first: u16, second: u16, context: &mut LinkContext<'_>) {
        assert_ne!(first, second, "a station collides with itself");
        self.current = None;
        self.number = self.number.wrapping_add(1);
        self.counts.collisions += 1;
        let silent_ns =
            context.now_ns + self.config.propagation_ns + self.config.jam_ns + self.config.gap_ns;
        self.fall_silent(silent_ns, context);
        self.back_off(first, context);
        self.back_off(second, context);
    }

    fn back_off(&mut self, station: u16, context: &mut LinkContext<'_>) {
        let sender = &mut self.senders[usize::from(station)];
        sender.collisions += 1;
        sender.is_deferring = false;
        let port = sender.station.port;
        if sender.collisions >= self.config.attempts_max {
            if let Some(frame) = sender.frame.take() {
                context.frames.release(frame);
            }
            self.counts.given_up += 1;
            self.tell_sent(station, context);
            return;
        }
        let slots = self.random.below(1 << sender.collisions.min(BACKOFF_BITS_MAX));
        let at_ns = self.silent_ns + slots * self.config.slot_ns;
        if !self.is_other(station) {
            context.events.schedule(context.now_ns, Event::collided(port));
        }
        context.events.schedule(at_ns, Event::Attempt { link: self.id, station });
    }

    /// The cable falls silent: stations that wait for this try again.
    fn fall_silent(&mut self, silent_ns: u64, context: &mut LinkContext<'_>) {
        self.silent_ns = silent_ns;
        for (sender, station) in self.senders.iter_mut().zip(0..) {
            if std::mem::take(&mut sender.is_deferring) {
                context.events.schedule(self.silent_ns, Event::Attempt { link: self.id, station });
            }
        }
    }
}
