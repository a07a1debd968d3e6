//! VMTP (RFC 1045, version 0.7 of 1988): a request and its response without a connection.
//!
//! - [`wire`]: packets, entities, checksums, notices between modules;
//! - [`client`] and [`server`]: the two engines. They read no clock and no socket: the caller hands in
//!   packets and times, and sends their packets;
//! - [`driver`]: the engines on UDP and raw IP sockets;
//! - [`observe`]: the engines' observations of their queues;
//! - [`store`]: a storage server and its client.
//!
//! A client makes one transaction at a time: a Request of up to 16 KiB, or a run of packet groups of up
//! to 4 MiB, and its Response. The next Request acknowledges the Response before it. Lost data is
//! requested by blocks of 512 octets. Each Request reaches the server's application once.
//!
//! Not implemented: security (EPG, AuthProbe), forwarding, entity migration, receive sequences (NRS),
//! datagram Requests, priorities beyond carrying them, group management by request.

mod address;
mod asks;
pub mod client;
mod config;
pub mod driver;
mod message;
pub mod observe;
mod rate;
mod rtt;
pub mod server;
pub mod store;
pub mod wire;

pub use address::{Address, Host};
pub use client::{Client, Event, Fixed, Options, Request, Response};
pub use config::{Config, Timer};
pub use server::{Outcome, Server, Token};
