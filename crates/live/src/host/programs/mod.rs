//! What the processes of the host do.

mod acceptor;
mod client;
mod exchanger;
mod server;

use std::str::FromStr;

pub(super) use acceptor::shared_listener;
pub(super) use client::Fetch;
pub use client::Fetched;
pub(super) use exchanger::Exchanger;
pub use exchanger::{Exchanged, Progress};
pub(super) use server::{EchoServer, PageServer};

/// What a host serves, at which port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Pages, by HTTP/1.0: a short one for `/`, and one of N bytes for `/N`.
    Page(u16),
    /// Everything that it receives (RFC 862).
    Echo(u16),
}

impl FromStr for Service {
    type Err = String;

    /// As `page:80` or `echo:7`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected page:PORT or echo:PORT, found `{text}`");
        let (name, port) = text.split_once(':').ok_or_else(wrong)?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
        match name {
            "page" => Ok(Self::Page(port)),
            "echo" => Ok(Self::Echo(port)),
            _ => Err(wrong()),
        }
    }
}
