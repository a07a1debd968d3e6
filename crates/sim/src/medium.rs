//! A link by itself, for hosts that are no [`crate::Host`]: octets in, octets out, by time.
//!
//! The owner offers frames, asks when the medium does something next, and lets it. The cable, its
//! back-off and its faults are those of [`crate::link`]. Times are nanoseconds.

use crate::event::{Event, EventQueue};
use crate::link::{Frames, Link, LinkConfig, LinkContext, LinkCounts, Port, Station};

/// An event of the medium.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediumEvent {
    /// The last bit of a frame arrived at a station.
    Arrived {
        /// Where.
        station: u16,
        /// The frame: link header and packet, no check sequence.
        frame: Vec<u8>,
    },
    /// The frame of a station has gone out, or was given up: it may offer the next one.
    Sent {
        /// Whose.
        station: u16,
    },
}

/// A link with its stations.
#[derive(Debug)]
pub struct Medium {
    link: Link,
    events: EventQueue<Event>,
    frames: Frames,
}

impl Medium {
    /// A link between stations with these addresses; frames begin with that of their receiver, or
    /// with a group address, which every other station hears.
    pub fn new(config: &LinkConfig, addresses: &[[u8; 6]], seed: u64) -> Self {
        let station = |(address, host): (&[u8; 6], u16)| Station {
            port: Port { host, interface: 0 },
            address: address.to_vec(),
            hold_ns: 0,
        };
        let stations = addresses.iter().zip(0..).map(station).collect();
        let mut link = Link::new(config, 0, stations, seed);
        let mut events = EventQueue::default();
        for (at_ns, event) in link.first_events() {
            events.schedule(at_ns, event);
        }
        Self { link, events, frames: Frames::default() }
    }

    /// `station` sends `frame`; it has none under way.
    pub fn offer(&mut self, now_ns: u64, station: u16, frame: &[u8]) {
        let id = self.frames.make();
        let octets = &mut self.frames.frame_mut(id).bytes;
        octets.clear();
        octets.extend_from_slice(frame);
        let mut context =
            LinkContext { now_ns, events: &mut self.events, frames: &mut self.frames };
        self.link.accept(station, id);
        self.link.attempt(station, &mut context);
    }

    /// When [`Medium::advance`] is due next; `u64::MAX` while nothing is under way.
    pub fn next_ns(&self) -> u64 {
        self.events.next_ns()
    }

    /// Carries out the next event; `None` when that concerns no station.
    pub fn advance(&mut self) -> Option<MediumEvent> {
        let (now_ns, event) = self.events.pop()?;
        match event {
            Event::Attempt { station, .. } => {
                let mut context =
                    LinkContext { now_ns, events: &mut self.events, frames: &mut self.frames };
                self.link.attempt(station, &mut context);
                None
            }
            Event::TransmissionEnd { number, .. } => {
                let mut context =
                    LinkContext { now_ns, events: &mut self.events, frames: &mut self.frames };
                self.link.transmission_ends(number, &mut context);
                None
            }
            Event::Arrival { host, frame: id, .. } => {
                let frame = self.frames.frame(id).bytes.clone();
                self.frames.release(id);
                Some(MediumEvent::Arrived { station: host, frame })
            }
            Event::Sent { host, .. } => Some(MediumEvent::Sent { station: host }),
            // The link schedules nothing else; a collision concerns its back-off alone.
            _ => None,
        }
    }

    /// The counts of the link.
    pub fn counts(&self) -> LinkCounts {
        self.link.counts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESSES: [[u8; 6]; 3] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 3]];

    /// Station 0 sends one frame of `bytes` to `address`; the events, as text.
    fn run(address: [u8; 6], bytes: usize) -> Vec<String> {
        let mut medium = Medium::new(&LinkConfig::ethernet10(), &ADDRESSES, 1);
        let mut frame = address.to_vec();
        frame.resize(bytes, 7);
        medium.offer(0, 0, &frame);
        let mut happened = Vec::new();
        while medium.next_ns() < u64::MAX {
            let now_ns = medium.next_ns();
            match medium.advance() {
                Some(MediumEvent::Arrived { station, frame }) => {
                    happened.push(format!("{now_ns} {} at {station}", frame.len()));
                }
                Some(MediumEvent::Sent { station }) => {
                    happened.push(format!("{now_ns} sent by {station}"));
                }
                None => {}
            }
        }
        assert_eq!(medium.counts().frames, 1);
        happened
    }

    /// 88 octets, 12 of framing, 0.8 µs each, then 1.2 µs of cable.
    #[test]
    fn a_frame_goes_to_the_station_that_it_names() {
        assert_eq!(run(ADDRESSES[2], 88), ["80000 sent by 0", "81200 88 at 2"]);
    }

    #[test]
    fn a_group_is_one_frame_that_every_other_station_hears() {
        let group = [1, 0, 0x5e, 0, 1, 0];
        assert_eq!(run(group, 88), ["80000 sent by 0", "81200 88 at 1", "81200 88 at 2"]);
    }

    #[test]
    fn a_frame_for_nobody_is_sent_all_the_same() {
        assert_eq!(run([2, 0, 0, 0, 0, 9], 88), ["80000 sent by 0"]);
    }
}
