//! One receiver of a sender: how it is attached, from either side.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::address::Address;
use crate::door::{Caller, Inbox};
use crate::error::Error;
use crate::hello::{Hello, Offer, Role, Welcome};
use crate::memory::{self, CONTROL_BYTES, Geometry, PROGRESS_AT, PeerSegment};
use crate::peer::Peer;
use crate::peers::Attached;
use crate::refusal::Refusal;
use crate::settings::{Settings, WhenFull};
use crate::slots::SlotWriter;
use crate::{setup, socket};

/// A receiver, as its sender sees it.
pub(crate) struct Outlet {
    pub socket: OwnedFd,
    /// The receiver's segment: how far it is, and whether it wants to be woken.
    pub control: PeerSegment,
    /// How far it was when last looked at; checked.
    pub progress: u64,
    /// Its last alarm that was answered.
    pub answered: u32,
    pub peer: Peer,
}

impl Attached for Outlet {
    fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    fn peer(&self) -> Peer {
        self.peer
    }
}

impl Outlet {
    /// How far it is now, as far as that is possible at all.
    pub fn latest_progress(&self) -> u64 {
        self.control.load64(PROGRESS_AT, Ordering::Acquire).max(self.progress)
    }
}

/// Calls the receiver bound to `address`.
pub(crate) fn call(
    address: &Address,
    data: &OwnedFd,
    slots: &SlotWriter,
    settings: &Settings,
    inbox: &Inbox<Outlet>,
) -> Result<Outlet, Error> {
    let offer = Offer::new(slots.geometry(), slots.when_full(), slots.next());
    let hello = Hello { role: Role::Sends, offer, member: None, incarnation: 0 };
    if !inbox.enter(settings.peers_max) {
        return Err(Error::BadSetting { what: "fewer receivers than `peers_max`" });
    }
    let attach = || {
        let answer = setup::call(address, &hello, data, settings)?;
        let control = PeerSegment::open(&answer.descriptor, CONTROL_BYTES)?;
        let peer = answer.peer(inbox.id(), None);
        let progress = slots.next();
        Ok(Outlet { socket: answer.socket, control, progress, answered: 0, peer })
    };
    attach().inspect_err(|_| inbox.leave())
}

/// What the door of a bound sender needs of it.
pub(crate) struct Host {
    data: OwnedFd,
    /// The door's own view of the slots, read-only like everybody's but the sender's.
    view: PeerSegment,
    geometry: Geometry,
    when_full: WhenFull,
    peers_max: u32,
    incarnation: u64,
    inbox: Arc<Inbox<Outlet>>,
}

impl Host {
    pub fn new(
        data: &OwnedFd,
        slots: &SlotWriter,
        settings: &Settings,
        inbox: &Arc<Inbox<Outlet>>,
        incarnation: u64,
    ) -> Result<Self, Error> {
        let (geometry, when_full) = (slots.geometry(), slots.when_full());
        // `Sender` made sure that the segment fits into memory.
        let view = PeerSegment::open(data, geometry.segment_bytes() as usize)?;
        let (data, inbox) = (memory::duplicate(data)?, Arc::clone(inbox));
        let peers_max = settings.peers_max;
        Ok(Self { data, view, geometry, when_full, peers_max, incarnation, inbox })
    }

    fn welcome(&self, caller: Caller, control: PeerSegment) -> Result<Outlet, Error> {
        let Caller { socket, hello, pid, uid, .. } = caller;
        let next = self.view.load64(PROGRESS_AT, Ordering::SeqCst);
        let offer = Offer::new(self.geometry, self.when_full, next);
        let welcome = Welcome::Accepted { offer, incarnation: self.incarnation };
        socket::send_setup(&socket, &welcome.encode(), Some(self.data.as_fd()))?;
        let peer = Peer { id: self.inbox.id(), pid, uid, member: hello.member };
        Ok(Outlet { socket, control, progress: next, answered: 0, peer })
    }
}

/// What the door of a bound sender does with a caller.
pub(crate) fn admission(
    host: Host,
    mut on_arrival: impl FnMut(&Hello) + Send + 'static,
) -> impl FnMut(Caller) -> Result<(), Refusal> + Send + 'static {
    move |caller: Caller| {
        let hello = caller.hello;
        if hello.role != Role::Receives {
            return Err(Refusal::WrongRole);
        }
        let control = PeerSegment::open(&caller.descriptor, CONTROL_BYTES);
        let control = control.map_err(|_| Refusal::BadHello)?;
        if !host.inbox.enter(host.peers_max) {
            return Err(Refusal::Full);
        }
        match host.inbox.arrive(|| host.welcome(caller, control)) {
            Ok(()) => on_arrival(&hello),
            // Who could not be welcomed is gone, and is owed no refusal.
            Err(_) => host.inbox.leave(),
        }
        Ok(())
    }
}
