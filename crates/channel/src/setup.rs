//! The calling side of set-up, the same for senders and receivers.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::address::Address;
use crate::error::Error;
use crate::hello::{Hello, Offer, Welcome};
use crate::peer::Peer;
use crate::refusal::Refusal;
use crate::settings::Settings;
use crate::socket;

/// How long a sleeper on signal words leaves its peers unchecked: they cannot wake it when they are
/// killed.
const CHECK_AFTER: Duration = Duration::from_millis(50);

/// A welcome: what the other side offered, and its segment.
pub(crate) struct Answer {
    pub socket: OwnedFd,
    pub offer: Offer,
    pub incarnation: u64,
    pub descriptor: OwnedFd,
    pid: u32,
    uid: u32,
}

impl Answer {
    /// Who answered.
    pub fn peer(&self, id: u32, member: Option<u32>) -> Peer {
        Peer { id, pid: self.pid, uid: self.uid, member }
    }
}

/// Calls the end bound to `address`, says hello and waits for the welcome.
pub(crate) fn call(
    address: &Address,
    hello: &Hello,
    own: &OwnedFd,
    settings: &Settings,
) -> Result<Answer, Error> {
    let socket = socket::connect(address, settings.setup_timeout)?;
    let (pid, uid, trusted) = socket::credentials(&socket, settings.trust)?;
    if !trusted {
        return Err(Error::Refused { reason: Refusal::NotTrusted });
    }
    socket::send_setup(&socket, &hello.encode(), Some(own.as_fd()))?;
    let (bytes, descriptor) = socket::receive_setup(&socket)?;
    match Welcome::decode(&bytes).map_err(|what| Error::BadSetup { what })? {
        Welcome::Refused(reason) => Err(Error::Refused { reason }),
        Welcome::Accepted { offer, incarnation } => {
            let descriptor = descriptor.ok_or(Error::BadSetup { what: "a segment" })?;
            Ok(Answer { socket, offer, incarnation, descriptor, pid, uid })
        }
    }
}

/// How long to sleep on signal words before the next check on the peers.
pub(crate) fn slice(until: Option<Instant>) -> Duration {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    left.map_or(CHECK_AFTER, |left| left.min(CHECK_AFTER))
}
