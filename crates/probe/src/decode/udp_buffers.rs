//! The sizes of the buffers of datagram sockets.
//!
//! One socket may have many peers, and so be an end of many connections. Each connection gets a record of
//! the sizes; the socket's options are recorded with the first connection alone.

use std::collections::BTreeMap;

use sockscope_record::{FlowId, Record, SocketBuffers};

use super::hit::{Hit, socket_buffers};
use crate::layout::RawEvent;

/// Sockets remembered, at most; the oldest are forgotten.
const SOCKETS_MAX: usize = 65_536;

/// Buffers of the sockets that got datagrams, by the socket's number in raw records.
#[derive(Default)]
pub(super) struct UdpBuffers(BTreeMap<u32, SocketBuffers>);

/// The buffers of the socket that an event describes.
pub(super) fn buffers_of(event: &RawEvent) -> SocketBuffers {
    socket_buffers((event.sndbuf, event.rcvbuf), event.userlocks.into())
}

/// The record that the socket which sends `flow` has these buffers.
pub(super) fn buffers_record(buffers: SocketBuffers, flow: u32, at_ns: u64) -> Record {
    Record { at_ns, flow: FlowId(flow), ..Record::default() }.with_socket_buffers(buffers)
}

impl UdpBuffers {
    pub(super) fn insert(&mut self, event: &RawEvent) {
        if self.0.len() >= SOCKETS_MAX && !self.0.contains_key(&event.number) {
            self.0.pop_first();
        }
        self.0.insert(event.number, buffers_of(event));
    }

    /// A datagram of a flow was announced to a socket that got none of it before.
    pub(super) fn report(&self, hit: &mut Hit<'_>, number: u32) {
        if let Some(buffers) = self.0.get(&number) {
            hit.out.push(buffers_record(*buffers, hit.head.flow ^ 1, hit.head.at_ns));
        }
    }
}
