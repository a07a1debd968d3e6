//! The listening sockets of a process, which accept its connections.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;

/// State of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// Where a socket listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listening {
    /// Inode number of the network namespace.
    netns: u32,
    at: SocketAddr,
}

impl Listening {
    /// In the namespace of this process; `None` where that cannot be read.
    pub(super) fn here(at: SocketAddr) -> Option<Self> {
        Some(Self { netns: namespace("self")?, at })
    }

    /// The key of the map `listeners` in `bpf/force.bpf.c`.
    pub(super) fn key(&self) -> Vec<u8> {
        let [a, b, c, d] = words(self.at.ip());
        [self.netns, a, b, c, d, u32::from(self.at.port())]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect()
    }
}

/// Where the process listens now. Empty where it listens nowhere, or is gone.
pub(super) fn listening(pid: u32) -> Vec<Listening> {
    let pid = pid.to_string();
    let Some(netns) = namespace(&pid) else { return Vec::new() };
    let inodes = sockets(&pid);
    let mut found = Vec::new();
    for table in ["tcp", "tcp6"] {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        let rows = text.lines().filter_map(row).filter(|(_, inode)| inodes.contains(inode));
        found.extend(rows.map(|(at, _)| Listening { netns, at }));
    }
    found
}

/// An address as the program compares it: four words as on the wire, IPv4 as mapped to IPv6.
pub(super) fn words(address: IpAddr) -> [u32; 4] {
    let address = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let octets = address.octets();
    let mut words = [0; 4];
    for (word, octets) in words.iter_mut().zip(octets.as_chunks().0) {
        *word = u32::from_ne_bytes(*octets);
    }
    words
}

fn namespace(process: &str) -> Option<u32> {
    let inode = fs::metadata(format!("/proc/{process}/ns/net")).ok()?.ino();
    u32::try_from(inode).ok()
}

/// Inode numbers of the sockets of a process.
fn sockets(pid: &str) -> Vec<u64> {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let inode = |file: fs::DirEntry| {
        let link = fs::read_link(file.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    files.flatten().filter_map(inode).collect()
}

/// Address and inode number of a listening socket's row of `/proc/net/tcp` or `/proc/net/tcp6`.
fn row(line: &str) -> Option<(SocketAddr, u64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, local, _, LISTEN, ..] = words.as_slice() else { return None };
    let (address, port) = local.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    // Each word of an address is printed as a number of this CPU.
    let word = |at: usize| {
        let digits = address.get(at * 8..at * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let address = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut octets = [0; 16];
            for (at, to) in octets.as_chunks_mut().0.iter_mut().enumerate() {
                *to = word(at)?;
            }
            IpAddr::V6(Ipv6Addr::from(octets))
        }
        _ => return None,
    };
    Some((SocketAddr::new(address, port), words.get(9)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_listening_sockets_of_a_process_are_found() {
        let sockets = ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0"]
            .map(|address| TcpListener::bind(address).unwrap());
        let _client = std::net::TcpStream::connect(sockets[0].local_addr().unwrap()).unwrap();
        let found = listening(std::process::id());
        for socket in &sockets {
            let own = Listening::here(socket.local_addr().unwrap()).unwrap();
            assert_eq!(found.iter().filter(|one| **one == own).count(), 1, "{found:?}");
        }
    }

    #[test]
    fn a_process_that_is_gone_listens_nowhere() {
        // Above the largest process id that Linux gives (2^22).
        assert_eq!(listening(4_194_999), []);
    }

    #[test]
    fn rows_of_other_states_and_broken_ones_are_passed_over() {
        let row_of = |state: &str| {
            format!("0: 0100007F:1F90 00000000:0000 {state} 0:0 00:0 0 0 0 4711 1 0 100")
        };
        let at = row(&row_of("0A")).unwrap();
        assert_eq!((at.0.to_string().as_str(), at.1), ("127.0.0.1:8080", 4711));
        for broken in
            [row_of("01").as_str(), "", "sl  local_address rem_address   st", "0: x 0A 0A"]
        {
            assert_eq!(row(broken), None);
        }
    }
}
