//! One descriptor for all that may wake an end: the sockets of its peers and the bell of its inbox.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use crate::error::{Error, system};

/// What the bell is known by; no peer has this id.
pub(crate) const BELL: u64 = u64::MAX;

/// An epoll(7) set. A socket leaves it when it is closed.
pub(crate) struct Poller {
    set: OwnedFd,
}

impl Poller {
    pub fn new(bell: BorrowedFd<'_>) -> Result<Self, Error> {
        let set = epoll::create(CreateFlags::CLOEXEC).map_err(system("epoll_create"))?;
        let poller = Self { set };
        poller.add(bell, BELL)?;
        Ok(poller)
    }

    pub fn add(&self, descriptor: impl AsFd, id: u64) -> Result<(), Error> {
        epoll::add(&self.set, descriptor, EventData::new_u64(id), EventFlags::IN)
            .map_err(system("epoll_ctl"))
    }

    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }

    /// Who is readable now, the first few of them.
    pub fn ready(&self) -> Vec<u64> {
        let mut space = [MaybeUninit::<Event>::uninit(); 64];
        let at_once = Timespec::default();
        match epoll::wait(&self.set, &mut space, Some(&at_once)) {
            Ok((events, _)) => events.iter().map(|event| event.data.u64()).collect(),
            // Interrupted: the next look will tell.
            Err(_) => Vec::new(),
        }
    }
}
