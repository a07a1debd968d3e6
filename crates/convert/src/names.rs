//! Host and service names as addresses and ports.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Services by their names in printed traces (IANA service name registry).
const SERVICES: [(&str, u16); 18] = [
    ("echo", 7),
    ("discard", 9),
    ("daytime", 13),
    ("chargen", 19),
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("domain", 53),
    ("http", 80),
    ("sunrpc", 111),
    ("nntp", 119),
    ("https", 443),
    ("login", 513),
    ("shell", 514),
    ("nfs", 2049),
    ("iperf", 5001),
];

/// Hosts given by name get addresses for documentation, 192.0.2.1 and up (RFC 5737 §3).
#[derive(Debug, Default)]
pub(crate) struct Names {
    hosts: BTreeMap<String, Ipv4Addr>,
}

impl Names {
    /// `host.port`, each by number or name.
    pub(crate) fn socket(&mut self, text: &str) -> Option<SocketAddr> {
        let (host, port) = text.rsplit_once('.')?;
        let port = match port.parse() {
            Ok(port) => port,
            Err(_) => SERVICES.iter().find(|service| service.0 == port)?.1,
        };
        Some(SocketAddr::new(self.host(host)?, port))
    }

    fn host(&mut self, name: &str) -> Option<IpAddr> {
        if let Ok(address) = name.parse() {
            return Some(address);
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if name.is_empty() || !name.chars().all(is_name) {
            return None;
        }
        let next = u8::try_from(self.hosts.len() + 1).ok().filter(|&last| last < u8::MAX)?;
        let address = self.hosts.entry(name.to_owned());
        Some((*address.or_insert(Ipv4Addr::new(192, 0, 2, next))).into())
    }

    /// Names and their addresses, a sentence; `None` without a name.
    pub(crate) fn note(&self) -> Option<String> {
        let pairs = self.hosts.iter().map(|(name, address)| format!("{address} is {name}"));
        let pairs: Vec<_> = pairs.collect();
        (!pairs.is_empty())
            .then(|| format!("host names have no address here: {}", pairs.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sockets(texts: &[&str]) -> Vec<String> {
        let mut names = Names::default();
        let socket = |text: &&str| names.socket(text).map_or("?".into(), |at| at.to_string());
        texts.iter().map(socket).collect()
    }

    #[test]
    fn names_get_addresses_in_order_of_appearance() {
        let got = sockets(&["zen.1164", "patti.2000", "zen.discard", "128.29.1.12.1136"]);
        assert_eq!(got, ["192.0.2.1:1164", "192.0.2.2:2000", "192.0.2.1:9", "128.29.1.12:1136"]);
    }

    #[test]
    fn ipv6_addresses_and_ports_are_told_apart_by_the_last_dot() {
        assert_eq!(sockets(&["::1.443", "fe80::2.http"]), ["[::1]:443", "[fe80::2]:80"]);
    }

    #[test]
    fn what_names_no_socket_is_none() {
        assert_eq!(
            sockets(&["", "zen", "zen.", ".9", "zen.nosuch", "z>n.9", "zen.65536"]),
            ["?"; 7]
        );
    }
}
