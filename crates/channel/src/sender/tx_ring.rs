//! The sender's ring as one receiver uses it; and set-up of it from either side.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::address::Address;
use crate::error::Error;
use crate::handshake::{ConnectReply, ConnectRequest, Offer, Role};
use crate::listener::{Caller, Inbox};
use crate::memory::{self, CONTROL_BYTES, Geometry, PROGRESS_AT, PeerSegment};
use crate::peer::Peer;
use crate::peers::Attached;
use crate::reject::RejectReason;
use crate::ring::RingWriter;
use crate::settings::{Settings, WhenFull};
use crate::{setup, socket};

/// One receiver's use of the sender's ring, with the socket to that receiver.
pub(crate) struct TxRing {
    pub socket: OwnedFd,
    /// The receiver's segment: its progress and its request for a wake-up.
    pub control: PeerSegment,
    /// Its progress as last read; checked.
    pub progress: u64,
    /// The receiver's last request for a wake-up that was answered.
    pub answered: u32,
    pub peer: Peer,
}

impl Attached for TxRing {
    fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    fn peer(&self) -> Peer {
        self.peer
    }
}

impl TxRing {
    /// Its progress now, never less than the checked one.
    pub fn latest_progress(&self) -> u64 {
        self.control.load64(PROGRESS_AT, Ordering::Acquire).max(self.progress)
    }
}

/// Calls the receiver bound to `address`.
pub(crate) fn call(
    address: &Address,
    data: &OwnedFd,
    ring: &RingWriter,
    settings: &Settings,
    inbox: &Inbox<TxRing>,
) -> Result<TxRing, Error> {
    let offer = Offer::new(ring.geometry(), ring.when_full(), ring.next());
    let request = ConnectRequest { role: Role::Sends, offer, member: None, incarnation: 0 };
    if !inbox.enter(settings.peers_max) {
        return Err(Error::BadSetting { what: "fewer receivers than `peers_max`" });
    }
    let attach = || {
        let answer = setup::call(address, &request, data, settings)?;
        let control = PeerSegment::open(&answer.descriptor, CONTROL_BYTES)?;
        let peer = answer.peer(inbox.id(), None);
        let progress = ring.next();
        Ok(TxRing { socket: answer.socket, control, progress, answered: 0, peer })
    };
    attach().inspect_err(|_| inbox.leave())
}

/// The parts of a bound sender that its listener needs.
pub(crate) struct Host {
    data: OwnedFd,
    /// The listener's own mapping of the ring, read-only like all mappings but the sender's.
    view: PeerSegment,
    geometry: Geometry,
    when_full: WhenFull,
    peers_max: u32,
    incarnation: u64,
    inbox: Arc<Inbox<TxRing>>,
}

impl Host {
    pub fn new(
        data: &OwnedFd,
        ring: &RingWriter,
        settings: &Settings,
        inbox: &Arc<Inbox<TxRing>>,
        incarnation: u64,
    ) -> Result<Self, Error> {
        let (geometry, when_full) = (ring.geometry(), ring.when_full());
        // `Sender` made sure that the segment fits into memory.
        let view = PeerSegment::open(data, geometry.segment_bytes() as usize)?;
        let (data, inbox) = (memory::duplicate(data)?, Arc::clone(inbox));
        let peers_max = settings.peers_max;
        Ok(Self { data, view, geometry, when_full, peers_max, incarnation, inbox })
    }

    fn accept(&self, caller: Caller, control: PeerSegment) -> Result<TxRing, Error> {
        let Caller { socket, request, pid, uid, .. } = caller;
        let next = self.view.load64(PROGRESS_AT, Ordering::SeqCst);
        let offer = Offer::new(self.geometry, self.when_full, next);
        let reply = ConnectReply::Accepted { offer, incarnation: self.incarnation };
        socket::send_setup(&socket, &reply.encode(), Some(self.data.as_fd()))?;
        let peer = Peer { id: self.inbox.id(), pid, uid, member: request.member };
        Ok(TxRing { socket, control, progress: next, answered: 0, peer })
    }
}

/// Accepts or rejects a caller, for the listener of a bound sender.
pub(crate) fn admission(
    host: Host,
    mut on_arrival: impl FnMut(&ConnectRequest) + Send + 'static,
) -> impl FnMut(Caller) -> Result<(), RejectReason> + Send + 'static {
    move |caller: Caller| {
        let request = caller.request;
        if request.role != Role::Receives {
            return Err(RejectReason::WrongRole);
        }
        let control = PeerSegment::open(&caller.descriptor, CONTROL_BYTES);
        let control = control.map_err(|_| RejectReason::BadRequest)?;
        if !host.inbox.enter(host.peers_max) {
            return Err(RejectReason::Full);
        }
        match host.inbox.arrive(|| host.accept(caller, control)) {
            Ok(()) => on_arrival(&request),
            // A caller that the reply did not reach has hung up, and needs no reason.
            Err(_) => host.inbox.leave(),
        }
        Ok(())
    }
}
