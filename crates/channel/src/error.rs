//! Why a message could not be sent or received, or a channel not be set up.

use std::io;

use crate::address::Address;
use crate::peer::Peer;
use crate::reject::RejectReason;

/// Why a call on a channel failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call was not to wait, and no message or no free slot is there.
    #[error("nothing to receive, or no slot free, and the call was not to wait")]
    WouldBlock,
    /// The time to wait is over.
    #[error("the time to wait is over")]
    TimedOut,
    /// The message does not fit into a slot.
    #[error("message of {bytes} bytes, slots have {slot_bytes}")]
    TooLong {
        /// Length of the message.
        bytes: usize,
        /// Bytes that a slot holds.
        slot_bytes: usize,
    },
    /// No receiver listens at the address.
    #[error("nobody listens at {address}")]
    NotThere {
        /// The address without a listener.
        address: Address,
    },
    /// Another process listens already at the address.
    #[error("{address} is taken")]
    Taken {
        /// The address.
        address: Address,
    },
    /// The other side rejected the set-up of the channel.
    #[error("the other side rejected the channel: {reason}")]
    Rejected {
        /// Why.
        reason: RejectReason,
    },
    /// The peer's process ended or closed its side; all that it had sent before was delivered. Each
    /// disconnect is reported once.
    #[error("{peer} is gone")]
    PeerGone {
        /// The peer.
        peer: Peer,
    },
    /// The peer broke the protocol and was detached. Reported once.
    #[error("{peer} broke the protocol and was detached at message {position}: {what}")]
    Misbehaved {
        /// The peer.
        peer: Peer,
        /// The deviation from the protocol.
        what: &'static str,
        /// Number of the message concerned, from 0 on.
        position: u64,
    },
    /// During set-up the other side sent a message that is not of this version.
    #[error("set-up: {what}")]
    BadSetup {
        /// The expected message.
        what: &'static str,
    },
    /// A setting out of its range.
    #[error("setting out of range: {what}")]
    BadSetting {
        /// The expected value.
        what: &'static str,
    },
    /// The system refused a call.
    #[error("{call}: {source}")]
    System {
        /// Which call.
        call: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

impl Error {
    /// A setting is out of its range; `what` is the expected value.
    pub(crate) fn setting(what: &'static str) -> Self {
        Self::BadSetting { what }
    }
}

/// Names the call in the error that the system gave.
pub(crate) fn system(call: &'static str) -> impl Fn(rustix::io::Errno) -> Error {
    move |errno| Error::System { call, source: errno.into() }
}
