//! Which sockets are logged, under which connection.
//!
//! Logging begins where a connection is opened or a first datagram is sent. The other end joins by
//! the mark that the packets carry.

use sockscope_record::{self as record, Direction, FlowId, Protocol, Record};
use sockscope_stack::socket::ANY;
use sockscope_stack::{Endpoint, SocketId};

use super::Host;
use crate::program::{Conversion, Way};
use crate::scenario::LogPolicy;
use crate::scheduler::ProcessIndex;
use crate::shared::Shared;

impl Host {
    /// `SO_LOG` on this socket, if it is not logged yet.
    pub(super) fn log(&mut self, now_ns: u64, id: SocketId, shared: &mut Shared) {
        let Some(socket) = self.stack.sockets.find_mut(id) else { return };
        if shared.wants_records && socket.log.is_none() {
            socket.log = Some(shared.open_connection(now_ns, socket.protocol));
        }
        self.name_flow(id, shared);
    }

    pub(super) fn log_on_connect(&mut self, now_ns: u64, id: SocketId, shared: &mut Shared) {
        if shared.log == LogPolicy::All {
            self.log(now_ns, id, shared);
        }
    }

    /// A datagram socket is logged from its first datagram on: as a connection to its first peer, or
    /// as the other end of the connection whose datagrams it answers.
    pub(super) fn log_datagrams(
        &mut self,
        now_ns: u64,
        process: ProcessIndex,
        (id, to): (SocketId, Endpoint),
        shared: &mut Shared,
    ) {
        if shared.log != LogPolicy::All || !shared.wants_records {
            return;
        }
        let Some(socket) = self.stack.sockets.find(id) else { return };
        if socket.protocol != Protocol::Udp || socket.log.is_some() {
            return;
        }
        let own = self.own_endpoint(socket.local, to);
        let answered = shared.datagrams_between(to, own);
        let flow =
            answered.map_or_else(|| shared.open_connection(now_ns, Protocol::Udp), FlowId::reverse);
        if let Some(socket) = self.stack.sockets.find_mut(id) {
            socket.log = Some(flow);
        }
        self.processes[process].unnamed = answered.is_none().then_some((id, to));
    }

    /// Records the addresses of the datagrams that a process sends, once its socket has a port,
    /// perhaps by the first `sendto`.
    pub(super) fn name_datagrams(
        &mut self,
        process: ProcessIndex,
        (id, to): (SocketId, Endpoint),
        shared: &mut Shared,
    ) {
        let Some(socket) = self.stack.sockets.find(id) else { return };
        if let Some(flow) = socket.log.filter(|_| socket.local.1 != 0) {
            shared.name_connection(flow, self.own_endpoint(socket.local, to), to);
            self.processes[process].unnamed = None;
        }
    }

    /// Tells the addresses of a connection, once its client knows them.
    pub(super) fn name_flow(&self, id: SocketId, shared: &mut Shared) {
        let Some(socket) = self.stack.sockets.find(id) else { return };
        let Some(flow) = socket.log else { return };
        if flow.direction() == Direction::FromClient && socket.foreign != ANY {
            shared.name_connection(flow, socket.local, socket.foreign);
        }
    }

    /// A layer of the process's program is done with bytes of its socket, if that is logged.
    pub(super) fn tell_conversion(
        &self,
        now_ns: u64,
        (process, id): (ProcessIndex, SocketId),
        Conversion { way, octets, since_ns }: Conversion,
        shared: &mut Shared,
    ) {
        let Some(socket) = self.stack.sockets.find(id) else { return };
        let (flow, offset) = match way {
            Way::Out => (socket.log, socket.snd.entered()),
            Way::In => (socket.received_flow(), socket.rcv.left().saturating_sub(octets.into())),
        };
        let Some(flow) = flow else { return };
        let converted = Record {
            offset,
            flow,
            len: octets,
            thread: self.processes[process].number,
            ..Record::default()
        };
        let conversion = record::Conversion { began_ns: since_ns, is_incoming: way == Way::In };
        self.record(now_ns, converted.with_conversion(conversion), shared);
    }

    /// A socket bound to any address speaks from that of an interface.
    fn own_endpoint(&self, local: Endpoint, to: Endpoint) -> Endpoint {
        if !local.0.is_unspecified() {
            return local;
        }
        let interfaces = (0..=u8::MAX).map_while(|number| self.stack.interface(number));
        let mut addresses = interfaces.map(|interface| interface.address);
        let same_network = |address: &std::net::Ipv4Addr| address.octets()[0] == to.0.octets()[0];
        let first = self.stack.interface(0).map(|interface| interface.address);
        (addresses.find(same_network).or(first).unwrap_or(local.0), local.1)
    }
}
