//! The peer at the other end of a channel, as the kernel identifies it.

use std::fmt;

/// The process at the other end, as the kernel knew it when the channel was set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Peer {
    /// Running number among the peers of this end, from 0 on; never given twice.
    pub id: u32,
    /// Process id in our namespace; 0 when it lies outside.
    pub pid: u32,
    /// Effective user id.
    pub uid: u32,
    /// Its number in a [`Group`](crate::Group); `None` outside groups.
    pub member: Option<u32>,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer {} (process {})", self.id, self.pid)
    }
}
