//! Which sockets are logged, under which connection.
//!
//! Logging begins where a connection is opened or a first datagram is sent. The other end joins by
//! the mark that the packets carry.

use sockscope_record::{Direction, Protocol};
use sockscope_stack::socket::ANY;
use sockscope_stack::{Endpoint, SocketId};

use super::Host;
use crate::scenario::LogPolicy;
use crate::sink::RecordSink;
use crate::world::World;

impl Host {
    /// `SO_LOG` on this socket, if it is not logged yet.
    pub(super) fn log<S: RecordSink>(&mut self, now_ns: u64, id: SocketId, world: &mut World<S>) {
        let Some(socket) = self.stack.sockets.find_mut(id) else { return };
        if world.wants_records && socket.log.is_none() {
            socket.log = Some(world.open_connection(now_ns, socket.protocol));
        }
        self.name_flow(id, world);
    }

    pub(super) fn log_on_connect<S: RecordSink>(
        &mut self,
        now_ns: u64,
        id: SocketId,
        world: &mut World<S>,
    ) {
        if world.log == LogPolicy::All {
            self.log(now_ns, id, world);
        }
    }

    /// A datagram socket is logged from its first datagram on, as a connection to its first peer.
    pub(super) fn log_datagrams<S: RecordSink>(
        &mut self,
        now_ns: u64,
        id: SocketId,
        to: Endpoint,
        world: &mut World<S>,
    ) {
        let is_new = self
            .stack
            .sockets
            .find(id)
            .is_some_and(|socket| socket.protocol == Protocol::Udp && socket.log.is_none());
        if is_new && world.log == LogPolicy::All {
            self.log(now_ns, id, world);
        }
        let Some(socket) = self.stack.sockets.find(id) else { return };
        if let Some(flow) = socket.log.filter(|_| is_new) {
            world.name_connection(flow, self.own_endpoint(socket.local, to), to);
        }
    }

    /// Tells the addresses of a connection, once its client knows them.
    pub(super) fn name_flow<S: RecordSink>(&self, id: SocketId, world: &mut World<S>) {
        let Some(socket) = self.stack.sockets.find(id) else { return };
        let Some(flow) = socket.log else { return };
        if flow.direction() == Direction::FromClient && socket.foreign != ANY {
            world.name_connection(flow, socket.local, socket.foreign);
        }
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
