//! Where callers come in: a thread that answers set-up, so that a busy owner keeps nobody waiting.
//!
//! The thread does the whole handshake and leaves a finished half of a channel for its owner, who
//! looks at one word of its own memory in each call, and takes the lock only when something is there.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use crate::address::Address;
use crate::error::{Error, system};
use crate::hello::{Hello, Welcome};
use crate::refusal::Refusal;
use crate::settings::Trust;
use crate::{memory, signal, socket};

/// How long a caller may take for its first message, which it sends at once. It holds up others.
const HELLO_TIMEOUT: Duration = Duration::from_millis(250);

/// Finished halves for their owner.
pub(crate) struct Inbox<T> {
    /// Changes with each arrival; the owner may sleep on it.
    news: AtomicU32,
    /// Readable while something may be there.
    bell: OwnedFd,
    /// Peers of the owner, those in the inbox included.
    peers: AtomicU32,
    /// Ids given so far.
    ids: AtomicU32,
    arrived: Mutex<Vec<T>>,
}

impl<T> Inbox<T> {
    pub fn new() -> Result<Arc<Self>, Error> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        Ok(Arc::new(Self {
            news: AtomicU32::new(0),
            bell: bell.map_err(system("eventfd"))?,
            peers: AtomicU32::new(0),
            ids: AtomicU32::new(0),
            arrived: Mutex::new(Vec::new()),
        }))
    }

    /// The word to sleep on, which also tells whether anything new came: its value then differs.
    pub fn news(&self) -> &AtomicU32 {
        &self.news
    }

    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
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
    /// From the announcement on an owner that looks for news waits for the lock. `make` therefore
    /// sees all but at most one of the messages that the owner sends without knowing the arrival:
    /// both sides have a barrier between what they write and what they look at.
    pub fn arrive<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<(), E> {
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        self.news.fetch_add(1, Ordering::SeqCst);
        // Refused or not: whoever is bound in this way would have to send all slots in between.
        let _ = signal::before_look();
        arrived.push(make()?);
        // Within the lock, so that the bell rings exactly while something is there. A full counter
        // has rung already.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        drop(arrived);
        memory::wake(&self.news);
        Ok(())
    }

    /// All that arrived since the last time.
    pub fn take(&self) -> Vec<T> {
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        // Nothing to read where it has not rung.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        std::mem::take(&mut *arrived)
    }
}

/// A caller whose hello was read and whose user is trusted.
pub(crate) struct Caller {
    pub socket: OwnedFd,
    pub hello: Hello,
    pub descriptor: OwnedFd,
    pub pid: u32,
    pub uid: u32,
}

/// Answers calls at an address until it is dropped.
pub(crate) struct Door {
    listener: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Door {
    /// Opens the door. `admit` makes the channel with a caller and sends the welcome, or says why
    /// not.
    pub fn open(
        address: &Address,
        trust: Trust,
        admit: impl FnMut(Caller) -> Result<(), Refusal> + Send + 'static,
    ) -> Result<Self, Error> {
        let listener = Arc::new(socket::listen(address)?);
        let at = Arc::clone(&listener);
        let thread = std::thread::Builder::new()
            .name("channel-door".into())
            .spawn(move || answer_calls(&at, trust, admit))
            .map_err(|source| Error::System { call: "thread", source })?;
        Ok(Self { listener, thread: Some(thread) })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        socket::close(&self.listener);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

fn answer_calls(
    listener: &OwnedFd,
    trust: Trust,
    mut admit: impl FnMut(Caller) -> Result<(), Refusal>,
) {
    while let Some(socket) = socket::accept(listener) {
        let refusal_socket = memory::duplicate(&socket);
        let admitted = meet(socket, trust).and_then(&mut admit);
        if let (Err(refusal), Ok(socket)) = (admitted, refusal_socket) {
            // Who hung up meanwhile need not hear it.
            let _ = socket::send_setup(&socket, &Welcome::Refused(refusal).encode(), None);
        }
    }
}

/// Reads and checks the hello.
fn meet(socket: OwnedFd, trust: Trust) -> Result<Caller, Refusal> {
    let bad = |_| Refusal::BadHello;
    let (pid, uid, trusted) = socket::credentials(&socket, trust).map_err(bad)?;
    if !trusted {
        return Err(Refusal::NotTrusted);
    }
    socket::limit(&socket, HELLO_TIMEOUT).map_err(bad)?;
    let (bytes, descriptor) = socket::receive_setup(&socket).map_err(bad)?;
    let hello = Hello::decode(&bytes).map_err(|_| Refusal::BadHello)?;
    let descriptor = descriptor.ok_or(Refusal::BadHello)?;
    Ok(Caller { socket, hello, descriptor, pid, uid })
}
