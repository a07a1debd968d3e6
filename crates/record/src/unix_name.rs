//! Names of Unix sockets: a path, `@` and an abstract name, or `unix:` and the number of the socket's inode.
//!
//! All that compares the ends of connections compares addresses. So each name has a key in the form of an IPv6 address
//! without a port: the number of an inode itself, or a hash of any other name. The connection keeps the text.

use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// The first bytes of each key; the next one says which key it is.
const PREFIX: [u8; 5] = [0xfd, b'u', b'n', b'i', b'x'];
const INODE: u8 = 0;
const HASH: u8 = 1;
/// Begins the name of a socket without one.
const UNNAMED: &str = "unix:";

/// The name of a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnixName {
    key: SocketAddr,
    /// `None` where the key has the number of an inode.
    text: Option<Box<str>>,
}

impl UnixName {
    /// The socket with this name. Characters that reports and tables use themselves become `?`.
    pub fn new(name: &str) -> Self {
        if let Some(inode) = name.strip_prefix(UNNAMED).and_then(|number| number.parse().ok()) {
            return Self::of_inode(inode);
        }
        let is_shown =
            |it: char| !it.is_control() && !it.is_whitespace() && !matches!(it, '"' | ',');
        let text: String = name.chars().map(|it| if is_shown(it) { it } else { '?' }).collect();
        Self { key: key(HASH, hash(text.as_bytes())), text: Some(text.into()) }
    }

    /// A socket without a name; 0 for an unknown number.
    pub fn of_inode(inode: u64) -> Self {
        Self { key: key(INODE, inode), text: None }
    }
}

/// Names of the Unix sockets at both ends of a connection, where they have any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnixNames([Option<Box<str>>; 2]);

impl UnixNames {
    /// Of the client, or of the server.
    pub(crate) fn of(&self, end: usize) -> Option<&str> {
        self.0[end].as_deref()
    }
}

/// The ends of a connection between two Unix sockets: their keys, and their names if they have any.
pub fn unix_ends(ends: [UnixName; 2]) -> ([SocketAddr; 2], Option<Arc<UnixNames>>) {
    let keys = [ends[0].key, ends[1].key];
    let names = ends.map(|end| end.text);
    let has_names = names.iter().any(Option::is_some);
    (keys, has_names.then(|| Arc::new(UnixNames(names))))
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
pub struct End<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) is_unix: bool,
    pub(crate) name: Option<&'a str>,
}

impl fmt::Display for End<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.name {
            return f.pad(name);
        }
        let SocketAddr::V6(v6) = self.address else { return self.address.fmt(f) };
        let octets = v6.ip().octets();
        if !self.is_unix || octets[..5] != PREFIX {
            return self.address.fmt(f);
        }
        let number = octets[8..].iter().fold(0u64, |number, octet| number << 8 | u64::from(*octet));
        let mark = if octets[5] == INODE { "" } else { "#" };
        f.pad(&format!("{UNNAMED}{mark}{number}"))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Connection, ConnectionId, Protocol, Side};

    use super::*;

    fn ends(names: [&str; 2]) -> Connection {
        Connection::of_unix(ConnectionId(1), Protocol::Unix, names.map(UnixName::new), 0)
    }

    fn shown(name: &str) -> String {
        ends([name, "unix:7"]).end(Side::Client).to_string()
    }

    #[test]
    fn a_name_is_shown_as_it_was_given_and_has_one_key() {
        for name in ["/run/a.sock", "@abstract", "unix:4711", "relative"] {
            assert_eq!(shown(name), name);
            assert_eq!(UnixName::new(name), UnixName::new(name));
        }
        let both = ends(["/run/a.sock", "/run/b.sock"]);
        assert_ne!(both.client, both.server);
        assert_eq!(both.end(Side::Server).to_string(), "/run/b.sock");
        assert_eq!(UnixName::new("unix:7"), UnixName::of_inode(7));
    }

    #[test]
    fn a_connection_between_sockets_without_names_keeps_none() {
        assert_eq!(ends(["unix:6", "unix:7"]).names, None);
    }

    #[test]
    fn characters_of_tables_and_terminals_are_replaced() {
        assert_eq!(shown("/a,b\"c\u{1b}[2J d\n"), "/a?b?c?[2J?d?");
    }

    #[test]
    fn the_same_address_of_another_protocol_is_an_address() {
        let Connection { client, server, .. } = ends(["/run/a.sock", "unix:7"]);
        let tcp = Connection::new(ConnectionId(1), Protocol::Tcp, [client, server], 0);
        assert_eq!(tcp.end(Side::Server).to_string(), server.to_string());
    }
}
