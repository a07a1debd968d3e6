//! The sender waits for a free slot, takes in new receivers, and detaches those that have hung up.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use super::{Sender, TxRing};
use crate::backoff::{Backoff, Step};
use crate::error::Error;
use crate::memory::{self, LOW_HALF_AT, PROGRESS_AT};
use crate::observe::Observer;
use crate::ring::{Broken, progress_of};
use crate::settings::{Means, Wait};
use crate::setup;
use crate::wakeup::{self, Armed};

impl<O: Observer> Sender<O> {
    /// A descriptor that becomes readable when a slot becomes free after [`Sender::arm`], or a receiver
    /// connects or hangs up. It stays the same; read nothing from it.
    ///
    /// # Errors
    /// `System` when there is no descriptor left.
    pub fn descriptor(&mut self) -> Result<BorrowedFd<'_>, Error> {
        Ok(self.peers.poller()?.descriptor())
    }

    /// Asks for the descriptor to become readable. False when a slot is free: then send, as nothing was
    /// armed.
    ///
    /// # Errors
    /// As [`Sender::descriptor`].
    pub fn arm(&mut self) -> Result<bool, Error> {
        let ready = self.peers.poller()?.ready()?;
        self.settle_sockets(&ready);
        self.arm_wakeup(Means::Socket).for_descriptor()
    }

    #[cold]
    pub(super) fn wait_for_room(&mut self, wait: Wait) -> Result<(), Error> {
        let mut backoff = Backoff::new(wait, self.spin_budget);
        let mut slept = false;
        loop {
            self.refresh();
            // First, because without receivers every slot is free.
            self.report()?;
            if self.ring.has_room() {
                if !slept {
                    self.spin_budget.raise();
                }
                return Ok(());
            }
            match backoff.next()? {
                Step::Poll => std::hint::spin_loop(),
                Step::Check => {
                    self.attend();
                    std::thread::yield_now();
                }
                Step::Sleep(until) => {
                    self.spin_budget.lower();
                    slept = true;
                    self.sleep(wait.by, until)?;
                }
            }
        }
    }

    /// Calls the target, after the report of the disconnect before.
    #[cold]
    pub(super) fn call_target(&mut self) -> Result<(), Error> {
        self.report()?;
        match self.target.clone() {
            Some(target) => self.connect(&target).map(|_| ()),
            None => Ok(()),
        }
    }

    /// A sender that calls gives disconnects as errors; a bound one goes on without its receivers.
    fn report(&mut self) -> Result<(), Error> {
        let disconnect = if self.target.is_some() { self.peers.next_disconnect() } else { None };
        disconnect.map_or(Ok(()), Err)
    }

    fn sleep(&mut self, means: Means, until: Option<Instant>) -> Result<(), Error> {
        if means == Means::Socket {
            self.peers.poller()?;
        }
        match self.arm_wakeup(means) {
            Armed::AlreadyDue => {}
            Armed::Reliably if means == Means::Socket => {
                let ready = self.peers.poller()?.sleep(until)?;
                self.settle_sockets(&ready);
            }
            Armed::Reliably | Armed::Unreliably => self.sleep_on_slowest(until)?,
        }
        wakeup::disarm(&self.ring.segment);
        self.refresh();
        if means == Means::Futex && !self.ring.has_room() {
            self.attend();
        }
        Ok(())
    }

    /// Requests a wake-up and checks for a free slot once more.
    fn arm_wakeup(&mut self, means: Means) -> Armed {
        wakeup::arm(&self.ring.segment, means, self.ring.awaited());
        let is_reliable = wakeup::before_recheck();
        self.refresh();
        if self.ring.has_room() {
            wakeup::disarm(&self.ring.segment);
            return Armed::AlreadyDue;
        }
        if is_reliable { Armed::Reliably } else { Armed::Unreliably }
    }

    fn sleep_on_slowest(&mut self, until: Option<Instant>) -> Result<(), Error> {
        let Some(slowest) = self.peers.here.iter().min_by_key(|tx_ring| tx_ring.progress) else {
            return Ok(());
        };
        let progress = (slowest.control.futex(PROGRESS_AT + LOW_HALF_AT), slowest.progress as u32);
        memory::sleep_on(&[progress, self.peers.arrivals_seq()], setup::slice(until))
    }

    /// Reads the progress of the receivers; detaches those that claim the impossible.
    pub(super) fn refresh(&mut self) {
        let next = self.ring.next();
        for at in (0..self.peers.here.len()).rev() {
            let tx_ring = &mut self.peers.here[at];
            match progress_of(&tx_ring.control, tx_ring.progress, next) {
                Ok(progress) => tx_ring.progress = progress,
                Err(Broken(what)) => self.detach(at, Some(what)),
            }
        }
        self.ring.free(self.peers.here.iter().map(|tx_ring| tx_ring.progress).min());
    }

    /// Takes in the receivers that the listener accepted.
    #[cold]
    pub(super) fn take_arrivals(&mut self) {
        if self.peers.take_arrivals() {
            self.refresh();
        }
    }

    pub(super) fn attach(&mut self, tx_ring: TxRing) -> Result<(), Error> {
        self.peers.attach(tx_ring)?;
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
        self.ring.free(self.peers.here.iter().map(|tx_ring| tx_ring.progress).min());
    }

    fn detach(&mut self, at: usize, what: Option<&'static str>) {
        let TxRing { peer, progress: position, .. } = self.peers.detach(at);
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
        self.take_arrivals();
    }
}
