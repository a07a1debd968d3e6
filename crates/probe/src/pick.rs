//! Which connections are logged.

use std::net::IpAddr;

use crate::error::Error;
use crate::layout::skeleton::types::pick as RawPick;

/// Which connections to log. Kinds that are not empty must all match; values of one kind are
/// alternatives. With nothing set, only sockets that ask for it themselves (`SO_LOG`) are logged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pick {
    /// Sockets created in this control group or below it: its inode number and depth.
    pub cgroup: Option<(u64, u32)>,
    /// Ports at either end.
    pub ports: Vec<u16>,
    /// Addresses at either end.
    pub addresses: Vec<IpAddr>,
    /// Processes that connect or listen.
    pub pids: Vec<u32>,
    /// Name of processes that connect or listen, as in `/proc/PID/comm`.
    pub comm: Option<String>,
    /// Mark SYNs of logged connections, and log connections whose SYN is marked.
    pub in_band: bool,
}

impl Pick {
    /// Whether anything but marked sockets can be picked.
    #[must_use]
    pub fn picks_any(&self) -> bool {
        self.cgroup.is_some()
            || !self.ports.is_empty()
            || !self.addresses.is_empty()
            || !self.pids.is_empty()
            || self.comm.is_some()
    }

    pub(crate) fn write(&self, raw: &mut RawPick) -> Result<(), Error> {
        if let Some((id, level)) = self.cgroup {
            raw.cgroup_id = id;
            raw.cgroup_level = level;
            raw.has_cgroup = 1;
        }
        raw.ports = fill(&mut raw.port, self.ports.iter().copied(), "ports")?;
        raw.addresses = fill(&mut raw.address, self.addresses.iter().map(fold), "addresses")?;
        raw.pids = fill(&mut raw.pid, self.pids.iter().copied(), "processes")?;
        if let Some(comm) = &self.comm {
            let bytes = comm.as_bytes();
            if bytes.is_empty() || bytes.len() > 15 {
                return Err(Error::Pick(format!(
                    "--comm {comm}: the kernel keeps names of 1 to 15 bytes; give the first 15"
                )));
            }
            for (to, from) in raw.comm.iter_mut().zip(bytes) {
                *to = (*from).cast_signed();
            }
            raw.has_comm = 1;
        }
        raw.in_band = u32::from(self.in_band);
        raw.any = u32::from(self.picks_any());
        Ok(())
    }
}

fn fill<T: Copy>(
    room: &mut [T],
    values: impl ExactSizeIterator<Item = T>,
    what: &str,
) -> Result<u32, Error> {
    let count = values.len();
    if count > room.len() {
        return Err(Error::Pick(format!(
            "{count} {what} picked, at most {} fit; record in several runs or pick by another kind",
            room.len()
        )));
    }
    for (to, from) in room.iter_mut().zip(values) {
        *to = from;
    }
    Ok(count as u32)
}

/// An address as the probes compare it: IPv4 as on the wire, IPv6 folded to 32 bits.
fn fold(address: &IpAddr) -> u32 {
    match address {
        IpAddr::V4(v4) => u32::from_ne_bytes(v4.octets()),
        IpAddr::V6(v6) => {
            if let Some(v4) = v6.to_ipv4_mapped() {
                return u32::from_ne_bytes(v4.octets());
            }
            let octets = v6.octets();
            let word = |index: usize| {
                u32::from_ne_bytes([
                    octets[index],
                    octets[index + 1],
                    octets[index + 2],
                    octets[index + 3],
                ])
            };
            let mut folded = word(0).wrapping_mul(0x9e37_79b1);
            folded = (folded ^ word(4)).wrapping_mul(0x85eb_ca6b);
            folded = (folded ^ word(8)).wrapping_mul(0xc2b2_ae35);
            folded ^ (folded >> 15) ^ word(12)
        }
    }
}
