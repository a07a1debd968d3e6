//! A channel with the parts that an application picked.

use super::{Arrival, Collisions, Ordering, Verdict};
use crate::duplex::Duplex;
use crate::error::Error;
use crate::peer::Peer;
use crate::settings::Wait;

/// Longest header of both parts together.
const HEADER_BYTES_MAX: usize = 1_024;

/// Both directions of a channel, with order and collision detection as the parts have them.
///
/// A message is preceded in its slot by the headers of the parts, order first.
pub struct Endpoint<O, C> {
    duplex: Duplex,
    ordering: O,
    collisions: C,
    header_bytes: usize,
    order_bytes: usize,
}

/// The properties of a message in addition to its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// Which cell it writes; 0 where no part watches.
    pub cell: u64,
    /// Its relation to other writes of the cell.
    pub verdict: Verdict,
    /// The channel that it arrived by; `None` when it was kept until its turn.
    pub from: Option<Peer>,
}

impl<O: Ordering, C: Collisions> Endpoint<O, C> {
    /// Puts the parts on a channel. All users of the channel must have parts with the same headers.
    ///
    /// # Errors
    /// `BadSetting` when the parts' headers are no multiples of 8 bytes, or longer than 1,024.
    pub fn new(duplex: Duplex, ordering: O, collisions: C) -> Result<Self, Error> {
        let (order_bytes, collision_bytes) = (ordering.header_bytes(), collisions.header_bytes());
        let header_bytes = order_bytes.saturating_add(collision_bytes);
        let fits = order_bytes.is_multiple_of(8) && collision_bytes.is_multiple_of(8);
        if !fits || header_bytes > HEADER_BYTES_MAX {
            return Err(Error::BadSetting { what: "headers of whole words, 1,024 bytes at most" });
        }
        Ok(Self { duplex, ordering, collisions, header_bytes, order_bytes })
    }

    /// Sends `message` as a write of cell `cell`.
    ///
    /// # Errors
    /// As [`Sender::send`](crate::Sender::send); the parts' headers count as part of the message.
    pub fn send(&mut self, cell: u64, message: &[u8], wait: Wait) -> Result<u64, Error> {
        let len = self.header_bytes + message.len();
        let mut slot = self.duplex.sender.reserve(wait)?;
        let bytes = slot.bytes_mut();
        let slot_bytes = bytes.len();
        let Some(bytes) = bytes.get_mut(..len) else {
            return Err(Error::TooLong { bytes: len, slot_bytes });
        };
        let (headers, payload) = bytes.split_at_mut(self.header_bytes);
        payload.copy_from_slice(message);
        let (order, collision) = headers.split_at_mut(self.order_bytes);
        self.ordering.stamp(order);
        self.collisions.stamp(cell, collision);
        slot.send(len)
    }

    /// The next message in the order of the part, copied to `to`, which is cleared before.
    ///
    /// # Errors
    /// As [`Receiver::receive`](crate::Receiver::receive).
    pub fn receive(&mut self, to: &mut Vec<u8>, wait: Wait) -> Result<Delivery, Error> {
        loop {
            if let Some(kept) = self.ordering.release() {
                return Ok(self.deliver_kept(&kept, to));
            }
            if let Some(delivery) = self.receive_one(to, wait)? {
                return Ok(delivery);
            }
        }
    }

    /// The channel below.
    pub fn duplex(&mut self) -> &mut Duplex {
        &mut self.duplex
    }

    /// The part that orders, for its counts.
    pub fn ordering(&self) -> &O {
        &self.ordering
    }

    /// `None` when the message is kept, or was there before.
    fn receive_one(&mut self, to: &mut Vec<u8>, wait: Wait) -> Result<Option<Delivery>, Error> {
        let message = self.duplex.receiver.receive(wait)?;
        if message.len() < self.header_bytes {
            // The sender has other parts: no message of ours.
            return Ok(None);
        }
        let mut space = [0; HEADER_BYTES_MAX];
        let headers = &mut space[..self.header_bytes];
        // The sender may change the slot: headers are judged by this copy alone.
        message.copy_to(headers);
        let (order, collision) = headers.split_at(self.order_bytes);
        let rest = |to: &mut Vec<u8>| {
            to.clear();
            to.resize(message.len() - self.header_bytes, 0);
            message.copy_from(self.header_bytes, to);
        };
        let mut keep = || {
            let mut payload = Vec::new();
            rest(&mut payload);
            [collision, &payload].concat()
        };
        if self.ordering.arrive(order, &mut keep) != Arrival::Now {
            return Ok(None);
        }
        rest(to);
        let (cell, verdict) = self.collisions.arrive(collision);
        Ok(Some(Delivery { cell, verdict, from: Some(message.from()) }))
    }

    fn deliver_kept(&mut self, kept: &[u8], to: &mut Vec<u8>) -> Delivery {
        // `keep` put the header there; a part that returns other bytes gets a wrong result.
        let split = (self.header_bytes - self.order_bytes).min(kept.len());
        let (collision, payload) = kept.split_at(split);
        to.clear();
        to.extend_from_slice(payload);
        let (cell, verdict) = self.collisions.arrive(collision);
        Delivery { cell, verdict, from: None }
    }
}
