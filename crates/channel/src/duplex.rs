//! Both directions between the same processes.

use crate::address::Address;
use crate::error::Error;
use crate::receiver::Receiver;
use crate::sender::Sender;
use crate::settings::Settings;

/// A sending and a receiving end that belong together.
pub struct Duplex {
    /// Sends.
    pub sender: Sender,
    /// Receives.
    pub receiver: Receiver,
}

impl Duplex {
    /// Receives at `own` and sends to `peer`, where the other process does it the other way round.
    /// Whether a process of this machine is there or a [`Proxy`](crate::library::Proxy) for one of
    /// another, does not show.
    ///
    /// # Errors
    /// As [`Receiver::bind`] and [`Sender::to`].
    pub fn new(own: &Address, peer: Address, settings: Settings) -> Result<Self, Error> {
        let receiver = Receiver::bind(own, settings.clone())?;
        Ok(Self { sender: Sender::to(peer, settings)?, receiver })
    }
}
