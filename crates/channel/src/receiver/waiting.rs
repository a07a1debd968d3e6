//! The receiver waits for a message, takes in new senders, and detaches those that have hung up.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use super::{Located, Receiver};
use crate::backoff::{Backoff, Step};
use crate::error::Error;
use crate::memory::{self, WORDS_MAX};
use crate::observe::Observer;
use crate::ring::Broken;
use crate::settings::{Means, Wait};
use crate::setup;
use crate::wakeup::{self, Armed};

impl<O: Observer> Receiver<O> {
    /// A descriptor that becomes readable when a message arrives after [`Receiver::arm`], or a sender
    /// connects or hangs up. It stays the same; read nothing from it.
    ///
    /// # Errors
    /// `System` when there is no descriptor left.
    pub fn descriptor(&mut self) -> Result<BorrowedFd<'_>, Error> {
        Ok(self.peers.poller()?.descriptor())
    }

    /// Asks for the descriptor to become readable. False when there is something to receive, a
    /// message or the disconnect of a sender: then receive, as nothing was armed.
    ///
    /// # Errors
    /// As [`Receiver::descriptor`]; `Misbehaved`.
    pub fn arm(&mut self) -> Result<bool, Error> {
        let ready = self.peers.poller()?.ready()?;
        self.settle_sockets(&ready);
        let armed = self.arm_wakeup(Means::Socket)?.for_descriptor()?;
        Ok(armed && !self.peers.has_disconnects())
    }

    /// A caller that never waits notices in no other way that a sender has hung up.
    fn check_now_and_then(&mut self) {
        const LOOKS_BETWEEN_CHECKS: u32 = 1_024;
        self.idle_looks = self.idle_looks.wrapping_add(1);
        if self.idle_looks.is_multiple_of(LOOKS_BETWEEN_CHECKS) {
            self.check_peers();
        }
    }

    #[cold]
    fn report_disconnect(&mut self) -> Result<(), Error> {
        self.peers.next_disconnect().map_or(Ok(()), Err)
    }

    /// The message found at last. Disconnects are reported when there is nothing to receive, so that a
    /// sender that hung up was read to its end before.
    pub(super) fn wait_for_message(&mut self, wait: Wait) -> Result<Located, Error> {
        let mut backoff = Backoff::new(wait, self.spin_budget);
        let mut slept = false;
        if wait.by == Means::Nothing {
            self.check_now_and_then();
        }
        loop {
            if self.peers.has_disconnects() {
                self.report_disconnect()?;
            }
            match backoff.next()? {
                Step::Poll => std::hint::spin_loop(),
                Step::Check => {
                    self.check_peers();
                    std::thread::yield_now();
                }
                // After a sleep without a message the peer may have hung up.
                Step::Sleep(_) if std::mem::take(&mut slept) => self.check_peers(),
                Step::Sleep(until) => {
                    self.spin_budget.lower();
                    self.sleep(wait.by, until)?;
                    slept = true;
                }
            }
            if let Some(found) = self.find()? {
                if !slept {
                    self.spin_budget.raise();
                }
                return Ok(found);
            }
        }
    }

    fn sleep(&mut self, means: Means, until: Option<Instant>) -> Result<(), Error> {
        let means = if self.peers.here.len() < WORDS_MAX { means } else { Means::Socket };
        if means == Means::Socket {
            self.peers.poller()?;
        }
        match self.arm_wakeup(means)? {
            Armed::AlreadyDue => {}
            Armed::Reliably if means == Means::Socket => {
                let ready = self.peers.poller()?.sleep(until)?;
                self.settle_sockets(&ready);
            }
            Armed::Reliably | Armed::Unreliably => self.sleep_on_words(until)?,
        }
        self.disarm_wakeups();
        Ok(())
    }

    /// Requests a wake-up from each sender and checks the rings once more. A sender that this check
    /// takes in has no request yet: then all is to be done again.
    fn arm_wakeup(&mut self, means: Means) -> Result<Armed, Error> {
        let (_, arrivals_seen) = self.peers.arrivals_seq();
        for rx_ring in &self.peers.here {
            wakeup::arm(&rx_ring.reader.control, means, rx_ring.reader.next());
        }
        let is_reliable = wakeup::before_recheck();
        let turn = self.turn;
        let found = self.find()?;
        self.turn = turn;
        if found.is_some() || self.peers.arrivals_seq().1 != arrivals_seen {
            self.disarm_wakeups();
            return Ok(Armed::AlreadyDue);
        }
        Ok(if is_reliable { Armed::Reliably } else { Armed::Unreliably })
    }

    fn disarm_wakeups(&self) {
        for rx_ring in &self.peers.here {
            wakeup::disarm(&rx_ring.reader.control);
        }
    }

    fn sleep_on_words(&self, until: Option<Instant>) -> Result<(), Error> {
        let senders = self.peers.here.iter().map(|rx_ring| rx_ring.reader.futex());
        let words: Vec<_> = senders.chain([self.peers.arrivals_seq()]).collect();
        memory::sleep_on(&words, setup::slice(until))
    }

    /// Detaches the senders that have hung up and have nothing left to read.
    fn check_peers(&mut self) {
        for at in (0..self.peers.here.len()).rev() {
            if self.peers.has_hung_up(at) {
                self.leave_if_read(at);
            }
        }
    }

    /// Detaches a sender that is gone, unless there are messages of it: all that it sent was visible
    /// before its hang-up was.
    fn leave_if_read(&mut self, at: usize) {
        match self.peers.here[at].look() {
            Ok(Some(_)) => {}
            Ok(None) => {
                let peer = self.peers.detach(at).peer;
                self.peers.note(Error::PeerGone { peer });
            }
            Err(broken) => {
                let error = self.misbehaved(at, broken);
                self.peers.note(error);
            }
        }
    }

    #[cold]
    pub(super) fn misbehaved(&mut self, at: usize, Broken(what): Broken) -> Error {
        let position = self.peers.here[at].reader.next();
        let peer = self.peers.detach(at).peer;
        Error::Misbehaved { peer, what, position }
    }

    /// Takes the signals that woke us, and detaches peers that are gone.
    fn settle_sockets(&mut self, ready: &[u64]) {
        for id in ready {
            if let Some(at) = self.peers.hung_up(*id) {
                self.leave_if_read(at);
            }
        }
        self.peers.take_arrivals();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, Sender, Settings};

    #[test]
    fn no_receiver_sleeps_without_a_request_to_a_sender_that_just_connected() {
        let at = Address::new(&format!("unit-{}-just-came", std::process::id())).unwrap();
        let mut receiver = Receiver::bind(&at, Settings::default()).unwrap();
        let mut sender = Sender::to(at.clone(), Settings::default()).unwrap();
        sender.connect(&at).unwrap();
        assert_eq!(receiver.arm_wakeup(Means::Socket).unwrap(), Armed::AlreadyDue);
        assert_eq!(receiver.peers.here.len(), 1);
        assert_eq!(receiver.arm_wakeup(Means::Socket).unwrap(), Armed::Reliably);
        sender.send(b"x", Wait::NOT).unwrap();
        assert_eq!(receiver.peers.poller().unwrap().sleep(None).unwrap().len(), 1);
    }
}
