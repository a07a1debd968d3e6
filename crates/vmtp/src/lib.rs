//! VMTP (RFC 1045, version 0.7 of 1988): a request and its response without a connection.
//!
//! [`wire`] has the packets.

pub mod wire;
