//! The listening end of set-up: a thread accepts callers, so that a busy owner delays none of them.
//!
//! The thread does the whole handshake and puts its half of the new channel into the owner's
//! [`Inbox`]. The owner reads one word of its own memory in each call, and takes the lock only when
//! that word has changed.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use crate::address::Address;
use crate::error::{Error, system};
use crate::handshake::{ConnectReply, ConnectRequest};
use crate::reject::RejectReason;
use crate::settings::Trust;
use crate::{memory, socket, wakeup};

/// The thread's longest wait for a caller's request. Other callers wait meanwhile.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(250);

/// Halves of new channels that their owner has not taken yet.
pub(crate) struct Inbox<T> {
    /// Number of arrivals; the owner may sleep on it.
    arrivals_seq: AtomicU32,
    /// Readable while the inbox may hold something.
    eventfd: OwnedFd,
    /// Peers of the owner, those in the inbox included.
    peers: AtomicU32,
    /// Ids given so far.
    ids: AtomicU32,
    arrived: Mutex<Vec<T>>,
}

impl<T> Inbox<T> {
    pub fn new() -> Result<Arc<Self>, Error> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        Ok(Arc::new(Self {
            arrivals_seq: AtomicU32::new(0),
            eventfd: eventfd.map_err(system("eventfd"))?,
            peers: AtomicU32::new(0),
            ids: AtomicU32::new(0),
            arrived: Mutex::new(Vec::new()),
        }))
    }

    /// The word to sleep on. Each arrival changes its value.
    pub fn arrivals_seq(&self) -> &AtomicU32 {
        &self.arrivals_seq
    }

    pub fn eventfd(&self) -> BorrowedFd<'_> {
        self.eventfd.as_fd()
    }

    /// Takes a place for one more peer, of `most`. The owner gives it back with [`Inbox::leave`].
    pub fn enter(&self, most: u32) -> bool {
        let one_more = |peers| (peers < most).then_some(peers + 1);
        self.peers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// An id for a new peer.
    pub fn id(&self) -> u32 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    pub fn leave(&self) {
        self.peers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Announces an arrival, then makes it, then wakes the owner.
    ///
    /// From the announcement on, an owner that looks for arrivals waits for the lock. `make` therefore
    /// sees all but at most one of the messages that the owner sends without knowing the arrival:
    /// both sides have a barrier between their write and their read.
    pub fn arrive<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<(), E> {
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        self.arrivals_seq.fetch_add(1, Ordering::SeqCst);
        // Also without the barrier: to miss more, the owner would have to send a whole ring meanwhile.
        let _ = wakeup::before_recheck();
        arrived.push(make()?);
        // Within the lock, so that the eventfd is readable exactly while the inbox holds something. A
        // full counter is readable already.
        let _ = rustix::io::write(&self.eventfd, &1_u64.to_ne_bytes());
        drop(arrived);
        memory::wake(&self.arrivals_seq);
        Ok(())
    }

    /// All that arrived since the last time.
    pub fn take(&self) -> Vec<T> {
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        // The read fails where nothing has arrived.
        let _ = rustix::io::read(&self.eventfd, &mut [0; 8]);
        std::mem::take(&mut *arrived)
    }
}

/// A caller whose request was read and whose user is trusted.
pub(crate) struct Caller {
    pub socket: OwnedFd,
    pub request: ConnectRequest,
    pub descriptor: OwnedFd,
    pub pid: u32,
    pub uid: u32,
}

/// Accepts callers at an address until it is dropped.
pub(crate) struct Listener {
    socket: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Listens at `address`. `admit` makes the channel with a caller and sends the reply, or gives the
    /// reason to reject the caller.
    pub fn open(
        address: &Address,
        trust: Trust,
        admit: impl FnMut(Caller) -> Result<(), RejectReason> + Send + 'static,
    ) -> Result<Self, Error> {
        let socket = Arc::new(socket::listen(address)?);
        let at = Arc::clone(&socket);
        let thread = std::thread::Builder::new()
            .name("channel-listen".into())
            .spawn(move || accept_callers(&at, trust, admit))
            .map_err(|source| Error::System { call: "thread", source })?;
        Ok(Self { socket, thread: Some(thread) })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        socket::close(&self.socket);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

fn accept_callers(
    listening: &OwnedFd,
    trust: Trust,
    mut admit: impl FnMut(Caller) -> Result<(), RejectReason>,
) {
    while let Some(socket) = socket::accept(listening) {
        let reject_socket = memory::duplicate(&socket);
        let admitted = read_request(socket, trust).and_then(&mut admit);
        if let (Err(reason), Ok(socket)) = (admitted, reject_socket) {
            // A caller that has hung up needs no reason.
            let _ = socket::send_setup(&socket, &ConnectReply::Rejected(reason).encode(), None);
        }
    }
}

/// Reads and checks the request.
fn read_request(socket: OwnedFd, trust: Trust) -> Result<Caller, RejectReason> {
    let bad = |_| RejectReason::BadRequest;
    let (pid, uid, trusted) = socket::credentials(&socket, trust).map_err(bad)?;
    if !trusted {
        return Err(RejectReason::NotTrusted);
    }
    socket::limit(&socket, REQUEST_TIMEOUT).map_err(bad)?;
    let (bytes, descriptor) = socket::receive_setup(&socket).map_err(bad)?;
    let request = ConnectRequest::decode(&bytes).map_err(|_| RejectReason::BadRequest)?;
    let descriptor = descriptor.ok_or(RejectReason::BadRequest)?;
    Ok(Caller { socket, request, descriptor, pid, uid })
}
