//! A TUN device: a network device whose packets this program reads and writes.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::namespace::{configure, request_for, set_up};

/// linux/if_tun.h.
const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
const TUNSETOFFLOAD: libc::Ioctl = 0x4004_54d0;
/// Checksums that are left out, and TCP segments that are not cut: IPv4, IPv6, with congestion marks.
const OFFLOADS: libc::c_ulong = 1 | 2 | 4 | 8;

/// A TUN device, which ends with this value.
#[derive(Debug)]
pub struct Tun {
    file: File,
}

impl Tun {
    /// Makes the device in this thread's namespace. With offload, packets are groups with a head.
    pub fn new(name: &str, has_offload: bool) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
        let tun = Self { file: options.open("/dev/net/tun")? };
        let head = if has_offload { libc::IFF_VNET_HDR } else { 0 };
        let flags = (libc::IFF_TUN | libc::IFF_NO_PI | head) as libc::c_short;
        tun.attach(name, flags)?;
        if has_offload {
            tun.set_offloads()?;
        }
        Ok(tun)
    }

    #[allow(unsafe_code)]
    fn attach(&self, name: &str, flags: libc::c_short) -> io::Result<()> {
        let flags = libc::__c_anonymous_ifr_ifru { ifru_flags: flags };
        let mut request = request_for(name, flags);
        // SAFETY: the request reads and writes an `ifreq` with a name that ends with 0, and keeps no pointer to it.
        let done = unsafe { libc::ioctl(self.file.as_raw_fd(), TUNSETIFF, &raw mut request) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    #[allow(unsafe_code)]
    fn set_offloads(&self) -> io::Result<()> {
        // SAFETY: the argument of the request is the number itself.
        let done = unsafe { libc::ioctl(self.file.as_raw_fd(), TUNSETOFFLOAD, OFFLOADS) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Reads a packet; without one, [`io::ErrorKind::WouldBlock`].
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(buffer)
    }

    /// Gives a packet to the kernel, as one that arrived.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        (&self.file).write(packet).map(drop)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Gives a device of this thread's namespace an MTU, a queue of this number of packets, an address, and sets it up.
pub fn set_up_device(
    name: &str,
    mtu: u32,
    queue_packets: libc::c_int,
    address: Ipv4Addr,
    mask: Ipv4Addr,
) -> io::Result<()> {
    let number = |number| libc::__c_anonymous_ifr_ifru { ifru_mtu: number };
    configure(name, libc::SIOCSIFMTU, number(mtu.cast_signed()))?;
    // Any integer of the union (netdevice(7): ifr_qlen).
    configure(name, libc::SIOCSIFTXQLEN, number(queue_packets))?;
    configure(name, libc::SIOCSIFADDR, of_address(address))?;
    configure(name, libc::SIOCSIFNETMASK, of_address(mask))?;
    set_up(name)
}

/// As a `sockaddr_in`: a port of 0, the address, zeros.
fn of_address(address: Ipv4Addr) -> libc::__c_anonymous_ifr_ifru {
    let mut data = [0; 14];
    let octets = address.octets().map(u8::cast_signed);
    data[2..6].copy_from_slice(&octets.map(libc::c_char::from));
    let family = libc::AF_INET as libc::sa_family_t;
    libc::__c_anonymous_ifr_ifru { ifru_addr: libc::sockaddr { sa_family: family, sa_data: data } }
}
