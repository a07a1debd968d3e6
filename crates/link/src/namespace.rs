//! A network namespace: a thread that entered it, and that runs work and starts commands there.
//!
//! It has no name, loopback is up, and there is no IPv6. It ends with its last process and the thread.

use std::io;
use std::os::fd::AsRawFd;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use rustix::net::{AddressFamily, SocketType, socket};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::error::Error;
use crate::processes::Processes;

/// linux/sockios.h.
const SIOCETHTOOL: libc::Ioctl = 0x8946;
/// linux/ethtool.h: segmentation of TCP by the device, and by the kernel on its behalf.
const ETHTOOL_STSO: u32 = 0x1f;
const ETHTOOL_SGSO: u32 = 0x24;

/// A thread in a network namespace.
pub struct Namespace {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
    processes: Arc<Processes>,
}

type Order = Box<dyn FnOnce() + Send>;

impl Namespace {
    /// Makes the namespace. Its commands are among these processes.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] without `CAP_SYS_ADMIN`.
    pub fn new(name: &str, processes: &Arc<Processes>) -> Result<Self, Error> {
        let (made, made_here) = channel();
        let (orders, received) = channel();
        let of_thread = Arc::clone(processes);
        let run = move || {
            let entered = enter(&of_thread);
            let is_made = entered.is_ok();
            if made.send(entered).is_ok() && is_made {
                serve(&received);
            }
        };
        let cannot = |cause| Error::Refused { what: "start a thread", cause };
        let thread = thread::Builder::new().name(format!("link-{name}")).spawn(run);
        let thread = Some(thread.map_err(cannot)?);
        let namespace = Self { orders: Some(orders), thread, processes: Arc::clone(processes) };
        made_here.recv().map_err(|_| Error::Thread)??;
        Ok(namespace)
    }

    /// Runs work on the thread.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`] when the thread has ended.
    pub fn run<A: Send + 'static>(
        &self,
        work: impl FnOnce() -> A + Send + 'static,
    ) -> Result<A, Error> {
        let (answer, answered) = channel();
        let orders = self.orders.as_ref().ok_or(Error::Thread)?;
        let order = move || {
            // No caller waits for the answer any more where this fails.
            let _ = answer.send(work());
        };
        orders.send(Box::new(order)).map_err(|_| Error::Thread)?;
        answered.recv().map_err(|_| Error::Thread)
    }

    /// Starts a command.
    ///
    /// # Errors
    ///
    /// [`Error::Start`] when it cannot be started.
    pub fn start(&self, mut command: Command) -> Result<Child, Error> {
        let program = command.get_program().to_string_lossy().into_owned();
        let shown = self.processes.show_proc(&mut command);
        let started =
            shown.and_then(|()| self.run(move || command.spawn()).map_err(io::Error::other)?);
        started.map_err(|cause| Error::Start { program, cause })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.orders.take();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by it, and there is nothing to do about it here.
            let _ = thread.join();
        }
    }
}

fn serve(orders: &Receiver<Order>) {
    for order in orders {
        order();
    }
}

#[allow(unsafe_code)]
fn enter(processes: &Processes) -> Result<(), Error> {
    let refused = |what| move |cause: io::Error| Error::Refused { what, cause };
    // SAFETY: the network namespace of this thread alone is replaced, which no memory and no file descriptor is
    // bound to. Nothing else runs on this thread.
    let unshared = unsafe { unshare_unsafe(UnshareFlags::NEWNET) };
    unshared.map_err(|errno| refused("make a network namespace")(errno.into()))?;
    processes.adopt_children()?;
    set_up("lo").map_err(refused("set up the loopback device"))?;
    without_ipv6().map_err(refused("leave IPv6 out"))
}

/// Devices that are made later in this thread's namespace have no IPv6. It would send packets of its own (router
/// solicitations, multicast reports) at times of its own, which would shift the random choices of all later packets.
fn without_ipv6() -> io::Result<()> {
    match std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Sets up a device in this thread's namespace.
pub fn set_up(device: &str) -> io::Result<()> {
    let up = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    configure(device, libc::SIOCSIFFLAGS, libc::__c_anonymous_ifr_ifru { ifru_flags: up })
}

/// The kernel divides data into packets before this device, and not in it: each record is one packet.
///
/// The limit `gso_max_segs` of 1 does so too, but TCP then sends a tenth as fast.
pub fn without_offload(device: &str) -> io::Result<()> {
    for feature in [ETHTOOL_STSO, ETHTOOL_SGSO] {
        // `ethtool_value`: the command and its argument.
        let mut off = [feature, 0_u32];
        let data = libc::__c_anonymous_ifr_ifru { ifru_data: off.as_mut_ptr().cast() };
        configure(device, SIOCETHTOOL, data)?;
    }
    Ok(())
}

/// Sets one property of a device in this thread's namespace.
#[allow(unsafe_code)]
pub fn configure(
    device: &str,
    request: libc::Ioctl,
    value: libc::__c_anonymous_ifr_ifru,
) -> io::Result<()> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let argument = request_for(device, value);
    // SAFETY: the requests used read an `ifreq` with a name that ends with 0, and keep no pointer to it. Where its
    // value is a pointer, that is one to two numbers, which the caller holds.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw const argument) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The argument of a request about a device, whose name ends with 0.
pub fn request_for(device: &str, value: libc::__c_anonymous_ifr_ifru) -> libc::ifreq {
    let mut name = [0; libc::IFNAMSIZ];
    // The last byte stays 0.
    let bytes = device.bytes().take(libc::IFNAMSIZ - 1);
    name.iter_mut().zip(bytes).for_each(|(to, from)| *to = from.cast_signed());
    libc::ifreq { ifr_name: name, ifr_ifru: value }
}
