//! The peers of one end: who came, who is gone, and the descriptor that wakes for either.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::door::Inbox;
use crate::error::Error;
use crate::peer::Peer;
use crate::poller::Poller;
use crate::{signal, socket};

/// A peer as its end sees it, with its half of the channel.
pub(crate) trait Attached {
    fn socket(&self) -> &OwnedFd;
    fn peer(&self) -> Peer;
}

/// All peers of one end, of which each holds a place in the inbox while it is here.
pub(crate) struct Peers<T> {
    pub here: Vec<T>,
    inbox: Arc<Inbox<T>>,
    news_seen: u32,
    /// Why some were detached, and not told yet: the latest, as many as there may be peers.
    departed: VecDeque<Error>,
    most: u32,
    poller: Option<Poller>,
}

impl<T: Attached> Peers<T> {
    pub fn new(most: u32) -> Result<Self, Error> {
        Ok(Self {
            here: Vec::new(),
            inbox: Inbox::new()?,
            news_seen: 0,
            departed: VecDeque::new(),
            most,
            poller: None,
        })
    }

    /// Where the door, or whoever calls in its place, leaves those that came.
    pub fn inbox(&self) -> &Arc<Inbox<T>> {
        &self.inbox
    }

    /// The inbox's news as last seen, and the word that differs from then on: to sleep on.
    pub fn news(&self) -> (&AtomicU32, u32) {
        (self.inbox.news(), self.news_seen)
    }

    /// Whether somebody may have come since [`Peers::adopt`].
    #[inline]
    pub fn has_news(&self) -> bool {
        self.inbox.news().load(Ordering::Relaxed) != self.news_seen
    }

    /// Takes in those that the door admitted; false when nobody came.
    #[cold]
    pub fn adopt(&mut self) -> bool {
        let news = self.inbox.news().load(Ordering::SeqCst);
        if news == self.news_seen {
            return false;
        }
        self.news_seen = news;
        for one in self.inbox.take() {
            let peer = one.peer();
            if self.attach(one).is_err() {
                self.note(Error::PeerGone { peer });
            }
        }
        true
    }

    /// Takes in one that has a place in the inbox, which it loses where this fails.
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

    /// Remembers why one was detached.
    pub fn note(&mut self, departure: Error) {
        if self.departed.len() >= self.most as usize {
            self.departed.pop_front();
        }
        self.departed.push_back(departure);
    }

    /// Whether there are departures not told yet.
    #[inline]
    pub fn has_departures(&self) -> bool {
        !self.departed.is_empty()
    }

    /// The oldest departure not told yet.
    pub fn departure(&mut self) -> Option<Error> {
        self.departed.pop_front()
    }

    /// All departures not told yet, the oldest first.
    pub fn departures(&mut self) -> impl Iterator<Item = Error> + '_ {
        self.departed.drain(..)
    }

    /// Whether the one at `at` has hung up.
    pub fn has_hung_up(&self, at: usize) -> bool {
        socket::has_hung_up(self.here[at].socket())
    }

    /// Where the one is that the poller knows by `id`, if it has hung up; else takes its signals.
    pub fn hung_up(&self, id: u64) -> Option<usize> {
        let at = self.here.iter().position(|one| u64::from(one.peer().id) == id)?;
        signal::take(self.here[at].socket()).then_some(at)
    }

    /// What wakes for all of them and for the inbox's bell.
    pub fn poller(&mut self) -> Result<&Poller, Error> {
        if self.poller.is_none() {
            let poller = Poller::new(self.inbox.bell())?;
            for one in &self.here {
                poller.add(one.socket(), u64::from(one.peer().id))?;
            }
            self.poller = Some(poller);
        }
        // Just made if it was not there.
        Ok(self.poller.as_ref().unwrap())
    }
}
