//! One descriptor for all that may wake an end: the sockets of its peers and the eventfd of its inbox.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use crate::error::{Error, system};

/// The id of the inbox's eventfd; no peer has it.
const EVENTFD: u64 = u64::MAX;

/// An epoll(7) set. A socket leaves it when it is closed.
pub(crate) struct Poller {
    set: OwnedFd,
}

impl Poller {
    pub fn new(eventfd: BorrowedFd<'_>) -> Result<Self, Error> {
        let set = epoll::create(CreateFlags::CLOEXEC).map_err(system("epoll_create"))?;
        let poller = Self { set };
        poller.add(eventfd, EVENTFD)?;
        Ok(poller)
    }

    pub fn add(&self, descriptor: impl AsFd, id: u64) -> Result<(), Error> {
        epoll::add(&self.set, descriptor, EventData::new_u64(id), EventFlags::IN)
            .map_err(system("epoll_ctl"))
    }

    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }

    /// Sleeps until a peer is readable or the deadline has passed; returns the first few readable
    /// ones. May also wake for no reason.
    pub fn sleep(&self, until: Option<Instant>) -> Result<Vec<u64>, Error> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        self.wait(left.and_then(|left| Timespec::try_from(left).ok()))
    }

    /// The first few peers that are readable now.
    pub fn ready(&self) -> Result<Vec<u64>, Error> {
        self.wait(Some(Timespec::default()))
    }

    fn wait(&self, timeout: Option<Timespec>) -> Result<Vec<u64>, Error> {
        let mut space = [MaybeUninit::<Event>::uninit(); 64];
        match epoll::wait(&self.set, &mut space, timeout.as_ref()) {
            Ok((events, _)) => Ok(events.iter().map(|event| event.data.u64()).collect()),
            Err(Errno::INTR) => Ok(Vec::new()),
            Err(errno) => Err(system("epoll_wait")(errno)),
        }
    }
}
