//! The sizes of the buffers of datagram sockets.
//!
//! One socket may have many peers, and so be an end of many connections. Each connection gets a record of
//! the sizes; the socket's options are recorded with the first connection alone.

use std::collections::BTreeMap;

use sockscope_record::{FlowId, Kind, Record};

use super::hit::Hit;
use crate::layout::RawEvent;

/// Sockets remembered, at most; the oldest are forgotten.
const SOCKETS_MAX: usize = 65_536;

/// Buffers of the sockets that got datagrams, by the socket's number in raw records.
#[derive(Default)]
pub(super) struct UdpBuffers(BTreeMap<u32, Buffers>);

/// Sizes as granted, and which of them the program set.
#[derive(Clone, Copy)]
pub(super) struct Buffers {
    sndbuf: u32,
    rcvbuf: u32,
    userlocks: u8,
}

impl Buffers {
    pub(super) fn of(event: &RawEvent) -> Self {
        let RawEvent { sndbuf, rcvbuf, userlocks, .. } = *event;
        Self { sndbuf, rcvbuf, userlocks: userlocks as u8 & 3 }
    }

    /// The record that the socket which sends `flow` has these.
    pub(super) fn record(self, flow: u32, at_ns: u64) -> Record {
        Record {
            at_ns,
            flow: FlowId(flow),
            kind: Kind::SocketBuffers,
            detail: u64::from(self.rcvbuf) << 32 | u64::from(self.sndbuf),
            code: self.userlocks,
            ..Record::default()
        }
    }
}

impl UdpBuffers {
    pub(super) fn insert(&mut self, event: &RawEvent) {
        if self.0.len() >= SOCKETS_MAX && !self.0.contains_key(&event.number) {
            self.0.pop_first();
        }
        self.0.insert(event.number, Buffers::of(event));
    }

    /// A datagram of a flow was announced to a socket that got none of it before.
    pub(super) fn report(&self, hit: &mut Hit<'_>, number: u32) {
        if let Some(buffers) = self.0.get(&number) {
            hit.out.push(buffers.record(hit.head.flow ^ 1, hit.head.at_ns));
        }
    }
}
