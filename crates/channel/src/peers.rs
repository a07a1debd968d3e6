//! The peers of one end: arrivals, disconnects, and the descriptor that wakes for either.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::Error;
use crate::listener::Inbox;
use crate::peer::Peer;
use crate::poller::Poller;
use crate::{socket, wakeup};

/// A peer as its end sees it, with its half of the channel.
pub(crate) trait Attached {
    fn socket(&self) -> &OwnedFd;
    fn peer(&self) -> Peer;
}

/// All peers of one end; each holds a place in the inbox while it is here.
pub(crate) struct Peers<T> {
    pub here: Vec<T>,
    inbox: Arc<Inbox<T>>,
    arrivals_seen: u32,
    /// Why peers were detached, not reported yet: the latest, at most `most`.
    disconnected: VecDeque<Error>,
    most: u32,
    poller: Option<Poller>,
}

impl<T: Attached> Peers<T> {
    pub fn new(most: u32) -> Result<Self, Error> {
        Ok(Self {
            here: Vec::new(),
            inbox: Inbox::new()?,
            arrivals_seen: 0,
            disconnected: VecDeque::new(),
            most,
            poller: None,
        })
    }

    /// The inbox into which the listener, or a thread that calls, puts new peers.
    pub fn inbox(&self) -> &Arc<Inbox<T>> {
        &self.inbox
    }

    /// The inbox's count of arrivals, to sleep on, and its value as last seen.
    pub fn arrivals_seq(&self) -> (&AtomicU32, u32) {
        (self.inbox.arrivals_seq(), self.arrivals_seen)
    }

    /// Whether a peer may have arrived since [`Peers::take_arrivals`].
    #[inline]
    pub fn has_arrivals(&self) -> bool {
        self.inbox.arrivals_seq().load(Ordering::Relaxed) != self.arrivals_seen
    }

    /// Takes in the peers in the inbox; false when none has arrived.
    #[cold]
    pub fn take_arrivals(&mut self) -> bool {
        let arrivals_seq = self.inbox.arrivals_seq().load(Ordering::SeqCst);
        if arrivals_seq == self.arrivals_seen {
            return false;
        }
        self.arrivals_seen = arrivals_seq;
        for one in self.inbox.take() {
            let peer = one.peer();
            if self.attach(one).is_err() {
                self.note(Error::PeerGone { peer });
            }
        }
        true
    }

    /// Takes in a peer that has a place in the inbox; the peer loses it where this fails.
    pub fn attach(&mut self, one: T) -> Result<(), Error> {
        if let Some(poller) = &self.poller {
            let added = poller.add(one.socket(), u64::from(one.peer().id));
            added.inspect_err(|_| self.inbox.leave())?;
        }
        self.here.push(one);
        Ok(())
    }

    /// Lets the one at `at` go; the last one takes its place.
    pub fn detach(&mut self, at: usize) -> T {
        self.inbox.leave();
        self.here.swap_remove(at)
    }

    /// Remembers why a peer was detached.
    pub fn note(&mut self, disconnect: Error) {
        if self.disconnected.len() >= self.most as usize {
            self.disconnected.pop_front();
        }
        self.disconnected.push_back(disconnect);
    }

    /// Whether there are disconnects that were not reported.
    #[inline]
    pub fn has_disconnects(&self) -> bool {
        !self.disconnected.is_empty()
    }

    /// The oldest disconnect that was not reported.
    pub fn next_disconnect(&mut self) -> Option<Error> {
        self.disconnected.pop_front()
    }

    /// All disconnects that were not reported, the oldest first.
    pub fn disconnects(&mut self) -> impl Iterator<Item = Error> + '_ {
        self.disconnected.drain(..)
    }

    /// Whether the one at `at` has hung up.
    pub fn has_hung_up(&self, at: usize) -> bool {
        socket::has_hung_up(self.here[at].socket())
    }

    /// Where the one is that the poller knows by `id`, if it has hung up; else takes its signals.
    pub fn hung_up(&self, id: u64) -> Option<usize> {
        let at = self.here.iter().position(|one| u64::from(one.peer().id) == id)?;
        wakeup::take(self.here[at].socket()).then_some(at)
    }

    /// The epoll set of all peers' sockets and of the inbox's eventfd.
    pub fn poller(&mut self) -> Result<&Poller, Error> {
        if self.poller.is_none() {
            let poller = Poller::new(self.inbox.eventfd())?;
            for one in &self.here {
                poller.add(one.socket(), u64::from(one.peer().id))?;
            }
            self.poller = Some(poller);
        }
        // Just made if it was not there.
        Ok(self.poller.as_ref().unwrap())
    }
}
