//! Devices, addresses, routes and queues of a network namespace: requests of rtnetlink(7).
//!
//! Each function acts in the namespace of the thread that calls it. Numbers of kernel headers that `libc` does not
//! have stand here with their header.

use std::ffi::CString;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, send, socket};

use crate::quantity::Bandwidth;

/// linux/veth.h: the other device of a pair.
const VETH_INFO_PEER: u16 = 1;
/// linux/pkt_sched.h.
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const TC_LINKLAYER_ETHERNET: u8 = 1;
const TC_H_ROOT: u32 = u32::MAX;
/// linux/netlink.h: an attribute that has attributes.
const NLA_F_NESTED: u16 = 1 << 15;
/// Of a message: its length, kind, flags, number and sender.
const HEAD_BYTES: usize = 16;

/// A request that is being written.
struct Request(Vec<u8>);

impl Request {
    /// With the fixed part of its kind.
    fn new(kind: u16, flags: libc::c_int, fixed: &[u8]) -> Self {
        let flags = flags | libc::NLM_F_REQUEST | libc::NLM_F_ACK;
        let mut bytes = vec![0; HEAD_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags as u16).to_ne_bytes());
        bytes.extend(fixed);
        Self(bytes)
    }

    fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        let start = self.0.len();
        self.0.extend([0; 4]);
        self.0.extend(value);
        self.end(start, kind)
    }

    /// An attribute whose value is written by `inner`.
    fn nested(mut self, kind: u16, inner: impl FnOnce(Self) -> Self) -> Self {
        let start = self.0.len();
        self.0.extend([0; 4]);
        inner(self).end(start, kind)
    }

    /// Without a head of its own.
    fn fixed(mut self, fixed: &[u8]) -> Self {
        self.0.extend(fixed);
        self
    }

    /// The length and kind of the attribute that began here, and zeros up to a multiple of four.
    fn end(mut self, start: usize, kind: u16) -> Self {
        let length = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.0[start + 2..start + 4].copy_from_slice(&kind.to_ne_bytes());
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Waits for the kernel's answer.
    fn send(mut self) -> io::Result<()> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        // Without a protocol it is rtnetlink(7), whose number is 0.
        let socket = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
        send(&socket, &self.0, SendFlags::empty())?;
        let mut answer = [0; 4_096];
        let (bytes, _) = recv(&socket, &mut answer, RecvFlags::empty())?;
        match errno(&answer[..bytes]) {
            Some(0) => Ok(()),
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
            None => Err(io::Error::other("an answer of netlink has no result")),
        }
    }
}

/// The result in an answer: behind the head, a negative errno or 0.
fn errno(answer: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let value = i32::from_ne_bytes(answer.get(HEAD_BYTES..HEAD_BYTES + 4)?.try_into().ok()?);
    (i32::from(kind) == libc::NLMSG_ERROR).then_some(-value)
}

/// linux/if_link.h, `ifinfomsg`: family, type, index, flags, mask of flags, all of them to be chosen by the kernel.
const DEVICE_HEAD: [u8; 16] = [0; 16];

/// One end of a pair of devices, before it exists.
#[derive(Debug, Clone)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Bytes of the largest packet.
    pub mtu: u32,
}

impl Device {
    fn written(&self, request: Request) -> Request {
        request
            .attribute(libc::IFLA_IFNAME, &with_zero(&self.name))
            .attribute(libc::IFLA_MTU, &self.mtu.to_ne_bytes())
    }
}

fn with_zero(name: &str) -> Vec<u8> {
    [name.as_bytes(), &[0]].concat()
}

/// Makes a pair of devices; `far` is in another namespace.
pub fn make_pair(near: &Device, far: &Device, far_namespace: BorrowedFd<'_>) -> io::Result<()> {
    let peer = |request: Request| {
        let descriptor = far_namespace.as_fd().as_raw_fd().to_ne_bytes();
        far.written(request.fixed(&DEVICE_HEAD)).attribute(libc::IFLA_NET_NS_FD, &descriptor)
    };
    let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let request = Request::new(libc::RTM_NEWLINK, flags, &DEVICE_HEAD);
    let request = near.written(request).nested(libc::IFLA_LINKINFO | NLA_F_NESTED, |info| {
        info.attribute(libc::IFLA_INFO_KIND, b"veth")
            .nested(libc::IFLA_INFO_DATA | NLA_F_NESTED, |data| {
                data.nested(VETH_INFO_PEER | NLA_F_NESTED, peer)
            })
    });
    request.send()
}

fn index(device: &str) -> io::Result<u32> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let name = CString::new(device)?;
    let name = name.to_str().map_err(io::Error::other)?;
    Ok(rustix::net::netdevice::name_to_index(&socket, name)?)
}

/// Gives a device an address that no other host of a network has: routes lead to others.
pub fn add_address(device: &str, address: Ipv4Addr) -> io::Result<()> {
    // linux/if_addr.h, `ifaddrmsg`: family, length of the prefix, flags, scope, index.
    let mut head = [libc::AF_INET as u8, 32, 0, libc::RT_SCOPE_UNIVERSE, 0, 0, 0, 0];
    head[4..].copy_from_slice(&index(device)?.to_ne_bytes());
    let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    Request::new(libc::RTM_NEWADDR, flags, &head)
        .attribute(libc::IFA_LOCAL, &address.octets())
        .attribute(libc::IFA_ADDRESS, &address.octets())
        .send()
}

/// Leads packets to `to` over this device: at once, or by a router there. They have the address `from`.
pub fn add_route(
    device: &str,
    to: Ipv4Addr,
    from: Ipv4Addr,
    router: Option<Ipv4Addr>,
) -> io::Result<()> {
    let scope = if router.is_some() { libc::RT_SCOPE_UNIVERSE } else { libc::RT_SCOPE_LINK };
    // linux/rtnetlink.h, `rtmsg`: family, lengths of both prefixes, TOS, table, protocol, scope, type, flags.
    let family = libc::AF_INET as u8;
    let table = libc::RT_TABLE_MAIN;
    let head = [family, 32, 0, 0, table, libc::RTPROT_STATIC, scope, libc::RTN_UNICAST, 0, 0, 0, 0];
    let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let request = Request::new(libc::RTM_NEWROUTE, flags, &head)
        .attribute(libc::RTA_DST, &to.octets())
        .attribute(libc::RTA_PREFSRC, &from.octets())
        .attribute(libc::RTA_OIF, &index(device)?.to_ne_bytes());
    match router {
        Some(router) => request.attribute(libc::RTA_GATEWAY, &router.octets()).send(),
        None => request.send(),
    }
}

/// A token bucket before a device (tc-tbf(8)): it sends `rate`, and queues `queue_bytes`.
pub fn add_token_bucket(
    device: &str,
    rate: Bandwidth,
    queue_bytes: u32,
    burst_bytes: u32,
) -> io::Result<()> {
    let bytes_per_s = rate.0.div_ceil(8);
    // linux/pkt_sched.h, `tc_ratespec`: cell_log, linklayer, overhead, cell_align, mpu, rate.
    let mut speed = [0; 12];
    speed[1] = TC_LINKLAYER_ETHERNET;
    speed[8..].copy_from_slice(&u32::try_from(bytes_per_s).unwrap_or(u32::MAX).to_ne_bytes());
    // `tc_tbf_qopt`: rate, peakrate, limit, buffer, mtu; the burst replaces the buffer.
    let [limit, zero] = [queue_bytes, 0].map(u32::to_ne_bytes);
    let settings = [&speed[..], &[0; 12], &limit, &zero, &zero].concat();
    // `tcmsg`: family, index, handle, parent, info.
    let index = index(device)?.to_ne_bytes();
    let head = [[0; 4], index, zero, TC_H_ROOT.to_ne_bytes(), zero].concat();
    let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
    Request::new(libc::RTM_NEWQDISC, flags, &head)
        .attribute(libc::TCA_KIND, b"tbf\0")
        .nested(libc::TCA_OPTIONS | NLA_F_NESTED, |options| {
            options
                .attribute(TCA_TBF_PARMS, &settings)
                .attribute(TCA_TBF_RATE64, &bytes_per_s.to_ne_bytes())
                .attribute(TCA_TBF_BURST, &burst_bytes.to_ne_bytes())
        })
        .send()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_their_length_and_are_padded() {
        let request = Request::new(16, 0, &[1, 2, 3, 4])
            .attribute(3, b"ab\0")
            .nested(18, |inner| inner.attribute(1, b"veth"));
        let [length, inner] = [7_u16, 8].map(u16::to_ne_bytes);
        let outer = 12_u16.to_ne_bytes();
        let expected = [
            &[1, 2, 3, 4][..],
            &[&length[..], &3_u16.to_ne_bytes(), b"ab\0\0"].concat(),
            &[&outer[..], &18_u16.to_ne_bytes()].concat(),
            &[&inner[..], &1_u16.to_ne_bytes(), b"veth"].concat(),
        ]
        .concat();
        assert_eq!(request.0[HEAD_BYTES..], expected);
    }

    #[test]
    fn an_answer_is_an_errno() {
        let answer = |kind: i32, value: i32| {
            let mut bytes = vec![0; 20];
            bytes[4..6].copy_from_slice(&(kind as u16).to_ne_bytes());
            bytes[16..].copy_from_slice(&value.to_ne_bytes());
            errno(&bytes)
        };
        assert_eq!(answer(libc::NLMSG_ERROR, 0), Some(0));
        assert_eq!(answer(libc::NLMSG_ERROR, -libc::EEXIST), Some(libc::EEXIST));
        assert_eq!(answer(libc::NLMSG_DONE, 0), None);
        assert_eq!(errno(&[0; 19]), None);
    }
}
