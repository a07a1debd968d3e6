//! The two ends of a link: a network namespace each, with a TUN device, loopback and an address.
//!
//! A namespace is made by a thread that enters it, and has no name. Commands start on that thread, and so in its
//! namespace. It ends with its last process, and the device with the file descriptor of the link: nothing remains.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use rustix::net::{AddressFamily, SocketType, socket};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use tappers::linux::Tun;
use tappers::{AddAddressV4, DeviceState, Interface};

use crate::error::Error;

/// Of the network that RFC 2544 sets aside for measurements.
const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const PREFIX_BITS: u8 = 24;
const DEVICE: &str = "link0";
/// Packets that the device holds until the link takes them. So many that the queue is the wire's, not the device's.
const QUEUE_PACKETS: libc::c_int = 10_000;

/// An end of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Where the command runs.
    Client,
    /// Where its server runs.
    Server,
}

impl Side {
    /// The address of this end, the same in every link.
    pub fn address(self) -> IpAddr {
        IpAddr::V4(match self {
            Self::Client => CLIENT,
            Self::Server => SERVER,
        })
    }
}

/// The devices of both ends, client first.
pub type Ends = [Tun; 2];

/// The namespaces of both ends.
pub struct Hosts {
    threads: [Host; 2],
}

/// A thread in a namespace.
struct Host {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

enum Order {
    Start(Command, Sender<io::Result<Child>>),
    Drops(Sender<u64>),
    IsServed(Sender<bool>),
}

impl Hosts {
    /// Makes both namespaces and their devices, up and with addresses.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] without the right to make namespaces (`CAP_SYS_ADMIN`) or devices (`CAP_NET_ADMIN`).
    pub fn new(mtu: usize) -> Result<(Self, Ends), Error> {
        let (client, client_end) = Host::start(Side::Client, mtu)?;
        let (server, server_end) = Host::start(Side::Server, mtu)?;
        Ok((Self { threads: [client, server] }, [client_end, server_end]))
    }

    /// Starts a command at this end. The kernel ends it by SIGKILL when this program ends.
    ///
    /// # Errors
    ///
    /// [`Error::Start`] when it cannot be started.
    pub fn start(&self, side: Side, mut command: Command) -> Result<Child, Error> {
        let program = command.get_program().to_string_lossy().into_owned();
        end_with_parent(&mut command);
        let started = self.host(side).ask(|answer| Order::Start(command, answer))?;
        started.map_err(|cause| Error::Start { program, cause })
    }

    /// Packets that the kernel dropped at this end since nothing fetched them from the device in time.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`] when the end's thread is gone.
    pub fn device_drops(&self, side: Side) -> Result<u64, Error> {
        self.host(side).ask(Order::Drops)
    }

    /// Whether a socket of this end accepts connections or takes datagrams.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`] when the end's thread is gone.
    pub fn is_served(&self, side: Side) -> Result<bool, Error> {
        self.host(side).ask(Order::IsServed)
    }

    fn host(&self, side: Side) -> &Host {
        &self.threads[side as usize]
    }
}

impl Host {
    fn start(side: Side, mtu: usize) -> Result<(Self, Tun), Error> {
        let (made, made_here) = channel();
        let (orders, received) = channel();
        let run = move || {
            let tun = enter(side, mtu);
            let is_made = tun.is_ok();
            if made.send(tun).is_ok() && is_made {
                serve(&received);
            }
        };
        let thread = thread::Builder::new().name(format!("link-{side:?}").to_lowercase());
        let cannot = |cause| Error::Refused { what: "start a thread", cause };
        let thread = Some(thread.spawn(run).map_err(cannot)?);
        let host = Self { orders: Some(orders), thread };
        let tun = made_here.recv().map_err(|_| Error::Thread)??;
        Ok((host, tun))
    }

    fn ask<A>(&self, order: impl FnOnce(Sender<A>) -> Order) -> Result<A, Error> {
        let (answer, answered) = channel();
        let orders = self.orders.as_ref().ok_or(Error::Thread)?;
        orders.send(order(answer)).map_err(|_| Error::Thread)?;
        answered.recv().map_err(|_| Error::Thread)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.orders.take();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by it, and there is nothing to do about it here.
            let _ = thread.join();
        }
    }
}

/// The thread must live as long as the commands that it started: their death signal is bound to it.
fn serve(orders: &Receiver<Order>) {
    for order in orders {
        match order {
            Order::Start(mut command, answer) => {
                let _ = answer.send(command.spawn());
            }
            Order::Drops(answer) => {
                let _ = answer.send(device_drops());
            }
            Order::IsServed(answer) => {
                let _ = answer.send(is_served());
            }
        }
    }
}

#[allow(unsafe_code)]
fn enter(side: Side, mtu: usize) -> Result<Tun, Error> {
    let refused = |what| move |cause: io::Error| Error::Refused { what, cause };
    // SAFETY: the network namespace of this thread alone is replaced, which no memory and no file descriptor is
    // bound to. Nothing else runs on this thread.
    let unshared = unsafe { unshare_unsafe(UnshareFlags::NEWNET) };
    unshared.map_err(|errno| refused("make a network namespace")(errno.into()))?;
    let up = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    let flags = libc::__c_anonymous_ifr_ifru { ifru_flags: up };
    configure("lo", libc::SIOCSIFFLAGS, flags).map_err(refused("set up the loopback device"))?;
    without_ipv6().map_err(refused("leave IPv6 out"))?;
    let name = Interface::new(DEVICE).map_err(refused("name a TUN device"))?;
    let tun = Tun::new_named(name).map_err(refused("open a TUN device"))?;
    tun.set_mtu(mtu).map_err(refused("set the MTU of the TUN device"))?;
    // An integer of the union, whatever its name (netdevice(7): ifr_qlen).
    let length = libc::__c_anonymous_ifr_ifru { ifru_mtu: QUEUE_PACKETS };
    configure(DEVICE, libc::SIOCSIFTXQLEN, length)
        .map_err(refused("set the queue of the TUN device"))?;
    tun.set_nonblocking(true).map_err(refused("set up the TUN device"))?;
    let IpAddr::V4(address) = side.address() else { return Err(Error::Thread) };
    let mut request = AddAddressV4::new(address);
    request.set_netmask(PREFIX_BITS);
    tun.add_addr(request).map_err(refused("give the TUN device an address"))?;
    tun.set_state(DeviceState::Up).map_err(refused("set up the TUN device"))?;
    Ok(tun)
}

/// Devices that are made later in this thread's namespace have no IPv6. It would send packets of its own (router
/// solicitations, multicast reports) at times of its own, which would shift the random choices of all later packets.
fn without_ipv6() -> io::Result<()> {
    match std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Sets one property of a device in this thread's namespace.
#[allow(unsafe_code)]
fn configure(
    device: &str,
    request: libc::Ioctl,
    value: libc::__c_anonymous_ifr_ifru,
) -> io::Result<()> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut name = [0; libc::IFNAMSIZ];
    // The last byte stays 0.
    let bytes = device.bytes().take(libc::IFNAMSIZ - 1);
    name.iter_mut().zip(bytes).for_each(|(to, from)| *to = from.cast_signed());
    let argument = libc::ifreq { ifr_name: name, ifr_ifru: value };
    // SAFETY: the requests used read an `ifreq` with a name that ends with 0, and keep no pointer to it.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw const argument) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[allow(unsafe_code)]
fn end_with_parent(command: &mut Command) {
    let die = || set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from);
    // SAFETY: between fork and exec this makes one system call, and takes no lock and no memory.
    unsafe { command.pre_exec(die) };
}

/// Of the device in this thread's namespace: the column `drop` of what it transmits.
fn device_drops() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    transmit_drops(&text, DEVICE).unwrap_or(0)
}

/// Whether a socket in this thread's namespace is a server's.
fn is_served() -> bool {
    ["tcp", "tcp6", "udp", "udp6"].iter().any(|protocol| {
        let text = std::fs::read_to_string(format!("/proc/thread-self/net/{protocol}"));
        has_server(&text.unwrap_or_default())
    })
}

/// In the form of /proc/net/tcp: a socket in state LISTEN, or of UDP one without a peer, which is in state CLOSE.
fn has_server(text: &str) -> bool {
    const LISTEN: &str = "0A";
    const CLOSE: &str = "07";
    let states = text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(3));
    states.into_iter().any(|state| [LISTEN, CLOSE].contains(&state))
}

/// In the form of /proc/net/dev: eight columns of what is received, then bytes, packets, errs and drop of what is sent.
fn transmit_drops(text: &str, device: &str) -> Option<u64> {
    let mut rows = text.lines().filter_map(|line| line.trim().split_once(':'));
    let (_, columns) = rows.find(|(name, _)| *name == device)?;
    columns.split_whitespace().nth(11)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_by_its_state() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue\n";
        let row =
            |state| format!("{head}   0: 0100007F:1F90 00000000:0000 {state} 00000000:00000000\n");
        let found = ["0A", "07", "01", "06"].map(|state| has_server(&row(state)));
        assert_eq!(found, [true, true, false, false]);
        assert!(!has_server(head) && !has_server(""));
    }

    #[test]
    fn drops_are_read_from_the_column_of_what_is_sent() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
                    face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop\n    \
                    lo: 100 1 0 0 0 0 0 0 100 1 0 9 0 0 0 0\n \
                    link0: 200 2 3 4 5 6 7 8 300 3 1 77 0 0 0 0\n";
        assert_eq!(transmit_drops(text, "link0"), Some(77));
        assert_eq!(transmit_drops(text, "link1"), None);
    }
}
