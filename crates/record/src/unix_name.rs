//! Names of Unix sockets: a path, `@` and an abstract name, or `unix:` and the number of the socket's inode.
//!
//! All that compares the ends of connections compares addresses. So each name has a key in the form of an IPv6 address
//! without a port: the number of an inode itself, or a hash of any other name, whose text is kept here.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

/// The first bytes of each key; the next one says which key it is.
const PREFIX: [u8; 5] = [0xfd, b'u', b'n', b'i', b'x'];
const INODE: u8 = 0;
const HASH: u8 = 1;
/// Begins the name of a socket without one.
const UNNAMED: &str = "unix:";
/// Names that are kept; a later one is shown by its hash.
const NAMES_MAX: usize = 1 << 16;

static NAMES: Mutex<BTreeMap<SocketAddr, Arc<str>>> = Mutex::new(BTreeMap::new());

/// The key of the Unix socket with this name. Characters that reports and tables use themselves become `?`.
pub fn unix_key(name: &str) -> SocketAddr {
    if let Some(inode) = name.strip_prefix(UNNAMED).and_then(|number| number.parse().ok()) {
        return unix_inode_key(inode);
    }
    let is_shown = |it: char| !it.is_control() && !it.is_whitespace() && !matches!(it, '"' | ',');
    let name: String = name.chars().map(|it| if is_shown(it) { it } else { '?' }).collect();
    let key = key(HASH, hash(name.as_bytes()));
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if names.len() < NAMES_MAX || names.contains_key(&key) {
        names.insert(key, name.into());
    }
    key
}

/// The key of a Unix socket without a name; 0 for an unknown number.
pub fn unix_inode_key(inode: u64) -> SocketAddr {
    key(INODE, inode)
}

fn key(kind: u8, number: u64) -> SocketAddr {
    let mut octets = [0; 16];
    octets[..5].copy_from_slice(&PREFIX);
    octets[5] = kind;
    octets[8..].copy_from_slice(&number.to_be_bytes());
    SocketAddr::new(Ipv6Addr::from(octets).into(), 0)
}

/// FNV-1a (Fowler, Noll, Vo), 64 bits.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// An end of a connection in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    pub(crate) address: SocketAddr,
    pub(crate) is_unix: bool,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SocketAddr::V6(v6) = self.address else { return self.address.fmt(f) };
        let octets = v6.ip().octets();
        if !self.is_unix || octets[..5] != PREFIX {
            return self.address.fmt(f);
        }
        let number = octets[8..].iter().fold(0u64, |number, octet| number << 8 | u64::from(*octet));
        if octets[5] == INODE {
            return f.pad(&format!("{UNNAMED}{number}"));
        }
        let names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        match names.get(&self.address) {
            Some(name) => f.pad(name),
            None => f.pad(&format!("{UNNAMED}#{number:x}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Connection, ConnectionId, Protocol, Side};

    use super::*;

    fn shown(name: &str) -> String {
        let ends = [unix_key(name), unix_inode_key(7)];
        Connection::new(ConnectionId(1), Protocol::Unix, ends, 0).end(Side::Client).to_string()
    }

    #[test]
    fn a_name_is_shown_as_it_was_given_and_has_one_key() {
        for name in ["/run/a.sock", "@abstract", "unix:4711", "relative"] {
            assert_eq!(shown(name), name);
            assert_eq!(unix_key(name), unix_key(name));
        }
        assert_ne!(unix_key("/run/a.sock"), unix_key("/run/b.sock"));
        assert_eq!(unix_key("unix:7"), unix_inode_key(7));
    }

    #[test]
    fn characters_of_tables_and_terminals_are_replaced() {
        assert_eq!(shown("/a,b\"c\u{1b}[2J d\n"), "/a?b?c?[2J?d?");
    }

    #[test]
    fn the_same_address_of_another_protocol_is_an_address() {
        let ends = [unix_key("/run/a.sock"); 2];
        let tcp = Connection::new(ConnectionId(1), Protocol::Tcp, ends, 0);
        assert_eq!(tcp.end(Side::Server).to_string(), ends[1].to_string());
    }
}
