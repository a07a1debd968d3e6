//! The messages and the network of a measurement.

use std::time::Duration;

use sockscope_channel::library::Redundancy;
use sockscope_link::{Settings, Topology};

use super::level::Level;
use super::message::MESSAGE_BYTES_MIN;

/// A datagram of the smallest MTU of IPv4 with all headers of a level (RFC 791).
const MESSAGE_BYTES_MAX: usize = 65_000;

/// What is to be measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// In this order; each has a network of its own.
    pub levels: Vec<Level>,
    /// Messages of each level.
    pub messages: u64,
    /// Octets of a message.
    pub message_bytes: usize,
    /// Between the planned times of two messages.
    pub every: Duration,
    /// Receivers of `published` and `one-of-many`.
    pub members: usize,
    /// Blocks of `corrected`: messages and parity packets.
    pub block: (usize, usize),
    /// Messages for which an ordered level waits before it gives up a missing one, and messages without an answer.
    pub window: u64,
    /// A level that waits for answers fails when it delivers nothing for so long.
    pub give_up: Duration,
    /// `Loopback` or `Link`.
    pub topology: Topology,
    /// Of a link: to the receivers, and back.
    pub settings: [Settings; 2],
    /// Of a link: of all random choices.
    pub seed: u64,
    /// Of a link: octets of the largest packet.
    pub mtu: u32,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            levels: Level::ALL.to_vec(),
            messages: 1_000,
            message_bytes: 200,
            every: Duration::from_micros(500),
            members: 3,
            block: (8, 2),
            window: 32,
            give_up: Duration::from_secs(30),
            topology: Topology::Loopback,
            settings: [Settings::default(), Settings::default()],
            seed: 1,
            mtu: 1_500,
        }
    }
}

impl Plan {
    /// Checks that each level can carry the messages.
    ///
    /// # Errors
    ///
    /// Says which value is out of range.
    pub fn check(&self) -> Result<Redundancy, String> {
        let Self { message_bytes, .. } = self;
        if !(MESSAGE_BYTES_MIN..=MESSAGE_BYTES_MAX).contains(message_bytes) {
            let range = format!("{MESSAGE_BYTES_MIN} to {MESSAGE_BYTES_MAX}");
            return Err(format!("a message of {message_bytes} bytes: give one of {range}"));
        }
        if !matches!(self.topology, Topology::Loopback | Topology::Link) {
            return Err(format!("topology {}: give loopback or link", self.topology));
        }
        Redundancy::new(self.block.0, self.block.1).map_err(|error| error.to_string())
    }
}

/// Messages and parity packets of a block, as `8+2`.
///
/// # Errors
///
/// Says what was expected.
pub fn redundancy(text: &str) -> Result<(usize, usize), String> {
    let parts = text
        .split_once('+')
        .and_then(|(messages, parity)| Some((messages.parse().ok()?, parity.parse().ok()?)));
    let parts = parts.filter(|(messages, parity)| Redundancy::new(*messages, *parity).is_ok());
    parts.ok_or_else(|| {
        "expected messages and parity packets as 8+2, each 1 or more, 256 together".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_messages_and_parity_packets() {
        assert_eq!(redundancy("8+2"), Ok((8, 2)));
        for text in ["8", "0+2", "8+0", "255+2", "a+b"] {
            assert!(redundancy(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_plan_out_of_range_says_which_value() {
        let refused = |plan: Plan| plan.check().unwrap_err();
        assert!(refused(Plan { message_bytes: 15, ..Plan::default() }).contains("15 bytes"));
        let crowd = Plan { topology: Topology::Crowd(2), ..Plan::default() };
        assert!(refused(crowd).contains("crowd:2"));
        assert!(Plan::default().check().is_ok());
    }
}
