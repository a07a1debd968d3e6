//! Links between hosts, and their faults.
//!
//! A link takes one frame at a time from each of its stations, and reports the frame's departure
//! and arrival by events. Chance decides about back-off and faults, each in a stream of its own.
//! Times are nanoseconds.

mod capture;
mod context;
mod ethernet;
mod faults;
pub(crate) mod frames;
mod outside;
mod point_to_point;
pub(crate) mod port;
mod streams;
#[cfg(test)]
mod tests;
mod traffic;

pub use capture::{Capture, CaptureConfig, CapturedFrame};
pub use context::{LinkCounts, LinkId};
pub use ethernet::EthernetConfig;
pub use faults::Faults;
pub use point_to_point::PointToPointConfig;
pub use traffic::OtherTraffic;

pub(crate) use context::{LinkContext, Station};
pub(crate) use ethernet::Ethernet;
pub(crate) use faults::FaultSource;
pub(crate) use frames::{FrameId, Frames};
pub(crate) use outside::Outside;
pub(crate) use point_to_point::PointToPoint;
pub(crate) use port::Port;

use crate::event::Event;

/// A link of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkConfig {
    /// The kind of link.
    pub kind: LinkKind,
    /// Its faults.
    pub faults: Faults,
}

/// The kind of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkKind {
    /// A cable that all stations share.
    Ethernet(EthernetConfig),
    /// A line between two stations, which can send at the same time.
    PointToPoint(PointToPointConfig),
    /// A line from one station to the outside of the simulation: see [`Simulation::deliver`](crate::Simulation::deliver).
    Outside,
}

impl LinkConfig {
    /// The 10 Mbit/s Ethernet, without faults.
    pub fn ethernet10() -> Self {
        Self { kind: LinkKind::Ethernet(EthernetConfig::TEN), faults: Faults::NONE }
    }

    /// The experimental 3 Mbit/s Ethernet, without faults.
    pub fn ethernet3() -> Self {
        Self { kind: LinkKind::Ethernet(EthernetConfig::THREE), faults: Faults::NONE }
    }

    /// A line of so many bits per second (0: no limit) and this delay, without faults.
    pub fn point_to_point(bits_per_s: u64, delay_ns: u64) -> Self {
        let config = PointToPointConfig { bits_per_s, delay_ns };
        Self { kind: LinkKind::PointToPoint(config), faults: Faults::NONE }
    }

    /// A line to the outside of the simulation.
    pub fn outside() -> Self {
        Self { kind: LinkKind::Outside, faults: Faults::NONE }
    }

    /// The same Ethernet with frames of other stations; another link has none.
    #[must_use]
    pub fn with_other_traffic(mut self, other: OtherTraffic) -> Self {
        if let LinkKind::Ethernet(ethernet) = &mut self.kind {
            ethernet.other = other;
        }
        self
    }

    /// The same Ethernet with a host that captures its frames; another link has none.
    #[must_use]
    pub fn with_capture(mut self, capture: Option<CaptureConfig>) -> Self {
        if let LinkKind::Ethernet(ethernet) = &mut self.kind {
            ethernet.capture = capture;
        }
        self
    }

    /// The same link with these faults. A line to the outside has none of its own.
    #[must_use]
    pub fn with_faults(self, faults: Faults) -> Self {
        Self { faults, ..self }
    }
}

/// A link of a running simulation.
#[derive(Debug)]
pub(crate) enum Link {
    Ethernet(Ethernet),
    PointToPoint(PointToPoint),
    Outside(Outside),
}

impl Link {
    pub(crate) fn new(config: &LinkConfig, id: LinkId, stations: Vec<Station>, seed: u64) -> Self {
        let faults = FaultSource::new(config.faults, seed, id as u64);
        match &config.kind {
            LinkKind::Ethernet(ethernet) => {
                Self::Ethernet(Ethernet::new(*ethernet, id, stations, faults, seed))
            }
            LinkKind::PointToPoint(line) => {
                Self::PointToPoint(PointToPoint::new(*line, &stations, faults))
            }
            LinkKind::Outside => Self::Outside(Outside::new(&stations)),
        }
    }

    /// The events that a link has of its own at its beginning, with their times.
    pub(crate) fn first_events(&mut self) -> Vec<(u64, Event)> {
        match self {
            Self::Ethernet(ethernet) => ethernet.first_events(),
            Self::PointToPoint(_) | Self::Outside(_) => Vec::new(),
        }
    }

    /// The station's device hands a frame over, which [`Link::attempt`] sends; it has none under way.
    pub(crate) fn accept(&mut self, station: u16, frame: FrameId) {
        match self {
            Self::Ethernet(ethernet) => ethernet.accept(station, frame),
            Self::PointToPoint(line) => line.accept(station, frame),
            Self::Outside(outside) => outside.accept(frame),
        }
    }

    /// A station sends its frame, or looks whether it can now.
    pub(crate) fn attempt(&mut self, station: u16, context: &mut LinkContext<'_>) {
        match self {
            Self::Ethernet(ethernet) => ethernet.attempt(station, context),
            Self::PointToPoint(line) => line.attempt(station, context),
            Self::Outside(outside) => outside.attempt(context),
        }
    }

    /// The transmission of this number ends.
    pub(crate) fn transmission_ends(&mut self, number: u32, context: &mut LinkContext<'_>) {
        match self {
            Self::Ethernet(ethernet) => ethernet.transmission_ends(number, context),
            Self::PointToPoint(_) | Self::Outside(_) => {}
        }
    }

    pub(crate) fn counts(&self) -> LinkCounts {
        match self {
            Self::Ethernet(ethernet) => ethernet.counts,
            Self::PointToPoint(line) => line.counts,
            Self::Outside(outside) => outside.counts,
        }
    }

    /// What a host on the cable has captured, if there is one.
    pub(crate) fn capture(&self) -> Option<&Capture> {
        match self {
            Self::Ethernet(ethernet) => ethernet.capture.as_deref(),
            Self::PointToPoint(_) | Self::Outside(_) => None,
        }
    }

    /// The line, if its other end is not simulated.
    pub(crate) fn outside_mut(&mut self) -> Option<&mut Outside> {
        match self {
            Self::Outside(outside) => Some(outside),
            Self::Ethernet(_) | Self::PointToPoint(_) => None,
        }
    }
}
