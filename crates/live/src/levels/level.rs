//! The levels from which an application chooses.

use std::str::FromStr;

/// A service level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// One to one; a dropped message is lost.
    Datagram,
    /// One to one; a dropped message is lost, the others keep order.
    Sequenced,
    /// One to one; dropped messages are computed from redundant packets.
    Corrected,
    /// One to one; messages are repeated until they are answered, and keep order.
    Reliable,
    /// The same service over VMTP, which carries many messages in one transaction.
    Vmtp,
    /// One to many, by multicast; a dropped message is lost.
    Published,
    /// One to exactly one of many; messages are repeated until they are answered.
    OneOfMany,
}

impl Level {
    /// All of them, from the simplest one on.
    pub const ALL: [Self; 7] = [
        Self::Datagram,
        Self::Sequenced,
        Self::Corrected,
        Self::Reliable,
        Self::Vmtp,
        Self::Published,
        Self::OneOfMany,
    ];

    /// The word on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Datagram => "datagram",
            Self::Sequenced => "sequenced",
            Self::Corrected => "corrected",
            Self::Reliable => "reliable",
            Self::Vmtp => "vmtp",
            Self::Published => "published",
            Self::OneOfMany => "one-of-many",
        }
    }

    /// The communication model.
    pub fn model(self) -> &'static str {
        match self {
            Self::Published => "one to many",
            Self::OneOfMany => "one to one of many",
            _ => "one to one",
        }
    }

    /// The treatment of a dropped message.
    pub fn on_loss(self) -> &'static str {
        match self {
            Self::Datagram | Self::Sequenced | Self::Published => "discard",
            Self::Corrected => "correction",
            Self::Reliable | Self::Vmtp | Self::OneOfMany => "timeout",
        }
    }

    /// Whether each receiver gets its messages in the order in which they were sent.
    pub fn keeps_order(self) -> bool {
        matches!(self, Self::Sequenced | Self::Reliable | Self::Vmtp)
    }

    /// Whether the level ends only when every message is delivered.
    pub fn loses_nothing(self) -> bool {
        self.on_loss() == "timeout"
    }

    /// Receivers, of a group of so many.
    pub(super) fn receivers(self, members: usize) -> usize {
        if matches!(self, Self::Published | Self::OneOfMany) { members } else { 1 }
    }

    /// Receivers to which one message is to be delivered.
    pub(super) fn copies(self, members: usize) -> usize {
        if self == Self::Published { members } else { 1 }
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|level| level.name() == name);
        let names = || Self::ALL.map(Self::name).join(", ");
        found.ok_or_else(|| format!("no level `{name}`: expected {}", names()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_read_as_it_is_written() {
        for level in Level::ALL {
            assert_eq!(level.name().parse(), Ok(level));
        }
        let refused = "best".parse::<Level>().unwrap_err();
        assert!(refused.starts_with("no level `best`: expected datagram, sequenced"), "{refused}");
    }
}
