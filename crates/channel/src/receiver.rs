//! The receiving end: of one sender, or of many that are read in turn.

mod rx_ring;
mod waiting;

use std::sync::Arc;

use sockscope_record::Point;

use crate::address::Address;
use crate::backoff::SpinBudget;
use crate::error::Error;
use crate::listener::{Inbox, Listener};
use crate::observe::{Event, Observer, Unobserved, now_ns};
use crate::peer::Peer;
use crate::peers::Peers;
use crate::settings::{Settings, Wait};
use crate::socket;

pub(crate) use rx_ring::{Member, RxRing, call};

/// The receiving end of channels.
///
/// It is either bound to an address that senders [call](crate::Sender::to), or subscribes to senders
/// that are [bound](crate::Sender::bind). Messages of one sender are in order; those of several
/// senders are taken in turn, so that no sender can shut the others out.
pub struct Receiver<O = Unobserved> {
    settings: Settings,
    peers: Peers<RxRing>,
    /// The sender to check first.
    turn: usize,
    /// Polls without a message by calls that do not wait.
    idle_looks: u32,
    spin_budget: SpinBudget,
    observer: O,
    listener: Option<Listener>,
}

impl Receiver {
    /// A receiver of all senders that call `address`.
    ///
    /// # Errors
    /// `BadSetting`; `Taken` when another process listens there already; `System`.
    pub fn bind(address: &Address, settings: Settings) -> Result<Self, Error> {
        let mut receiver = Self::new(settings)?;
        let admit = rx_ring::admission(&receiver.settings, receiver.peers.inbox());
        receiver.listener = Some(Listener::open(address, receiver.settings.trust, admit)?);
        Ok(receiver)
    }

    /// A receiver of the messages that the sender bound to `address` sends from now on.
    ///
    /// # Errors
    /// `NotThere`, `Rejected`, `BadSetup`, `BadSetting`, `TimedOut`, `System`.
    pub fn subscribe(address: &Address, settings: Settings) -> Result<Self, Error> {
        let mut receiver = Self::new(settings)?;
        receiver.add(address)?;
        Ok(receiver)
    }

    /// A receiver without a sender yet.
    pub(crate) fn new(settings: Settings) -> Result<Self, Error> {
        settings.geometry().map_err(Error::setting)?;
        Ok(Self {
            peers: Peers::new(settings.peers_max)?,
            settings,
            turn: 0,
            idle_looks: 0,
            spin_budget: SpinBudget::default(),
            observer: Unobserved,
            listener: None,
        })
    }
}

impl<O: Observer> Receiver<O> {
    /// The same receiver, watched by `observer` at points 7 and 8.
    pub fn observed<P: Observer>(self, observer: P) -> Receiver<P> {
        Receiver {
            settings: self.settings,
            peers: self.peers,
            turn: self.turn,
            idle_looks: self.idle_looks,
            spin_budget: self.spin_budget,
            observer,
            listener: self.listener,
        }
    }

    /// Subscribes to one more sender.
    ///
    /// # Errors
    /// As [`Receiver::subscribe`].
    pub fn add(&mut self, address: &Address) -> Result<Peer, Error> {
        let (rx_ring, _) = call(address, &self.settings, self.peers.inbox(), None, None)?;
        let peer = rx_ring.peer;
        self.peers.attach(rx_ring)?;
        Ok(peer)
    }

    /// The next message, in its slot. The slot is given back when the message is dropped.
    ///
    /// # Errors
    /// `WouldBlock` and `TimedOut` when none arrived; `PeerGone` and `Misbehaved` once for each sender
    /// that was detached, after its earlier messages. The others' messages are not affected:
    /// receive again.
    #[inline]
    pub fn receive(&mut self, wait: Wait) -> Result<Message<'_, O>, Error> {
        let found = match self.find()? {
            Some(found) => found,
            None => self.wait_for_message(wait)?,
        };
        self.observe(Point::ReceiveEnqueue, found);
        Ok(Message { receiver: self, found })
    }

    /// The next message, copied to the beginning of `to`; its length. Of a message that is longer
    /// than `to` the rest is dropped, as with recv(2).
    ///
    /// # Errors
    /// As [`Receiver::receive`].
    #[inline]
    pub fn receive_into(&mut self, to: &mut [u8], wait: Wait) -> Result<usize, Error> {
        let message = self.receive(wait)?;
        message.copy_to(to);
        Ok(message.len())
    }

    /// The senders, as far as the receiver has noticed.
    pub fn peers(&mut self) -> impl Iterator<Item = Peer> + '_ {
        self.peers.take_arrivals();
        self.peers.here.iter().map(|rx_ring| rx_ring.peer)
    }

    /// Messages of the present senders that were written over before they were read. Only senders
    /// that [overwrite](crate::WhenFull::Overwrite) have any.
    pub fn lost(&self) -> u64 {
        self.peers.here.iter().map(|rx_ring| rx_ring.reader.lost()).sum()
    }

    /// The inbox into which the listener, or a thread that subscribes, puts new senders.
    pub(crate) fn inbox(&self) -> &Arc<Inbox<RxRing>> {
        self.peers.inbox()
    }

    /// Members of a group that are heard and have not hung up.
    pub(crate) fn members_there(&mut self) -> Vec<u32> {
        self.peers.take_arrivals();
        let there = self.peers.here.iter().filter(|rx_ring| !socket::has_hung_up(&rx_ring.socket));
        there.filter_map(|rx_ring| rx_ring.peer.member).collect()
    }

    #[inline]
    fn find(&mut self) -> Result<Option<Located>, Error> {
        if self.peers.has_arrivals() {
            self.peers.take_arrivals();
        }
        let count = self.peers.here.len();
        let mut at = self.turn;
        for _ in 0..count {
            at = if at < count { at } else { 0 };
            match self.peers.here[at].look() {
                Ok(Some((number, len, offset))) => {
                    self.turn = at + 1;
                    return Ok(Some(Located { at, number, len, offset }));
                }
                Ok(None) => {}
                Err(broken) => return Err(self.misbehaved(at, broken)),
            }
            at += 1;
        }
        Ok(None)
    }

    fn observe(&mut self, point: Point, found: Located) {
        if O::ACTIVE {
            let peer = self.peers.here[found.at].peer.id;
            let Located { number, len, offset, .. } = found;
            self.observer.passed(Event { at_ns: now_ns(), point, peer, number, offset, len });
        }
    }
}

/// Where the message is.
#[derive(Debug, Clone, Copy)]
struct Located {
    /// Index of the sender's ring in `Peers::here`.
    at: usize,
    number: u64,
    len: u32,
    offset: u64,
}

/// A message in its slot, read in place, which its sender cannot use again before this is dropped.
///
/// The sender's process keeps its right to write there. A well-behaved one never does so before the
/// slot is given back. The writes of a hostile one only change its own message, from one read to the
/// next: read a byte once, or copy it first, before it is checked and used. Number and length are
/// copies and do not change. Of a sender that overwrites, the message is a copy, checked to be whole
/// when it was received.
pub struct Message<'a, O: Observer = Unobserved> {
    receiver: &'a mut Receiver<O>,
    found: Located,
}

impl<O: Observer> Message<'_, O> {
    /// Bytes of the message.
    pub fn len(&self) -> usize {
        self.found.len as usize
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.found.len == 0
    }

    /// Its number in its sender's stream, from 0 on.
    pub fn number(&self) -> u64 {
        self.found.number
    }

    /// The sender.
    pub fn from(&self) -> Peer {
        self.rx_ring().peer
    }

    /// Copies the message to the beginning of `to`, as far as there is room; each word is read once.
    /// Returns the bytes copied.
    #[inline]
    pub fn copy_to(&self, to: &mut [u8]) -> usize {
        let len = self.len().min(to.len());
        self.rx_ring().copy_to(self.found.number, 0, &mut to[..len]);
        len
    }

    /// Copies bytes from position `at` on, a multiple of 8, as far as there are any: to read a long
    /// message piece by piece in place. Returns the bytes copied.
    ///
    /// # Panics
    /// When `at` is no multiple of 8.
    pub fn copy_from(&self, at: usize, to: &mut [u8]) -> usize {
        assert!(at.is_multiple_of(8), "{at} is no multiple of 8");
        let len = self.len().saturating_sub(at).min(to.len());
        if len > 0 {
            self.rx_ring().copy_to(self.found.number, at, &mut to[..len]);
        }
        len
    }

    /// A copy of the message.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len()];
        self.copy_to(&mut bytes);
        bytes
    }

    /// The message's own bytes, without any copy.
    ///
    /// # Safety
    /// The sender's process must be trusted to leave the slot alone until the message is dropped,
    /// as every process does that uses this library. It does not matter for senders that overwrite.
    pub unsafe fn as_bytes(&self) -> &[u8] {
        // SAFETY: passed on to the caller.
        unsafe { self.rx_ring().bytes(self.found.number, self.len()) }
    }

    fn rx_ring(&self) -> &RxRing {
        &self.receiver.peers.here[self.found.at]
    }
}

impl<O: Observer> Drop for Message<'_, O> {
    #[inline]
    fn drop(&mut self) {
        self.receiver.observe(Point::ReceiveDequeue, self.found);
        self.receiver.peers.here[self.found.at].pass();
    }
}
