//! One receiver of a sender: how it is attached, from either side.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::address::Address;
use crate::door::{Caller, Inbox};
use crate::error::Error;
use crate::hello::{Hello, Offer, Refusal, Role, Welcome};
use crate::memory::{self, CONTROL_BYTES, PROGRESS_AT, PeerSegment};
use crate::peer::Peer;
use crate::settings::Settings;
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

/// What the door of a bound sender does with a caller.
pub(crate) fn admission(
    data: &OwnedFd,
    slots: &SlotWriter,
    settings: &Settings,
    inbox: &Arc<Inbox<Outlet>>,
) -> Result<impl FnMut(Caller) -> Result<(), Refusal> + Send + 'static, Error> {
    let data = memory::duplicate(data)?;
    let (geometry, when_full) = (slots.geometry(), slots.when_full());
    // `Settings::geometry` made sure that the segment fits into memory. The door's thread has a
    // view of its own, read-only like everybody's but the sender's.
    let view = PeerSegment::open(&data, geometry.segment_bytes() as usize)?;
    let (most, inbox) = (settings.peers_max, Arc::clone(inbox));
    Ok(move |caller: Caller| {
        if caller.hello.role != Role::Receives {
            return Err(Refusal::WrongRole);
        }
        let control = PeerSegment::open(&caller.descriptor, CONTROL_BYTES);
        let control = control.map_err(|_| Refusal::BadHello)?;
        if !inbox.enter(most) {
            return Err(Refusal::Full);
        }
        let Caller { socket, hello, pid, uid, .. } = caller;
        let peer = Peer { id: inbox.id(), pid, uid, member: hello.member };
        let arrived = inbox.arrive(|| {
            let next = view.load64(PROGRESS_AT, Ordering::SeqCst);
            let welcome = Welcome::Accepted(Offer::new(geometry, when_full, next));
            socket::send_setup(&socket, &welcome.encode(), Some(data.as_fd()))?;
            Ok::<_, Error>(Outlet { socket, control, progress: next, answered: 0, peer })
        });
        // Who could not be welcomed is gone, and is owed no refusal.
        arrived.or_else(|_| {
            inbox.leave();
            Ok(())
        })
    })
}
