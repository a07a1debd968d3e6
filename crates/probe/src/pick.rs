//! Which connections are logged.

use std::hash::{BuildHasher, RandomState};
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
    /// Users whose sockets may ask to be logged.
    pub so_log: SoLog,
    /// The user of this process, or the caller of sudo. In addition to another pick, other users may ask for
    /// sockets by `SO_LOG`. Sockets that neither root nor this user asks for get only a share of the memory.
    pub owner: u32,
}

/// Users whose sockets may ask to be logged (`SO_LOG`). For others the call fails as if no recorder ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SoLog {
    /// Every user's.
    #[default]
    All,
    /// Those of root and of this user.
    Own(u32),
    /// No user's.
    Off,
}

impl Pick {
    /// Whether anything but marked sockets can be picked.
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
            if bytes.is_empty() {
                return Err(Error::Pick(
                    "--comm \"\": give the name of a thread, 1 to 15 bytes".to_owned(),
                ));
            }
            if bytes.len() > 15 {
                return Err(Error::Pick(format!(
                    "--comm {comm:?}: the kernel keeps names of 1 to 15 bytes; give the first 15"
                )));
            }
            for (to, from) in raw.comm.iter_mut().zip(bytes) {
                *to = (*from).cast_signed();
            }
            raw.has_comm = 1;
        }
        raw.in_band = u32::from(self.in_band);
        // Random: by it the numbers of this recording differ from those of any other host.
        raw.mark_key = RandomState::new().hash_one(0);
        (raw.so_log, raw.owner) = match self.so_log {
            SoLog::All => (0, self.owner),
            SoLog::Own(user) => (1, user),
            SoLog::Off => (2, 0),
        };
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
pub(crate) fn fold(address: &IpAddr) -> u32 {
    match address {
        IpAddr::V4(v4) => u32::from_ne_bytes(v4.octets()),
        IpAddr::V6(v6) => {
            if let Some(v4) = v6.to_ipv4_mapped() {
                return u32::from_ne_bytes(v4.octets());
            }
            // As `fold6` of `bpf/flow.h`.
            let octets = v6.octets();
            let word = |index: usize| u32::from_le_bytes(octets.as_chunks().0[index]);
            let mut folded = word(0).wrapping_mul(0x9e37_79b1);
            folded = (folded ^ word(1)).wrapping_mul(0x85eb_ca6b);
            folded = (folded ^ word(2)).wrapping_mul(0xc2b2_ae35);
            (folded ^ (folded >> 15) ^ word(3)).to_le()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `fold6` of `bpf/flow.h` again, on numbers that cannot overflow, little-endian.
    fn folded_by_hand(octets: [u8; 16]) -> u32 {
        let words = octets.chunks(4).map(|word| {
            word.iter().rev().fold(0u128, |number, octet| number * 256 + u128::from(*octet))
        });
        let words: Vec<u128> = words.collect();
        let modulus = 1u128 << 32;
        let first = words[0] * 2_654_435_761 % modulus;
        let second = (first ^ words[1]) * 2_246_822_507 % modulus;
        let third = (second ^ words[2]) * 3_266_489_909 % modulus;
        u32::try_from(third ^ (third / 32_768) ^ words[3]).unwrap()
    }

    #[test]
    fn an_ipv6_address_is_folded_as_the_probes_do() {
        for text in ["::1", "2001:db8::1", "fe80::1ff:fe23:4567:890a", "ff02::fb", "::"] {
            let IpAddr::V6(address) = text.parse().unwrap() else { panic!("not IPv6: {text}") };
            let folded = u32::from_le(fold(&IpAddr::V6(address)));
            assert_eq!(folded, folded_by_hand(address.octets()), "{text}");
        }
    }

    #[test]
    fn the_probes_fold_with_the_same_numbers() {
        let source = include_str!("bpf/flow.h");
        for number in [2_654_435_761u32, 2_246_822_507, 3_266_489_909] {
            assert!(source.contains(&format!("{number:#x}U")), "{number:#x}");
        }
    }

    #[test]
    fn an_ipv4_address_stays_as_on_the_wire_also_when_mapped() {
        let wire = u32::from_ne_bytes([10, 0, 0, 7]);
        assert_eq!(fold(&"10.0.0.7".parse().unwrap()), wire);
        assert_eq!(fold(&"::ffff:10.0.0.7".parse().unwrap()), wire);
    }

    #[test]
    fn what_is_picked_is_written_and_the_rest_left_empty() {
        let pick = Pick {
            ports: vec![80, 443],
            pids: vec![7],
            comm: Some("fifteen-bytes-x".to_owned()),
            ..Pick::default()
        };
        let mut raw = RawPick::default();
        pick.write(&mut raw).unwrap();
        assert_eq!((raw.ports, raw.port[0], raw.port[1], raw.port[2]), (2, 80, 443, 0));
        assert_eq!((raw.pids, raw.pid[0], raw.addresses), (1, 7, 0));
        assert_eq!((raw.has_comm, raw.comm[14], raw.comm[15]), (1, 120, 0));
        assert_eq!((raw.any, raw.has_cgroup, raw.in_band), (1, 0, 0));
    }

    #[test]
    fn who_may_ask_is_written_with_the_user() {
        let written = |so_log| {
            let mut raw = RawPick::default();
            Pick { so_log, ..Pick::default() }.write(&mut raw).unwrap();
            (raw.so_log, raw.owner)
        };
        assert_eq!(written(SoLog::All), (0, 0));
        assert_eq!(written(SoLog::Own(1000)), (1, 1000));
        assert_eq!(written(SoLog::Off), (2, 0));
    }

    #[test]
    fn with_nothing_picked_only_marked_sockets_are_logged() {
        let mut raw = RawPick::default();
        Pick { in_band: true, ..Pick::default() }.write(&mut raw).unwrap();
        assert_eq!((raw.any, raw.in_band), (0, 1));
    }

    #[test]
    fn what_does_not_fit_is_refused_in_words() {
        let mut raw = RawPick::default();
        let refused = |pick: &Pick, raw: &mut RawPick| pick.write(raw).unwrap_err().to_string();
        let ports = Pick { ports: (1..=17).collect(), ..Pick::default() };
        assert!(refused(&ports, &mut raw).contains("17 ports picked, at most 16 fit"));
        let comms = [
            ("", "--comm \"\": give the name of a thread, 1 to 15 bytes"),
            (
                "sixteen-bytes-xx",
                "--comm \"sixteen-bytes-xx\": the kernel keeps names of 1 to 15 bytes",
            ),
        ];
        for (comm, words) in comms {
            let pick = Pick { comm: Some(comm.to_owned()), ..Pick::default() };
            let said = refused(&pick, &mut raw);
            assert!(said.starts_with(words), "{said}");
        }
    }
}
