//! How a sender waits for a free slot, and how it notices who came and who is gone.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use super::{Outlet, Sender};
use crate::error::Error;
use crate::memory::{self, LOW_HALF_AT, PROGRESS_AT};
use crate::observe::Observer;
use crate::patience::{Patience, Step};
use crate::settings::{Means, Wait};
use crate::setup;
use crate::signal::{self, Asleep};
use crate::slots::{Broken, progress_of};

impl<O: Observer> Sender<O> {
    /// A descriptor that becomes readable when a free slot was announced after [`Sender::arm`], or a
    /// receiver came or went. It stays the same; nothing is to be read from it.
    ///
    /// # Errors
    /// `System` when there is no descriptor left.
    pub fn descriptor(&mut self) -> Result<BorrowedFd<'_>, Error> {
        Ok(self.peers.poller()?.descriptor())
    }

    /// Asks for the descriptor to become readable. False when a slot is free: then send, for nothing
    /// was asked.
    ///
    /// # Errors
    /// As [`Sender::descriptor`].
    pub fn arm(&mut self) -> Result<bool, Error> {
        let ready = self.peers.poller()?.ready()?;
        self.settle_sockets(&ready);
        self.set_alarm(Means::Socket).for_descriptor()
    }

    #[cold]
    pub(super) fn wait_for_room(&mut self, wait: Wait) -> Result<(), Error> {
        let mut patience = Patience::new(wait, self.eagerness);
        let mut slept = false;
        loop {
            self.refresh();
            // First, because nobody at all to send to looks like room.
            self.report()?;
            if self.slots.has_room() {
                if !slept {
                    self.eagerness.raise();
                }
                return Ok(());
            }
            match patience.next()? {
                Step::Look => std::hint::spin_loop(),
                Step::Check => {
                    self.attend();
                    std::thread::yield_now();
                }
                Step::Sleep(until) => {
                    self.eagerness.lower();
                    slept = true;
                    self.sleep(wait.by, until)?;
                }
            }
        }
    }

    /// Calls the target after telling what became of the one before.
    #[cold]
    pub(super) fn call_target(&mut self) -> Result<(), Error> {
        self.report()?;
        match self.target.clone() {
            Some(target) => self.connect(&target).map(|_| ()),
            None => Ok(()),
        }
    }

    /// A sender that calls gives departures as errors; a bound one goes on without.
    fn report(&mut self) -> Result<(), Error> {
        let told = if self.target.is_some() { self.peers.departure() } else { None };
        told.map_or(Ok(()), Err)
    }

    fn sleep(&mut self, means: Means, until: Option<Instant>) -> Result<(), Error> {
        if means == Means::Socket {
            self.peers.poller()?;
        }
        match self.set_alarm(means) {
            Asleep::No => {}
            Asleep::Surely if means == Means::Socket => {
                let ready = self.peers.poller()?.sleep(until)?;
                self.settle_sockets(&ready);
            }
            Asleep::Surely | Asleep::Perhaps => self.sleep_on_slowest(until)?,
        }
        signal::set(&self.slots.segment, 0);
        self.refresh();
        if means == Means::Futex && !self.slots.has_room() {
            self.attend();
        }
        Ok(())
    }

    /// Sets the alarm and looks once more.
    fn set_alarm(&mut self, means: Means) -> Asleep {
        signal::set(&self.slots.segment, signal::alarm(means, self.slots.awaited()));
        let surely = signal::before_look();
        self.refresh();
        if self.slots.has_room() {
            signal::set(&self.slots.segment, 0);
            return Asleep::No;
        }
        if surely { Asleep::Surely } else { Asleep::Perhaps }
    }

    fn sleep_on_slowest(&mut self, until: Option<Instant>) -> Result<(), Error> {
        let Some(slowest) = self.peers.here.iter().min_by_key(|outlet| outlet.progress) else {
            return Ok(());
        };
        let progress = (slowest.control.futex(PROGRESS_AT + LOW_HALF_AT), slowest.progress as u32);
        memory::sleep_on(&[progress, self.peers.news()], setup::slice(until))
    }

    /// Reads how far the receivers are; detaches those that claim the impossible.
    pub(super) fn refresh(&mut self) {
        let next = self.slots.next();
        for at in (0..self.peers.here.len()).rev() {
            let outlet = &mut self.peers.here[at];
            match progress_of(&outlet.control, outlet.progress, next) {
                Ok(progress) => outlet.progress = progress,
                Err(Broken(what)) => self.detach(at, Some(what)),
            }
        }
        self.slots.free(self.peers.here.iter().map(|outlet| outlet.progress).min());
    }

    /// Takes in the receivers that the door admitted.
    #[cold]
    pub(super) fn adopt(&mut self) {
        if self.peers.adopt() {
            self.refresh();
        }
    }

    pub(super) fn attach(&mut self, outlet: Outlet) -> Result<(), Error> {
        self.peers.attach(outlet)?;
        self.refresh();
        Ok(())
    }

    /// Detaches the receivers that have hung up.
    pub(super) fn check_peers(&mut self) {
        for at in (0..self.peers.here.len()).rev() {
            if self.peers.has_hung_up(at) {
                self.detach(at, None);
            }
        }
        self.slots.free(self.peers.here.iter().map(|outlet| outlet.progress).min());
    }

    fn detach(&mut self, at: usize, what: Option<&'static str>) {
        let Outlet { peer, progress: position, .. } = self.peers.detach(at);
        self.peers.note(match what {
            Some(what) => Error::Misbehaved { peer, what, position },
            None => Error::PeerGone { peer },
        });
    }

    /// Takes the signals that woke us.
    fn settle_sockets(&mut self, ready: &[u64]) {
        for id in ready {
            if let Some(at) = self.peers.hung_up(*id) {
                self.detach(at, None);
            }
        }
        self.adopt();
    }
}
