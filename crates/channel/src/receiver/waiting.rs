//! How a receiver waits for a message, and how it notices who came and who is gone.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use super::{Located, Receiver};
use crate::error::Error;
use crate::memory::{self, WORDS_MAX};
use crate::observe::Observer;
use crate::patience::{Patience, Step};
use crate::settings::{Means, Wait};
use crate::setup;
use crate::signal::{self, Asleep};
use crate::slots::Broken;

impl<O: Observer> Receiver<O> {
    /// A descriptor that becomes readable when a message came after [`Receiver::arm`], or a sender
    /// came or went. It stays the same; nothing is to be read from it.
    ///
    /// # Errors
    /// `System` when there is no descriptor left.
    pub fn descriptor(&mut self) -> Result<BorrowedFd<'_>, Error> {
        Ok(self.peers.poller()?.descriptor())
    }

    /// Asks for the descriptor to become readable. False when there is something to receive, a
    /// message or the departure of a sender: then receive, for nothing was asked.
    ///
    /// # Errors
    /// As [`Receiver::descriptor`]; `Misbehaved`.
    pub fn arm(&mut self) -> Result<bool, Error> {
        let ready = self.peers.poller()?.ready()?;
        self.settle_sockets(&ready);
        let asleep = self.set_alarm(Means::Socket)?.for_descriptor()?;
        Ok(asleep && !self.peers.has_departures())
    }

    /// Who only ever looks would not notice otherwise that a sender is gone.
    fn check_now_and_then(&mut self) {
        const LOOKS_BETWEEN_CHECKS: u32 = 1_024;
        self.idle_looks = self.idle_looks.wrapping_add(1);
        if self.idle_looks.is_multiple_of(LOOKS_BETWEEN_CHECKS) {
            self.check_peers();
        }
    }

    #[cold]
    fn departure(&mut self) -> Result<(), Error> {
        self.peers.departure().map_or(Ok(()), Err)
    }

    /// The message found at last. Departures are told when there is nothing to receive: whoever is
    /// gone was read to its end before.
    pub(super) fn wait_for_message(&mut self, wait: Wait) -> Result<Located, Error> {
        let mut patience = Patience::new(wait, self.eagerness);
        let mut slept = false;
        if wait.by == Means::Nothing {
            self.check_now_and_then();
        }
        loop {
            if self.peers.has_departures() {
                self.departure()?;
            }
            match patience.next()? {
                Step::Look => std::hint::spin_loop(),
                Step::Check => {
                    self.check_peers();
                    std::thread::yield_now();
                }
                // A sleep that brought nothing may have been that of the peer's last message.
                Step::Sleep(_) if std::mem::take(&mut slept) => self.check_peers(),
                Step::Sleep(until) => {
                    self.eagerness.lower();
                    self.sleep(wait.by, until)?;
                    slept = true;
                }
            }
            if let Some(found) = self.find()? {
                if !slept {
                    self.eagerness.raise();
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
        match self.set_alarm(means)? {
            Asleep::No => {}
            Asleep::Surely if means == Means::Socket => {
                let ready = self.peers.poller()?.sleep(until)?;
                self.settle_sockets(&ready);
            }
            Asleep::Surely | Asleep::Perhaps => self.sleep_on_words(until)?,
        }
        self.clear_alarms();
        Ok(())
    }

    /// Sets the alarm of each sender and looks once more. A sender that was taken in by that look has
    /// none: then it is all to be done again.
    fn set_alarm(&mut self, means: Means) -> Result<Asleep, Error> {
        let (_, news_seen) = self.peers.news();
        for inlet in &self.peers.here {
            let alarm = signal::alarm(means, inlet.slots.next());
            signal::set(&inlet.slots.control, alarm);
        }
        let surely = signal::before_look();
        let turn = self.turn;
        let found = self.find()?;
        self.turn = turn;
        if found.is_some() || self.peers.news().1 != news_seen {
            self.clear_alarms();
            return Ok(Asleep::No);
        }
        Ok(if surely { Asleep::Surely } else { Asleep::Perhaps })
    }

    fn clear_alarms(&self) {
        for inlet in &self.peers.here {
            signal::set(&inlet.slots.control, 0);
        }
    }

    fn sleep_on_words(&self, until: Option<Instant>) -> Result<(), Error> {
        let senders = self.peers.here.iter().map(|inlet| inlet.slots.futex());
        let words: Vec<_> = senders.chain([self.peers.news()]).collect();
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
        let position = self.peers.here[at].slots.next();
        let peer = self.peers.detach(at).peer;
        Error::Misbehaved { peer, what, position }
    }

    /// Takes the signals that woke us, and notices who is gone.
    fn settle_sockets(&mut self, ready: &[u64]) {
        for id in ready {
            if let Some(at) = self.peers.hung_up(*id) {
                self.leave_if_read(at);
            }
        }
        self.peers.adopt();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, Sender, Settings};

    #[test]
    fn no_receiver_sleeps_without_an_alarm_for_a_sender_that_just_came() {
        let at = Address::new(&format!("unit-{}-just-came", std::process::id())).unwrap();
        let mut receiver = Receiver::bind(&at, Settings::default()).unwrap();
        let mut sender = Sender::to(at.clone(), Settings::default()).unwrap();
        sender.connect(&at).unwrap();
        assert_eq!(receiver.set_alarm(Means::Socket).unwrap(), Asleep::No);
        assert_eq!(receiver.peers.here.len(), 1);
        assert_eq!(receiver.set_alarm(Means::Socket).unwrap(), Asleep::Surely);
        sender.send(b"x", Wait::NOT).unwrap();
        assert_eq!(receiver.peers.poller().unwrap().sleep(None).unwrap().len(), 1);
    }
}
