//! Rare events of the ring buffer: connections open, change state and close, threads appear.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use sockscope_record::{
    Connection, ConnectionId, DevicePlace, FlowId, InterfacePart, Process, Protocol, Record, Side,
    SocketLayer, StateChange, UnixName, WindowScale,
};

use super::decoder::Decoder;
use super::flow_state::FlowState;
use super::hit::connection_id;
use super::positions::POSITION_MAX;
use super::udp_buffers::{buffers_of, buffers_record};
use crate::layout::{RawEvent, constants as raw};

const AF_UNIX: u8 = 1;
const SOCK_DGRAM: u8 = 2;
const SOCK_SEQPACKET: u8 = 5;
/// An event of a thread that `SO_PEERCRED` alone shows.
const BY_PEERCRED: u8 = 1;
const AF_INET6: u8 = 10;
const IPPROTO_UDP: u8 = 17;
const TCP_ESTABLISHED: u8 = 1;
const TCP_CLOSE: u8 = 7;
/// FIN_WAIT1, LAST_ACK and CLOSE: from there on no byte enters the send queue.
const ENDS_WRITING: [u8; 3] = [4, 9, TCP_CLOSE];
/// FIN_WAIT1 and LAST_ACK: the FIN follows the written bytes.
const SENDS_FIN: [u8; 2] = [4, 9];
/// CLOSE_WAIT, LAST_ACK and CLOSING: the peer's FIN was counted as a byte received.
const HAS_FIN: [u8; 3] = [8, 9, 11];

impl Decoder {
    /// One event.
    pub(crate) fn event(&mut self, event: &RawEvent) {
        // The event of a thread follows the hit that shows it, which may have been before the end.
        if self.missed.is_over(event.at_ns) && event.kind != u32::from(raw::EVENT_THREAD) {
            return;
        }
        if self.is_of_left_out(event) {
            return;
        }
        match event.kind as u8 {
            raw::EVENT_OPEN if event.family == AF_UNIX => self.unix_opened(event),
            raw::EVENT_OPEN => {
                self.opened(event, false);
                self.opener_seen(event);
            }
            raw::EVENT_JOIN => self.joined(event),
            raw::EVENT_STATE => self.state_changed(event),
            raw::EVENT_THREAD => self.thread_seen(event),
            raw::EVENT_OPEN_STILL => self.open_still(event),
            raw::EVENT_SOCKET => self.socket_seen(event),
            raw::EVENT_INTERFACE => self.interface_seen(event),
            raw::EVENT_ACCEPT => self.accepted(event),
            raw::EVENT_DEVICE => self.device_seen(event),
            raw::EVENT_GONE => self.gone(event),
            raw::EVENT_LEFT_OUT => self.left_out(event),
            raw::EVENT_LAYER => self.note_layers(event),
            _ => {}
        }
    }

    fn opened(&mut self, event: &RawEvent, preexisting: bool) {
        if event.of_others > 0 {
            self.of_others.push(event.connection);
        }
        if event.replaced > 0 {
            self.ended(event.at_ns, event.replaced);
        }
        let id = ConnectionId(event.connection);
        let protocol = if event.protocol == IPPROTO_UDP { Protocol::Udp } else { Protocol::Tcp };
        let client = address(event.family, event.client_addr, event.client_port);
        let server = address(event.family, event.server_addr, event.server_port);
        let opened = Connection::new(id, protocol, [client, server], event.at_ns);
        let mark = (protocol == Protocol::Tcp && event.mark > 0).then_some(event.mark);
        self.insert(Connection { preexisting, mark, ..opened });
        if let Some(state) = self.state_mut(event.connection) {
            state.of_others = event.of_others > 0;
        }
        self.take_early_options(event.connection);
    }

    /// Two Unix sockets are first used. Both begin with the bytes that were in their queues before.
    fn unix_opened(&mut self, event: &RawEvent) {
        let id = ConnectionId(event.connection);
        let before = [event.snd_offset, event.rcv_offset].map(|bytes| bytes.min(POSITION_MAX));
        let ends = [UnixName::of_inode(event.inode[0]), server_name(event)];
        let protocol = match event.protocol {
            SOCK_DGRAM => Protocol::UnixDatagram,
            SOCK_SEQPACKET => Protocol::UnixSeqpacket,
            _ => Protocol::Unix,
        };
        let opened = Connection::of_unix(id, protocol, ends, event.at_ns);
        let preexisting = before != [0; 2] || event.old_state > 0;
        let info = Connection { preexisting, both_ends_here: true, ..opened };
        let Some(state) = self.insert(info) else { return };
        state.opened = [true; 2];
        let own = (event.flow & 1) as usize;
        for (flow, bytes) in [(own, before[0]), (1 - own, before[1])] {
            let flow = &mut state.flows[flow];
            if preexisting {
                flow.positions.join(bytes as u32, bytes);
                flow.receiver.join(bytes, Some(0));
            } else {
                flow.begin_provisionally(0);
            }
        }
    }

    /// The connection is over; of a Unix socket this event alone shows it.
    fn gone(&mut self, event: &RawEvent) {
        if let Some(state) = self.state_mut(event.connection)
            && state.info.protocol.is_unix()
        {
            state.info.closed_ns = Some(event.at_ns);
            self.changed.insert(event.connection);
        }
        self.ended(event.at_ns, event.connection);
    }

    /// The process that sent the SYN, where its own thread did: the client. For UDP, see the thread event.
    fn opener_seen(&mut self, event: &RawEvent) {
        let process = self.process(event, Side::Client);
        let Some(state) = self.state_mut(event.connection) else { return };
        if event.pid != 0 && state.info.protocol == Protocol::Tcp {
            state.record_process(process);
        }
    }

    fn joined(&mut self, event: &RawEvent) {
        self.opened(event, true);
        let Some(state) = self.state_mut(event.connection) else { return };
        let local = (event.flow & 1) as usize;
        state.opened[local] = true;
        state.namespaces[local] = event.netns;
        let sends = &mut state.flows[local];
        sends.path.window_shift = event.rcv_wscale;
        sends.sender.set_mss(event.mss);
        sends.positions.join(event.snd_seq, event.snd_offset);
        sends.join_at(event.snd_offset);
        let receives = &mut state.flows[1 - local];
        receives.path.window_shift = event.snd_wscale;
        receives.positions.join(event.rcv_seq, event.rcv_offset);
        let has_fin = HAS_FIN.contains(&event.new_state);
        let end = event.rcv_offset.min(POSITION_MAX).saturating_sub(u64::from(has_fin));
        let copied = receives.positions.of(event.copied_seq).map(|copied| copied.min(end));
        receives.positions.set_end(has_fin.then_some(end));
        receives.receiver.join(end, copied);
        self.note_layers(event);
        self.note_buffers(event);
        self.note_inherited(event);
    }

    /// The recording ends, and this end of a connection is open: the bytes in its queues have waited
    /// until now.
    fn open_still(&mut self, event: &RawEvent) {
        let Some(state) = self.state_mut(event.connection) else { return };
        let local = (event.flow & 1) as usize;
        // It may close while it is looked at, and a socket is met once in each table of open files.
        if state.closed[local] || std::mem::replace(&mut state.reported_open[local], true) {
            return;
        }
        if state.info.closed_ns.take().is_some() {
            self.changed.insert(event.connection);
        }
        self.note_layers(event);
        self.note_buffers(event);
    }

    fn state_changed(&mut self, event: &RawEvent) {
        let Some(state) = self.state_mut(event.connection) else { return };
        let local = (event.flow & 1) as usize;
        state.namespaces[local] = event.netns;
        if event.new_state == TCP_ESTABLISHED {
            state.flows[local].path.window_shift = event.rcv_wscale;
            state.flows[1 - local].path.window_shift = event.snd_wscale;
            state.flows[local].sender.set_mss(event.mss);
            state.flows[local].begin_provisionally(event.snd_seq);
            state.flows[1 - local].begin_provisionally(event.rcv_seq);
            state.opened[local] = true;
            state.closed[local] = false;
            state.info.both_ends_here = state.opened == [true; 2] || state.is_to_itself;
            state.info.closed_ns = None;
        }
        if ENDS_WRITING.contains(&event.new_state) && !state.flows[local].sender.has_ended() {
            let flow = &mut state.flows[local];
            // Earlier records may follow this event: their positions are no measure.
            let acknowledged = event.snd_offset.min(POSITION_MAX);
            let last_written = flow.positions.near(event.snd_seq, acknowledged);
            flow.sender.end_at(last_written);
            if SENDS_FIN.contains(&event.new_state) {
                flow.positions.set_end(last_written);
            }
        }
        if event.new_state == TCP_CLOSE {
            state.info.closed_ns = Some(event.at_ns);
            state.closed[local] = true;
            if state.opened == [false; 2] {
                self.ended(event.at_ns, event.connection);
            }
        }
        self.changed.insert(event.connection);
        let change = StateChange { old: event.old_state, new: event.new_state };
        let record = Record { at_ns: event.at_ns, flow: FlowId(event.flow), ..Record::default() };
        self.report_in_time(record.with_state_change(change));
        self.note_layers(event);
        self.note_buffers(event);
        if event.new_state == TCP_ESTABLISHED {
            self.note_inherited(event);
            self.note_scaling(event);
        }
    }

    /// Notes the layers of the kernel at this end that no earlier event had.
    fn note_layers(&mut self, event: &RawEvent) {
        let Some(state) = self.state_mut(event.connection) else { return };
        let known = &mut state.layers[(event.flow & 1) as usize];
        let new = event.layers & !*known;
        *known |= new;
        let layers =
            [(raw::LAYER_TLS, SocketLayer::KernelTls), (raw::LAYER_SOCKMAP, SocketLayer::Sockmap)];
        for (_, layer) in layers.into_iter().filter(|(bit, _)| new & u16::from(*bit) != 0) {
            let record =
                Record { at_ns: event.at_ns, flow: FlowId(event.flow), ..Record::default() };
            self.report_in_time(record.with_socket_layer(layer));
        }
    }

    /// Notes the ends that do not scale their windows; the usual case has no record.
    fn note_scaling(&mut self, event: &RawEvent) {
        let is = |bit: u8| event.number & u32::from(bit) != 0;
        let peer = event.flow ^ 1;
        let unscaled = if is(raw::SCALING_AGREED) {
            let shifts = [(event.flow, event.rcv_wscale), (peer, event.snd_wscale)];
            let zeros = shifts.into_iter().filter(|(_, shift)| *shift == 0);
            zeros.map(|(flow, _)| (flow, WindowScale::Unshifted)).collect()
        } else if is(raw::SCALING_OFFERED) {
            vec![(peer, WindowScale::NotReceived)]
        } else {
            vec![(event.flow, WindowScale::NotOffered)]
        };
        for (flow, scale) in unscaled {
            let record = Record { at_ns: event.at_ns, flow: FlowId(flow), ..Record::default() };
            self.report_in_time(record.with_window_scale(scale));
        }
    }

    /// The flow that the socket which sends `flow` receives. One connected to itself has one stream, the client's.
    pub(super) fn received_by(&mut self, flow: u32) -> Option<&mut FlowState> {
        let state = self.state_mut(connection_id(flow).0)?;
        let received = if state.is_to_itself { 0 } else { 1 - (flow & 1) as usize };
        Some(&mut state.flows[received])
    }

    pub(super) fn sent_by(&mut self, flow: u32) -> Option<&mut FlowState> {
        let state = self.state_mut(connection_id(flow).0)?;
        Some(&mut state.flows[(flow & 1) as usize])
    }

    fn note_buffers(&mut self, event: &RawEvent) {
        self.report_in_time(buffers_record(buffers_of(event), event.flow, event.at_ns));
    }

    /// A datagram socket got its first datagram, or the first one with other buffers, or it sends the first
    /// one to a peer. After the first datagram from a peer, the record of its buffers follows.
    fn socket_seen(&mut self, event: &RawEvent) {
        let Some(state) = self.state(event.connection) else { return };
        let receives = &state.flows[1 - (event.flow & 1) as usize];
        let is_reported_later = event.number > 0 && receives.path.datagrams.socket != event.number;
        if event.number > 0 {
            self.udp_buffers.insert(event);
        }
        if !is_reported_later {
            self.report_in_time(buffers_record(buffers_of(event), event.flow, event.at_ns));
        }
    }

    /// A flow leaves its host by an interface.
    fn interface_seen(&mut self, event: &RawEvent) {
        if self.state(event.connection).is_none() {
            return;
        }
        let parts = [
            InterfacePart::Device(event.comm.map(|octet| octet as u8)),
            InterfacePart::Discipline(event.client_addr),
            InterfacePart::Place { index: event.number, namespace: event.netns.into() },
        ];
        for part in parts {
            let record =
                Record { at_ns: event.at_ns, flow: FlowId(event.flow), ..Record::default() };
            self.report_in_time(record.with_interface(part));
        }
    }

    /// A recorded segment passes a device for the first time.
    fn device_seen(&mut self, event: &RawEvent) {
        let device = DevicePlace { namespace: event.netns, index: event.number };
        self.device_names.insert(device, event.comm.map(|octet| octet as u8));
    }

    /// A program has the connection. Of one that was open before, it is not known since when.
    fn accepted(&mut self, event: &RawEvent) {
        let Some(state) = self.state(event.connection) else { return };
        if !state.info.preexisting {
            let (at_ns, flow, thread) = (event.at_ns, FlowId(event.flow), event.thread);
            let record = Record { at_ns, flow, thread, ..Record::default() };
            self.report_in_time(record.with_acceptor(event.pid));
        }
    }

    /// The process that an event names, at one end.
    fn process(&self, event: &RawEvent, side: Side) -> Process {
        let bytes: Vec<u8> =
            event.comm.iter().map(|c| *c as u8).take_while(|byte| *byte != 0).collect();
        let group = self.groups.get(&(event.pid, event.cgroup)).cloned();
        Process { group, ..Process::new(event.pid, String::from_utf8_lossy(&bytes), side) }
    }

    fn thread_seen(&mut self, event: &RawEvent) {
        let process = self.process(event, FlowId(event.flow).direction().sender());
        let Some(state) = self.state_mut(connection_id(event.flow).0) else { return };
        if event.old_state == BY_PEERCRED {
            state.peers.push(process);
            self.changed.insert(connection_id(event.flow).0);
        } else if state.info.protocol == Protocol::Udp {
            // A datagram leaves a queueing discipline while any thread runs, which need not be its own.
            state.add_candidate(event.thread, process);
        } else if state.record_process(process) {
            self.changed.insert(connection_id(event.flow).0);
        }
    }
}

/// The path of a Unix socket, `@` and its abstract name, or the number of its inode.
fn server_name(event: &RawEvent) -> UnixName {
    let bytes: Vec<u8> = event.name.iter().map(|octet| *octet as u8).collect();
    let bytes = &bytes[..bytes.len().min(event.name_len as usize)];
    match bytes {
        [] => UnixName::of_inode(event.inode[1]),
        [0, name @ ..] => UnixName::new(&format!("@{}", String::from_utf8_lossy(name))),
        path => {
            let end = path.iter().position(|octet| *octet == 0).unwrap_or(path.len());
            UnixName::new(&String::from_utf8_lossy(&path[..end]))
        }
    }
}

fn address(family: u8, bytes: [u8; 16], port: u16) -> SocketAddr {
    let ip = if family == AF_INET6 {
        let v6 = Ipv6Addr::from(bytes);
        v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
    } else {
        IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]))
    };
    SocketAddr::new(ip, port)
}
