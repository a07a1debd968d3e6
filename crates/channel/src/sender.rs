//! The sending end: to one receiver, or to many that read the same slots.

mod tx_ring;
mod waiting;

use std::os::fd::OwnedFd;

use sockscope_record::Point;

use crate::address::Address;
use crate::backoff::SpinBudget;
use crate::error::Error;
use crate::handshake::ConnectRequest;
use crate::listener::Listener;
use crate::memory::{LOW_HALF_AT, OwnSegment, PROGRESS_AT};
use crate::observe::{Event, Observer, Unobserved, now_ns};
use crate::peer::Peer;
use crate::peers::Peers;
use crate::ring::RingWriter;
use crate::settings::{Settings, Wait};
use crate::wakeup::{self, Order};

pub(crate) use tx_ring::TxRing;

/// The sending end of channels. All its receivers read the same slots, so a message is written once.
///
/// It is either bound to an address at which receivers [subscribe](crate::Receiver::subscribe), or
/// calls a receiver that is [bound](crate::Receiver::bind), with the first message. Messages of one
/// sender reach each receiver in order; none is sent twice.
pub struct Sender<O = Unobserved> {
    ring: RingWriter,
    data: OwnedFd,
    settings: Settings,
    peers: Peers<TxRing>,
    /// The address to call when no receiver is connected.
    target: Option<Address>,
    order: Order,
    spin_budget: SpinBudget,
    observer: O,
    listener: Option<Listener>,
}

impl Sender {
    /// A sender to the receiver that is bound to `address`. It calls there with the first message,
    /// and again with the next one after that receiver was gone.
    ///
    /// # Errors
    /// `BadSetting`; `System` when there is no memory.
    pub fn to(address: Address, settings: Settings) -> Result<Self, Error> {
        Self::with_target(Some(address), settings)
    }

    /// A sender to all receivers that subscribe at `address`, each from the next message on. Without
    /// any, messages are dropped.
    ///
    /// # Errors
    /// As [`Sender::to`]; `Taken` when another process listens there already.
    pub fn bind(address: &Address, settings: Settings) -> Result<Self, Error> {
        Self::bind_as(address, settings, 0, |_| {})
    }

    /// As `bind`, with an incarnation for replies to callers. `on_arrival` gets the request of each
    /// accepted caller, in the listener's thread.
    pub(crate) fn bind_as(
        address: &Address,
        settings: Settings,
        incarnation: u64,
        on_arrival: impl FnMut(&ConnectRequest) + Send + 'static,
    ) -> Result<Self, Error> {
        let mut sender = Self::with_target(None, settings)?;
        let Self { data, ring, settings, peers, .. } = &sender;
        let host = tx_ring::Host::new(data, ring, settings, peers.inbox(), incarnation)?;
        let admit = tx_ring::admission(host, on_arrival);
        sender.listener = Some(Listener::open(address, sender.settings.trust, admit)?);
        Ok(sender)
    }

    fn with_target(target: Option<Address>, settings: Settings) -> Result<Self, Error> {
        let geometry = settings.geometry().map_err(Error::setting)?;
        let len = usize::try_from(geometry.segment_bytes());
        let len = len.map_err(|_| Error::BadSetting { what: "slots that memory can hold" })?;
        let (segment, data) = OwnSegment::create(len)?;
        Ok(Self {
            ring: RingWriter::new(segment, geometry, settings.when_full),
            data,
            peers: Peers::new(settings.peers_max)?,
            settings,
            target,
            order: Order::new(),
            spin_budget: SpinBudget::default(),
            observer: Unobserved,
            listener: None,
        })
    }
}

impl<O: Observer> Sender<O> {
    /// The same sender, watched by `observer` at points 1 and 2.
    pub fn observed<P: Observer>(self, observer: P) -> Sender<P> {
        Sender {
            ring: self.ring,
            data: self.data,
            settings: self.settings,
            peers: self.peers,
            target: self.target,
            order: self.order,
            spin_budget: self.spin_budget,
            observer,
            listener: self.listener,
        }
    }

    /// Sends a copy of `message` and returns its number, from 0 on. There is no further copy: the
    /// receiver reads it in place.
    ///
    /// # Errors
    /// `TooLong`; `WouldBlock` and `TimedOut` when no slot became free; of a sender that calls its
    /// receiver also the errors of [`Sender::connect`], and `PeerGone` and `Misbehaved`, once each.
    /// The message is then not sent, and the next one sets the channel up anew.
    #[inline]
    pub fn send(&mut self, message: &[u8], wait: Wait) -> Result<u64, Error> {
        let slot_bytes = self.ring.geometry().slot_bytes() as usize;
        if message.len() > slot_bytes {
            return Err(Error::TooLong { bytes: message.len(), slot_bytes });
        }
        self.make_room(wait)?;
        self.ring.payload()[..message.len()].copy_from_slice(message);
        Ok(self.publish(message.len() as u32))
    }

    /// The next slot, to be written in place.
    ///
    /// # Errors
    /// As [`Sender::send`].
    pub fn reserve(&mut self, wait: Wait) -> Result<Slot<'_, O>, Error> {
        self.make_room(wait)?;
        Ok(Slot { sender: self })
    }

    /// Sets up a channel to the receiver bound to `address`, in addition to existing ones. It gets
    /// the messages from now on.
    ///
    /// # Errors
    /// `NotThere`, `Rejected`, `BadSetup`, `TimedOut`, `System`.
    pub fn connect(&mut self, address: &Address) -> Result<Peer, Error> {
        let Self { data, ring, settings, peers, .. } = &*self;
        let tx_ring = tx_ring::call(address, data, ring, settings, peers.inbox())?;
        let peer = tx_ring.peer;
        self.attach(tx_ring)?;
        Ok(peer)
    }

    /// The receivers, as far as the sender has noticed.
    pub fn peers(&mut self) -> impl Iterator<Item = Peer> + '_ {
        self.take_arrivals();
        self.peers.here.iter().map(|tx_ring| tx_ring.peer)
    }

    /// Takes in new receivers and detaches those that have hung up. Every call that sends does so too,
    /// now and then.
    pub fn attend(&mut self) {
        self.take_arrivals();
        self.check_peers();
    }

    /// Why receivers were detached since the last call: `PeerGone` and `Misbehaved`, the oldest first,
    /// at most `peers_max`. A sender that calls its receiver gives them as errors of sending too.
    pub fn disconnects(&mut self) -> impl Iterator<Item = Error> + '_ {
        self.peers.disconnects()
    }

    /// Messages sent so far.
    pub fn sent(&self) -> u64 {
        self.ring.next()
    }

    /// Messages that every receiver has given back, by their published progress.
    pub fn read_by_all(&self) -> u64 {
        self.peers.here.iter().map(TxRing::latest_progress).min().unwrap_or(self.ring.next())
    }

    /// Bytes of shared memory that this sender holds.
    pub fn segment_bytes(&self) -> u64 {
        self.ring.geometry().segment_bytes()
    }

    #[inline]
    fn make_room(&mut self, wait: Wait) -> Result<(), Error> {
        if self.peers.has_arrivals() {
            self.take_arrivals();
        }
        if self.target.is_some() && (self.peers.here.is_empty() || self.peers.has_disconnects()) {
            self.call_target()?;
        }
        if self.ring.has_room() { Ok(()) } else { self.wait_for_room(wait) }
    }

    /// Publishes the next slot and signals it.
    #[inline]
    fn publish(&mut self, len: u32) -> u64 {
        let number = self.ring.next();
        if O::ACTIVE {
            self.observe(Point::SendEnqueue, len);
            self.observe(Point::SendDequeue, len);
        }
        self.ring.publish(len);
        self.order.after_progress();
        for tx_ring in &mut self.peers.here {
            let word = self.ring.segment.futex(PROGRESS_AT + LOW_HALF_AT);
            let TxRing { control, answered, socket, .. } = tx_ring;
            wakeup::notify(control, answered, number + 1, word, socket);
        }
        // A sender that never waits notices in no other way that its receivers have hung up.
        if number & (self.ring.geometry().slots() - 1) == 0 {
            self.check_peers();
        }
        number
    }

    fn observe(&mut self, point: Point, len: u32) {
        let (number, offset) = (self.ring.next(), self.ring.offset());
        self.observer.passed(Event { at_ns: now_ns(), point, peer: 0, number, offset, len });
    }
}

/// A slot to be written in place. Dropped without [`Slot::send`] nothing is sent.
pub struct Slot<'a, O: Observer = Unobserved> {
    sender: &'a mut Sender<O>,
}

impl<O: Observer> Slot<'_, O> {
    /// All bytes of the slot; they hold the rest of an earlier message.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.sender.ring.payload()
    }

    /// Sends the first `len` bytes and returns the message's number.
    ///
    /// # Errors
    /// `TooLong` when the slot has less; nothing is sent then.
    #[inline]
    pub fn send(self, len: usize) -> Result<u64, Error> {
        let slot_bytes = self.sender.ring.geometry().slot_bytes();
        match u32::try_from(len) {
            Ok(len) if len <= slot_bytes => Ok(self.sender.publish(len)),
            _ => Err(Error::TooLong { bytes: len, slot_bytes: slot_bytes as usize }),
        }
    }
}
