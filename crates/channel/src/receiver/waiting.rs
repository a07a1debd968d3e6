//! How a receiver waits for a message, and how it notices who came and who is gone.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::{Inlet, Located, Receiver};
use crate::error::Error;
use crate::memory::{self, WORDS_MAX};
use crate::observe::Observer;
use crate::patience::{Patience, Step};
use crate::poller::{BELL, Poller};
use crate::settings::{Means, Wait};
use crate::signal::{self, Asleep};
use crate::slots::Broken;
use crate::{setup, socket};

impl<O: Observer> Receiver<O> {
    /// A descriptor that becomes readable when a message came after [`Receiver::arm`], or a sender
    /// came or went. It stays the same; nothing is to be read from it.
    ///
    /// # Errors
    /// `System` when there is no descriptor left.
    pub fn descriptor(&mut self) -> Result<BorrowedFd<'_>, Error> {
        Ok(self.poller()?.descriptor())
    }

    /// Asks for the descriptor to become readable. False when there is something to receive, a
    /// message or the departure of a sender: then receive, for nothing was asked.
    ///
    /// # Errors
    /// As [`Receiver::descriptor`]; `Misbehaved`.
    pub fn arm(&mut self) -> Result<bool, Error> {
        let ready = self.poller()?.ready()?;
        self.settle_sockets(&ready);
        let asleep = self.set_alarm(Means::Socket)?.for_descriptor()?;
        Ok(asleep && self.departed.is_empty())
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
        self.departed.pop_front().map_or(Ok(()), Err)
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
            if !self.departed.is_empty() {
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
        let means = if self.inlets.len() < WORDS_MAX { means } else { Means::Socket };
        if means == Means::Socket {
            self.poller()?;
        }
        match self.set_alarm(means)? {
            Asleep::No => {}
            Asleep::Surely if means == Means::Socket => {
                let ready = self.poller()?.sleep(until)?;
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
        let news_seen = self.news_seen;
        for inlet in &self.inlets {
            let alarm = signal::alarm(means, inlet.slots.next());
            signal::set(&inlet.slots.control, alarm);
        }
        let surely = signal::before_look();
        let turn = self.turn;
        let found = self.find()?;
        self.turn = turn;
        if found.is_some() || self.news_seen != news_seen {
            self.clear_alarms();
            return Ok(Asleep::No);
        }
        Ok(if surely { Asleep::Surely } else { Asleep::Perhaps })
    }

    fn clear_alarms(&self) {
        for inlet in &self.inlets {
            signal::set(&inlet.slots.control, 0);
        }
    }

    fn sleep_on_words(&self, until: Option<Instant>) -> Result<(), Error> {
        let senders = self.inlets.iter().map(|inlet| inlet.slots.futex());
        let words: Vec<_> = senders.chain([(self.inbox.news(), self.news_seen)]).collect();
        memory::sleep_on(&words, setup::slice(until))
    }

    /// Takes in the senders that the door admitted.
    #[cold]
    pub(super) fn adopt(&mut self) {
        let news = self.inbox.news().load(Ordering::SeqCst);
        if news == self.news_seen {
            return;
        }
        self.news_seen = news;
        for inlet in self.inbox.take() {
            let peer = inlet.peer;
            if self.attach(inlet).is_err() {
                self.note(Error::PeerGone { peer });
            }
        }
    }

    pub(super) fn attach(&mut self, inlet: Inlet) -> Result<(), Error> {
        if let Some(poller) = &self.poller {
            let added = poller.add(&inlet.socket, u64::from(inlet.peer.id));
            added.inspect_err(|_| self.inbox.leave())?;
        }
        self.inlets.push(inlet);
        Ok(())
    }

    /// Detaches the senders that have hung up and have nothing left to read.
    fn check_peers(&mut self) {
        for at in (0..self.inlets.len()).rev() {
            if socket::has_hung_up(&self.inlets[at].socket) {
                self.leave_if_read(at);
            }
        }
    }

    /// Detaches a sender that is gone, unless there are messages of it: all that it sent was visible
    /// before its hang-up was.
    fn leave_if_read(&mut self, at: usize) {
        match self.inlets[at].look() {
            Ok(Some(_)) => {}
            Ok(None) => {
                let peer = self.detach(at);
                self.note(Error::PeerGone { peer });
            }
            Err(broken) => {
                let error = self.misbehaved(at, broken);
                self.note(error);
            }
        }
    }

    #[cold]
    pub(super) fn misbehaved(&mut self, at: usize, Broken(what): Broken) -> Error {
        let position = self.inlets[at].slots.next();
        let peer = self.detach(at);
        Error::Misbehaved { peer, what, position }
    }

    fn detach(&mut self, at: usize) -> crate::peer::Peer {
        self.inbox.leave();
        self.inlets.swap_remove(at).peer
    }

    fn note(&mut self, departure: Error) {
        if self.departed.len() >= self.settings.peers_max as usize {
            self.departed.pop_front();
        }
        self.departed.push_back(departure);
    }

    /// Takes the signals that woke us, and notices who is gone.
    fn settle_sockets(&mut self, ready: &[u64]) {
        for id in ready.iter().filter(|id| **id != BELL) {
            let at = self.inlets.iter().position(|inlet| u64::from(inlet.peer.id) == *id);
            if let Some(at) = at
                && signal::take(&self.inlets[at].socket)
            {
                self.leave_if_read(at);
            }
        }
        self.adopt();
    }

    fn poller(&mut self) -> Result<&Poller, Error> {
        if self.poller.is_none() {
            let poller = Poller::new(self.inbox.bell())?;
            for inlet in &self.inlets {
                poller.add(&inlet.socket, u64::from(inlet.peer.id))?;
            }
            self.poller = Some(poller);
        }
        // Just made if it was not there.
        Ok(self.poller.as_ref().unwrap())
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
        assert_eq!(receiver.inlets.len(), 1);
        assert_eq!(receiver.set_alarm(Means::Socket).unwrap(), Asleep::Surely);
        sender.send(b"x", Wait::NOT).unwrap();
        assert_eq!(receiver.poller().unwrap().sleep(None).unwrap().len(), 1);
    }
}
