//! One sender of a receiver: how it is attached, from either side, and how it is read.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use crate::address::Address;
use crate::door::{Caller, Inbox};
use crate::error::Error;
use crate::hello::{Hello, Offer, Role, Welcome};
use crate::memory::{LOW_HALF_AT, PROGRESS_AT, PeerSegment};
use crate::peer::Peer;
use crate::peers::Attached;
use crate::refusal::Refusal;
use crate::settings::{Settings, WhenFull};
use crate::signal::{self, Order};
use crate::slots::{Broken, Found, SlotReader};
use crate::{setup, socket};

/// A sender, as its receiver sees it.
pub(crate) struct Inlet {
    pub socket: OwnedFd,
    pub slots: SlotReader,
    order: Order,
    /// Its last alarm that was answered.
    answered: u32,
    pub peer: Peer,
    /// The message just found, of a sender that overwrites.
    copy: Vec<u8>,
}

impl Attached for Inlet {
    fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    fn peer(&self) -> Peer {
        self.peer
    }
}

impl Inlet {
    fn new(socket: OwnedFd, slots: SlotReader, peer: Peer) -> Self {
        Self { socket, slots, order: Order::new(), answered: 0, peer, copy: Vec::new() }
    }

    /// The next message's number, length and offset. Tells the sender which slots are free when
    /// there is none: it may be waiting for them.
    #[inline]
    pub fn look(&mut self) -> Result<Option<(u64, u32, u64)>, Broken> {
        match self.slots.look()? {
            Found::Message { number, len, offset } if self.take(number, len) => {
                Ok(Some((number, len, offset)))
            }
            _ => {
                self.tell();
                Ok(None)
            }
        }
    }

    /// Copies a message that may be written over, and says whether the copy is whole.
    #[inline]
    fn take(&mut self, number: u64, len: u32) -> bool {
        if self.slots.when_full() == WhenFull::Wait {
            return true;
        }
        self.copy.resize(len as usize, 0);
        self.slots.data.copy_to(self.slots.payload_at(number), &mut self.copy);
        let whole = self.slots.is_still_there(number, len);
        if !whole {
            self.slots.lose();
        }
        whole
    }

    /// Gives the slot of the message just read back.
    #[inline]
    pub fn pass(&mut self) {
        if self.slots.pass() {
            self.tell();
        }
    }

    #[inline]
    fn tell(&mut self) {
        if self.slots.tell() {
            self.order.after_progress();
            let word = self.slots.control.futex(PROGRESS_AT + LOW_HALF_AT);
            let next = self.slots.next();
            signal::answer(&self.slots.data, &mut self.answered, next, word, &self.socket);
        }
    }

    pub fn copy_to(&self, number: u64, at: usize, to: &mut [u8]) {
        match self.place(number) {
            Bytes::Shared(data, payload_at) => data.copy_to(payload_at + at, to),
            Bytes::Copied(copy) => to.copy_from_slice(&copy[at..at + to.len()]),
        }
    }

    /// # Safety
    /// As `Message::as_bytes`.
    pub unsafe fn bytes(&self, number: u64, len: usize) -> &[u8] {
        match self.place(number) {
            // SAFETY: the caller vouches for the peer.
            Bytes::Shared(data, payload_at) => unsafe { data.bytes(payload_at, len) },
            Bytes::Copied(copy) => copy,
        }
    }

    fn place(&self, number: u64) -> Bytes<'_> {
        match self.slots.when_full() {
            WhenFull::Wait => Bytes::Shared(&self.slots.data, self.slots.payload_at(number)),
            WhenFull::Overwrite => Bytes::Copied(&self.copy),
        }
    }
}

/// Who calls, when it is a member of a group: its number, and that of its join.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member {
    pub number: u32,
    pub incarnation: u64,
}

/// Subscribes to the sender bound to `address`, which is member `theirs` of a group when `own` is
/// given. Returns also the incarnation of who answered.
pub(crate) fn call(
    address: &Address,
    settings: &Settings,
    inbox: &Inbox<Inlet>,
    own: Option<Member>,
    theirs: Option<u32>,
) -> Result<(Inlet, u64), Error> {
    if !inbox.enter(settings.peers_max) {
        return Err(Error::BadSetting { what: "fewer senders than `peers_max`" });
    }
    let hello = Hello {
        role: Role::Receives,
        offer: Offer::NONE,
        member: own.map(|own| own.number),
        incarnation: own.map_or(0, |own| own.incarnation),
    };
    let attach = || {
        let (control, file) = SlotReader::control_segment()?;
        let answer = setup::call(address, &hello, &file, settings)?;
        let data = map(&answer.offer, &answer.descriptor, settings.segment_bytes_max);
        let data = data.map_err(|what| Error::BadSetup { what })?;
        let peer = answer.peer(inbox.id(), theirs);
        let slots = reader(data, control, &answer.offer)?;
        Ok((Inlet::new(answer.socket, slots, peer), answer.incarnation))
    };
    attach().inspect_err(|_| inbox.leave())
}

/// What the door of a bound receiver does with a caller.
pub(crate) fn admission(
    settings: &Settings,
    inbox: &Arc<Inbox<Inlet>>,
) -> impl FnMut(Caller) -> Result<(), Refusal> + Send + 'static {
    let (most, bytes_max) = (settings.peers_max, settings.segment_bytes_max);
    let inbox = Arc::clone(inbox);
    move |caller: Caller| {
        let offer = caller.hello.offer;
        if caller.hello.role != Role::Sends {
            return Err(Refusal::WrongRole);
        }
        if offer.geometry().map_or(0, |geometry| geometry.segment_bytes()) > bytes_max {
            return Err(Refusal::TooLarge);
        }
        let data = map(&offer, &caller.descriptor, bytes_max).map_err(|_| Refusal::BadHello)?;
        if !inbox.enter(most) {
            return Err(Refusal::Full);
        }
        let arrived = inbox.arrive(|| welcome(caller, data, &inbox));
        // Who could not be welcomed is gone, and is owed no refusal.
        arrived.or_else(|_| {
            inbox.leave();
            Ok(())
        })
    }
}

fn welcome(caller: Caller, data: PeerSegment, inbox: &Inbox<Inlet>) -> Result<Inlet, Error> {
    let Caller { socket, hello, pid, uid, .. } = caller;
    let (control, file) = SlotReader::control_segment()?;
    let slots = reader(data, control, &hello.offer)?;
    let peer = Peer { id: inbox.id(), pid, uid, member: hello.member };
    let welcome = Welcome::Accepted { offer: Offer::NONE, incarnation: 0 }.encode();
    socket::send_setup(&socket, &welcome, Some(file.as_fd()))?;
    Ok(Inlet::new(socket, slots, peer))
}

/// Maps the data segment that was offered.
fn map(offer: &Offer, file: &OwnedFd, bytes_max: u64) -> Result<PeerSegment, &'static str> {
    let geometry = offer.geometry()?;
    if geometry.segment_bytes() > bytes_max {
        return Err("a segment of at most `segment_bytes_max`");
    }
    // `Geometry` made sure that the size fits into memory.
    let len = geometry.segment_bytes() as usize;
    PeerSegment::open(file, len).map_err(|_| "a sealed memory file of the size offered")
}

fn reader(
    data: PeerSegment,
    control: crate::memory::OwnSegment,
    offer: &Offer,
) -> Result<SlotReader, Error> {
    let geometry = offer.geometry().map_err(|what| Error::BadSetup { what })?;
    Ok(SlotReader::new(data, control, geometry, offer.when_full, offer.next))
}

/// Where an inlet's bytes are.
enum Bytes<'a> {
    /// In the slot.
    Shared(&'a PeerSegment, usize),
    /// In a copy of our own.
    Copied(&'a [u8]),
}
