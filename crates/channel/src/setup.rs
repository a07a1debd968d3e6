//! The calling side of set-up, the same for senders and receivers.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::address::Address;
use crate::error::Error;
use crate::handshake::{ConnectReply, ConnectRequest, Offer};
use crate::peer::Peer;
use crate::reject::RejectReason;
use crate::settings::Settings;
use crate::socket;

/// The longest time for which a sleeper on signal words leaves its peers unchecked: they cannot
/// wake it when they are killed.
const CHECK_AFTER: Duration = Duration::from_millis(50);

/// A reply that accepts: the other side's offer and segment.
pub(crate) struct Answer {
    pub socket: OwnedFd,
    pub offer: Offer,
    pub incarnation: u64,
    pub descriptor: OwnedFd,
    pid: u32,
    uid: u32,
}

impl Answer {
    /// The peer that answered.
    pub fn peer(&self, id: u32, member: Option<u32>) -> Peer {
        Peer { id, pid: self.pid, uid: self.uid, member }
    }
}

/// Calls the end bound to `address`, sends the request and waits for the reply.
pub(crate) fn call(
    address: &Address,
    request: &ConnectRequest,
    own: &OwnedFd,
    settings: &Settings,
) -> Result<Answer, Error> {
    let socket = socket::connect(address, settings.setup_timeout)?;
    let (pid, uid, trusted) = socket::credentials(&socket, settings.trust)?;
    if !trusted {
        return Err(Error::Rejected { reason: RejectReason::NotTrusted });
    }
    socket::send_setup(&socket, &request.encode(), Some(own.as_fd()))?;
    let (bytes, descriptor) = socket::receive_setup(&socket)?;
    match ConnectReply::decode(&bytes).map_err(|what| Error::BadSetup { what })? {
        ConnectReply::Rejected(reason) => Err(Error::Rejected { reason }),
        ConnectReply::Accepted { offer, incarnation } => {
            let descriptor = descriptor.ok_or(Error::BadSetup { what: "a segment" })?;
            Ok(Answer { socket, offer, incarnation, descriptor, pid, uid })
        }
    }
}

/// The sleep on signal words until the next check of the peers.
pub(crate) fn slice(until: Option<Instant>) -> Duration {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    left.map_or(CHECK_AFTER, |left| left.min(CHECK_AFTER))
}
