//! Sockets that set channels up, and report that a peer is gone.
//!
//! A channel's socket is a Unix socket that keeps message bounds. It carries one message with a
//! descriptor each way, then signals of one byte for sleepers that asked for them. Its hang-up is the
//! peer's end: the kernel makes it, also for a process that was killed.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};

use crate::address::Address;
use crate::error::{Error, system};
use crate::handshake::SETUP_BYTES;
use crate::settings::Trust;

/// Callers that wait while an end is busy with another one's set-up.
const BACKLOG: i32 = 128;

/// The longest wait for a name whose holder no longer listens.
const NAME_TIMEOUT: Duration = Duration::from_secs(1);

/// A socket that listens at `address`.
///
/// A name outlives its listener for a moment when a new process has inherited the socket and not
/// yet started its own program. The call waits for such a name.
pub(crate) fn listen(address: &Address) -> Result<OwnedFd, Error> {
    let (socket, name) = (fresh()?, name_of(address)?);
    let deadline = Instant::now() + NAME_TIMEOUT;
    loop {
        match rustix::net::bind(&socket, &name) {
            Ok(()) => break,
            Err(Errno::ADDRINUSE) if is_answered(address) || Instant::now() >= deadline => {
                return Err(Error::Taken { address: address.clone() });
            }
            Err(Errno::ADDRINUSE) => std::thread::sleep(Duration::from_millis(1)),
            Err(errno) => return Err(system("bind")(errno)),
        }
    }
    rustix::net::listen(&socket, BACKLOG).map_err(system("listen"))?;
    Ok(socket)
}

/// Whether a process listens at `address`, as far as a call without a message shows.
fn is_answered(address: &Address) -> bool {
    !matches!(connect(address, Duration::from_millis(1)), Err(Error::NotThere { .. }))
}

/// Waits for a caller. `None` when the listening socket was [closed](close).
pub(crate) fn accept(listener: &OwnedFd) -> Option<OwnedFd> {
    loop {
        match rustix::net::accept_with(listener, SocketFlags::CLOEXEC) {
            Ok(socket) => return Some(socket),
            // The caller went away, or descriptors are short: both pass.
            Err(Errno::INTR | Errno::CONNABORTED) => {}
            Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(_) => return None,
        }
    }
}

/// Ends a listening socket, also under a thread that waits at it.
pub(crate) fn close(listener: &OwnedFd) {
    // It fails only for a socket that is no longer open at all.
    let _ = rustix::net::shutdown(listener, Shutdown::Both);
}

/// A socket connected to the process that listens at `address`.
pub(crate) fn connect(address: &Address, timeout: Duration) -> Result<OwnedFd, Error> {
    let socket = fresh()?;
    limit(&socket, timeout)?;
    match rustix::net::connect(&socket, &name_of(address)?) {
        Ok(()) => Ok(socket),
        Err(Errno::CONNREFUSED) => Err(Error::NotThere { address: address.clone() }),
        Err(Errno::AGAIN) => Err(Error::TimedOut),
        Err(errno) => Err(system("connect")(errno)),
    }
}

/// Limits the time of each set-up message over `socket`.
pub(crate) fn limit(socket: &OwnedFd, timeout: Duration) -> Result<(), Error> {
    for which in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
        // The kernel takes zero for "no limit".
        let timeout = timeout.max(Duration::from_millis(1));
        sockopt::set_socket_timeout(socket, which, Some(timeout)).map_err(system("SO_RCVTIMEO"))?;
    }
    Ok(())
}

/// Process and user at the other end, as the kernel reports them; and whether `trust` admits them.
pub(crate) fn credentials(socket: &OwnedFd, trust: Trust) -> Result<(u32, u32, bool), Error> {
    let peer = sockopt::socket_peercred(socket).map_err(system("SO_PEERCRED"))?;
    // A process of another namespace has no number here.
    let pid = rustix::process::Pid::as_raw(Some(peer.pid)).unsigned_abs();
    let uid = peer.uid.as_raw();
    let own = rustix::process::geteuid().as_raw();
    Ok((pid, uid, trust == Trust::Anybody || uid == own || uid == 0))
}

/// Sends a set-up message, with a descriptor or without.
pub(crate) fn send_setup(
    socket: &OwnedFd,
    message: &[u8; SETUP_BYTES],
    descriptor: Option<BorrowedFd<'_>>,
) -> Result<(), Error> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.map(|descriptor| [descriptor]);
    if let Some(descriptors) = &descriptors {
        // The space was made for exactly one.
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let parts = [IoSlice::new(message)];
    match rustix::net::sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL) {
        Ok(_) => Ok(()),
        Err(errno) => Err(lost_in_setup("sendmsg", errno)),
    }
}

/// Receives a set-up message and the descriptor that arrived with it. Descriptors beyond the first are
/// closed.
pub(crate) fn receive_setup(socket: &OwnedFd) -> Result<(Vec<u8>, Option<OwnedFd>), Error> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    // One byte more than a message has, so that a longer one is known as such.
    let mut bytes = [0; SETUP_BYTES + 1];
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let received = rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
        .map_err(|errno| lost_in_setup("recvmsg", errno))?;
    let mut descriptor = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            descriptor = descriptors.into_iter().next().or(descriptor);
        }
    }
    if received.bytes == 0 {
        return Err(Error::BadSetup { what: "an answer, not a hang-up" });
    }
    Ok((bytes[..received.bytes].to_vec(), descriptor))
}

/// Whether the other end is closed.
pub(crate) fn has_hung_up(socket: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::RDHUP)];
    let gone = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR | PollFlags::NVAL;
    poll(&mut polled, Some(&Timespec::default())).is_ok() && polled[0].revents().intersects(gone)
}

fn fresh() -> Result<OwnedFd, Error> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).map_err(system("socket"))
}

fn name_of(address: &Address) -> Result<SocketAddrUnix, Error> {
    SocketAddrUnix::new_abstract_name(&address.abstract_name()).map_err(system("address"))
}

fn lost_in_setup(call: &'static str, errno: Errno) -> Error {
    match errno {
        Errno::AGAIN => Error::TimedOut,
        Errno::PIPE | Errno::CONNRESET => Error::BadSetup { what: "an answer, not a hang-up" },
        errno => system(call)(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(name: &str) -> Address {
        Address::new(&format!("unit-{}-{name}", std::process::id())).unwrap()
    }

    #[test]
    fn a_name_with_a_listener_is_taken() {
        let at = address("taken");
        let _listener = listen(&at).unwrap();
        assert!(matches!(listen(&at), Err(Error::Taken { .. })));
    }

    #[test]
    fn a_name_whose_listener_was_closed_is_waited_for() {
        let at = address("closing");
        let listener = listen(&at).unwrap();
        let inherited = crate::memory::duplicate(&listener).unwrap();
        close(&listener);
        drop(listener);
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            drop(inherited);
        });
        assert!(listen(&at).is_ok());
        other.join().unwrap();
    }
}
