//! The ring of one sender, as its receiver reads it; and set-up of it from either side.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use crate::address::Address;
use crate::error::Error;
use crate::handshake::{ConnectReply, ConnectRequest, Offer, Role};
use crate::listener::{Caller, Inbox};
use crate::memory::{LOW_HALF_AT, PROGRESS_AT, PeerSegment};
use crate::peer::Peer;
use crate::peers::Attached;
use crate::reject::RejectReason;
use crate::ring::{Broken, Found, RingReader};
use crate::settings::{Settings, WhenFull};
use crate::wakeup::{self, Order};
use crate::{setup, socket};

/// One sender's ring at a receiver, with the socket to that sender.
pub(crate) struct RxRing {
    pub socket: OwnedFd,
    pub reader: RingReader,
    order: Order,
    /// The sender's last request for a wake-up that was answered.
    answered: u32,
    pub peer: Peer,
    /// The message just found, of a sender that overwrites.
    copy: Vec<u8>,
}

impl Attached for RxRing {
    fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    fn peer(&self) -> Peer {
        self.peer
    }
}

impl RxRing {
    fn new(socket: OwnedFd, reader: RingReader, peer: Peer) -> Self {
        Self { socket, reader, order: Order::new(), answered: 0, peer, copy: Vec::new() }
    }

    /// The next message's number, length and offset. Without a message, publishes which slots are free:
    /// the sender may be waiting for them.
    #[inline]
    pub fn look(&mut self) -> Result<Option<(u64, u32, u64)>, Broken> {
        match self.reader.look()? {
            Found::Message { number, len, offset } if self.take(number, len) => {
                Ok(Some((number, len, offset)))
            }
            _ => {
                self.publish_progress();
                Ok(None)
            }
        }
    }

    /// Copies a message that may be overwritten, and returns whether the copy is whole.
    #[inline]
    fn take(&mut self, number: u64, len: u32) -> bool {
        if self.reader.when_full() == WhenFull::Wait {
            return true;
        }
        self.copy.resize(len as usize, 0);
        self.reader.data.copy_to(self.reader.payload_at(number), &mut self.copy);
        let whole = self.reader.is_still_there(number, len);
        if !whole {
            self.reader.lose();
        }
        whole
    }

    /// Gives the slot of the message just read back.
    #[inline]
    pub fn pass(&mut self) {
        if self.reader.pass() {
            self.publish_progress();
        }
    }

    #[inline]
    fn publish_progress(&mut self) {
        if self.reader.publish() {
            self.order.after_progress();
            let word = self.reader.control.futex(PROGRESS_AT + LOW_HALF_AT);
            let next = self.reader.next();
            wakeup::notify(&self.reader.data, &mut self.answered, next, word, &self.socket);
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
        match self.reader.when_full() {
            WhenFull::Wait => Bytes::Shared(&self.reader.data, self.reader.payload_at(number)),
            WhenFull::Overwrite => Bytes::Copied(&self.copy),
        }
    }
}

/// The caller, when it is a member of a group: its number, and that of its join.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member {
    pub number: u32,
    pub incarnation: u64,
}

/// Subscribes to the sender bound to `address`, which is member `theirs` of a group when `own` is
/// given. Returns also the incarnation of the end that answers.
pub(crate) fn call(
    address: &Address,
    settings: &Settings,
    inbox: &Inbox<RxRing>,
    own: Option<Member>,
    theirs: Option<u32>,
) -> Result<(RxRing, u64), Error> {
    if !inbox.enter(settings.peers_max) {
        return Err(Error::BadSetting { what: "fewer senders than `peers_max`" });
    }
    let request = ConnectRequest {
        role: Role::Receives,
        offer: Offer::NONE,
        member: own.map(|own| own.number),
        incarnation: own.map_or(0, |own| own.incarnation),
    };
    let attach = || {
        let (control, file) = RingReader::control_segment()?;
        let answer = setup::call(address, &request, &file, settings)?;
        let data = map(&answer.offer, &answer.descriptor, settings.segment_bytes_max);
        let data = data.map_err(|what| Error::BadSetup { what })?;
        let peer = answer.peer(inbox.id(), theirs);
        let reader = reader(data, control, &answer.offer)?;
        Ok((RxRing::new(answer.socket, reader, peer), answer.incarnation))
    };
    attach().inspect_err(|_| inbox.leave())
}

/// Accepts or rejects a caller, for the listener of a bound receiver.
pub(crate) fn admission(
    settings: &Settings,
    inbox: &Arc<Inbox<RxRing>>,
) -> impl FnMut(Caller) -> Result<(), RejectReason> + Send + 'static {
    let (most, bytes_max) = (settings.peers_max, settings.segment_bytes_max);
    let inbox = Arc::clone(inbox);
    move |caller: Caller| {
        let offer = caller.request.offer;
        if caller.request.role != Role::Sends {
            return Err(RejectReason::WrongRole);
        }
        if offer.geometry().map_or(0, |geometry| geometry.segment_bytes()) > bytes_max {
            return Err(RejectReason::TooLarge);
        }
        let data =
            map(&offer, &caller.descriptor, bytes_max).map_err(|_| RejectReason::BadRequest)?;
        if !inbox.enter(most) {
            return Err(RejectReason::Full);
        }
        let arrived = inbox.arrive(|| accept(caller, data, &inbox));
        // A caller that the reply did not reach has hung up, and needs no reason.
        arrived.or_else(|_| {
            inbox.leave();
            Ok(())
        })
    }
}

fn accept(caller: Caller, data: PeerSegment, inbox: &Inbox<RxRing>) -> Result<RxRing, Error> {
    let Caller { socket, request, pid, uid, .. } = caller;
    let (control, file) = RingReader::control_segment()?;
    let reader = reader(data, control, &request.offer)?;
    let peer = Peer { id: inbox.id(), pid, uid, member: request.member };
    let reply = ConnectReply::Accepted { offer: Offer::NONE, incarnation: 0 }.encode();
    socket::send_setup(&socket, &reply, Some(file.as_fd()))?;
    Ok(RxRing::new(socket, reader, peer))
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
) -> Result<RingReader, Error> {
    let geometry = offer.geometry().map_err(|what| Error::BadSetup { what })?;
    Ok(RingReader::new(data, control, geometry, offer.when_full, offer.next))
}

/// The place of a message's bytes.
enum Bytes<'a> {
    /// In the slot.
    Shared(&'a PeerSegment, usize),
    /// In a copy of our own.
    Copied(&'a [u8]),
}
