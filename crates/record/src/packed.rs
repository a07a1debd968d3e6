//! The packed words of a record: one accessor and one constructor for each kind that has any.
//!
//! The kind gives `detail`, `extra` and `code` their meaning. Of a loss, `offset` is a time; of a congestion state,
//! `len` counts packets; of an interface, it is part of a name. No other file packs or unpacks these words; [`Kind`]
//! documents their layout, which is that of the columns of a trace.
//!
//! An accessor returns `None` for a record of another kind. A constructor sets all three words, unused ones to 0, and
//! the kind if only one kind has these words. It keeps time, place, thread, flags and marks.

use std::num::NonZeroU32;

use crate::{Hold, Kind, Point, Record, RetransmitClass, tcp_flags};

/// A fact about the interface by which a flow leaves its sender's host. Names end before the first 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterfacePart {
    /// The name of the device.
    Device([u8; 16]),
    /// The name of its queueing discipline.
    Discipline([u8; 16]),
    /// The place of the device.
    Place {
        /// Its number in its network namespace.
        index: u32,
        /// The inode number of that namespace.
        namespace: u64,
    },
}

/// A pass of a device between the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// The point, 3 to 6, that the pass would have at an end; `None` if unknown.
    pub point: Option<Point>,
    /// The device.
    pub device: DevicePlace,
}

/// A device by its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DevicePlace {
    /// Inode number of its network namespace; 0 if unknown.
    pub namespace: u32,
    /// Its number in that namespace.
    pub index: u32,
}

/// Reason why an end offers windows of 65,535 bytes at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum WindowScale {
    /// Its host does not offer the option in a SYN.
    NotOffered = 0,
    /// The other end offered the option, and no option arrived from this end.
    NotReceived = 1,
    /// Its SYN had the option with a shift of 0: its receive buffer was that small then.
    Unshifted = 2,
}

/// Layer of the kernel between a program and its TCP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum SocketLayer {
    /// One that only later releases know.
    Unknown = 0,
    /// The kernel encrypts and decrypts TLS records.
    KernelTls = 1,
    /// The socket is in a sockmap or a sockhash, whose BPF programs may redirect its data.
    Sockmap = 2,
}

named! {
    SocketLayer {
        Unknown => "unknown",
        KernelTls => "kTLS",
        Sockmap => "sockmap",
    }
}

/// Header of a TCP segment at points 3 to 6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SegmentHeader {
    /// Position in the reverse flow that it acknowledges; `None` without the ACK flag.
    pub acknowledged: Option<u64>,
    /// Window offered, in bytes after scaling.
    pub window_bytes: u32,
}

/// The scheduler's times of the thread that reads at point 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReaderTimes {
    /// When the thread last got its CPU, in nanoseconds of the trace's clock; `None` if unknown.
    pub on_cpu_ns: Option<u64>,
    /// Nanoseconds that the thread was runnable without a CPU, as [`Kind::ReceiveDequeue`] defines them:
    /// 1 for no time, `u32::MAX` for that or more. `None` if unknown.
    pub runnable_ns: Option<NonZeroU32>,
}

impl ReaderTimes {
    /// From times where 0 is unknown; a longer wait than 32 bits hold becomes `u32::MAX`.
    pub fn new(on_cpu_ns: u64, runnable_ns: u64) -> Self {
        let runnable_ns = NonZeroU32::new(saturated(runnable_ns));
        Self { on_cpu_ns: Some(on_cpu_ns).filter(|&ns| ns > 0), runnable_ns }
    }
}

/// As `u32`, at most its largest value.
fn saturated(ns: u64) -> u32 {
    u32::try_from(ns).unwrap_or(u32::MAX)
}

/// The end of a VMTP transaction at its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transaction {
    /// When it began, in nanoseconds of the trace's clock.
    pub began_ns: u64,
    /// The client's number of it.
    pub number: u32,
    /// Whether it was answered; else it failed.
    pub is_answered: bool,
}

/// The state of a flow's sender: congestion control and round-trip time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Congestion {
    /// Packets sent and not acknowledged.
    pub in_flight_packets: u32,
    /// Congestion window.
    pub window_packets: u32,
    /// Slow-start threshold; 0 if unknown, `0x7fff_ffff` (Linux's `TCP_INFINITE_SSTHRESH`) for no threshold.
    pub threshold_packets: u32,
    /// Smoothed round-trip time in microseconds; 0 before the first sample.
    pub smoothed_rtt_us: u32,
    /// In Linux's numbers: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss.
    pub state: u8,
}

/// The peer's limit for a flow's sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendWindow {
    /// Bytes from the first byte not acknowledged on.
    pub bytes: u64,
    /// Segment size.
    pub segment_bytes: u32,
}

/// Reason of a retransmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retransmission {
    /// Reason of the sender's decision.
    pub class: RetransmitClass,
    /// Of [`RetransmitClass::Spurious`]: segments that the peer reported as received twice. Else 0.
    pub duplicates: u32,
}

/// Reason and place of a packet's drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketDrop {
    /// The kernel's number of the drop reason.
    pub reason: u64,
    /// The point last passed; `None` if unknown.
    pub last: Option<Point>,
}

/// The buffers of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketBuffers {
    /// The send buffer.
    pub send: BufferSize,
    /// The receive buffer.
    pub receive: BufferSize,
}

/// The size of one buffer of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferSize {
    /// As granted.
    pub bytes: u32,
    /// Whether the program set it; else the kernel sizes it.
    pub is_set_by_program: bool,
}

/// A socket option that was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketOption {
    /// Its level and its number at that level, as in setsockopt(2).
    pub name: (u16, u16),
    /// The value asked for.
    pub asked: u32,
    /// The value granted; 0 of a buffer whose grant was not seen.
    pub granted: u32,
}

/// A change of the TCP state of a flow's sender, in Linux's numbers: 1 ESTABLISHED … 11 CLOSING.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateChange {
    /// The state before.
    pub old: u8,
    /// The state from now on.
    pub new: u8,
}

/// Records that were missed between two times; the later one is the record's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// They were missed after this, in nanoseconds of the trace's clock.
    pub since_ns: u64,
    /// Number of them; 0 if unknown.
    pub count: u64,
    /// Their kind, [`Kind::Loss`] for events of no point; `None` if unknown.
    pub of: Option<Kind>,
}

impl Loss {
    /// `count` records of `point` after `since_ns`; `None` stands for events that belong to no point.
    pub fn new(point: Option<Point>, count: u64, since_ns: u64) -> Self {
        Self { since_ns, count, of: Some(point.map_or(Kind::Loss, Kind::from)) }
    }

    /// The point whose records were missed; `None` for events that belong to no point.
    pub fn point(&self) -> Option<Point> {
        self.of.and_then(Kind::point)
    }
}

/// Bytes that a layer of the program's own has converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conversion {
    /// When it began, in nanoseconds of the trace's clock.
    pub began_ns: u64,
    /// Whether the bytes were read before it; else they are written after it.
    pub is_incoming: bool,
}

/// Bits of `code` of a [`Kind::SocketBuffers`].
const SEND_SET: u8 = 1;
const RECEIVE_SET: u8 = 2;

impl Record {
    /// Points 1 and 2: hold of the bytes, or of those after them, in the send queue.
    #[inline]
    pub fn hold(&self) -> Option<Hold> {
        let has_hold = matches!(self.kind, Kind::SendEnqueue | Kind::SendDequeue);
        has_hold.then(|| Hold::from_code(self.code))
    }

    /// With the words of points 1 and 2.
    #[must_use]
    pub fn with_hold(self, hold: Hold) -> Self {
        self.with_words(self.kind, (0, 0, hold as u8))
    }

    /// Points 3 to 6 of TCP: the fields of the segment's header. Its flags distinguish it from a datagram,
    /// which has none.
    #[inline]
    pub fn segment_header(&self) -> Option<SegmentHeader> {
        let has_ack = self.tcp_flags & tcp_flags::ACK != 0;
        (self.is_packet() && self.tcp_flags != 0).then(|| SegmentHeader {
            acknowledged: has_ack.then_some(self.detail),
            window_bytes: self.extra,
        })
    }

    /// With the words of points 3 to 6 of TCP.
    #[must_use]
    pub fn with_segment_header(self, header: SegmentHeader) -> Self {
        let SegmentHeader { acknowledged, window_bytes } = header;
        self.with_words(self.kind, (acknowledged.unwrap_or(0), window_bytes, 0))
    }

    /// Points 3 to 6 of UDP: the datagram's number in its flow, from 0.
    pub fn datagram_number(&self) -> Option<u64> {
        (self.is_packet() && self.tcp_flags == 0).then_some(self.detail)
    }

    /// With the words of points 3 to 6 of UDP.
    #[must_use]
    pub fn with_datagram_number(self, number: u64) -> Self {
        self.with_words(self.kind, (number, 0, 0))
    }

    /// Points 3 to 6, of a monitor that reports it: the queue's value when the packet passed.
    pub fn queue_value(&self) -> Option<u8> {
        (self.is_packet() && self.code > 0).then(|| self.code - 1)
    }

    /// With the value of the queue at points 3 to 6: 254 for that or more, and none below 0.
    #[must_use]
    pub fn with_queue_value(self, value: i64) -> Self {
        let code = u8::try_from(value.min(254)).map_or(0, |value| value + 1);
        Self { code, ..self }
    }

    /// Point 8: the scheduler's times of the reader.
    #[inline]
    pub fn reader_times(&self) -> Option<ReaderTimes> {
        let is_read = self.kind == Kind::ReceiveDequeue;
        is_read.then(|| ReaderTimes::new(self.detail, self.extra.into()))
    }

    /// A record of point 8.
    #[must_use]
    pub fn with_reader_times(self, times: ReaderTimes) -> Self {
        let ReaderTimes { on_cpu_ns, runnable_ns } = times;
        let words = (on_cpu_ns.unwrap_or(0), runnable_ns.map_or(0, NonZeroU32::get), 0);
        self.with_words(Kind::ReceiveDequeue, words)
    }

    /// The begin of a write call: nanoseconds that its thread was runnable without a CPU, as [`Kind::WriteCall`]
    /// defines them: 1 for no time, `u32::MAX` for that or more. 0 if unknown.
    #[inline]
    pub fn writer_runnable_ns(&self) -> Option<u32> {
        (self.kind == Kind::WriteCall).then_some(self.extra)
    }

    /// A record of the begin of a write call.
    #[must_use]
    pub fn with_writer_runnable_ns(self, runnable_ns: u64) -> Self {
        self.with_words(Kind::WriteCall, (0, saturated(runnable_ns), 0))
    }

    /// The end of a write or a read call: the errno that it failed with, 0 for success.
    #[inline]
    pub fn errno(&self) -> Option<u8> {
        matches!(self.kind, Kind::WriteReturn | Kind::ReadReturn).then_some(self.code)
    }

    /// With the words of the end of a write or a read call.
    #[must_use]
    pub fn with_errno(self, errno: u8) -> Self {
        self.with_words(self.kind, (0, 0, errno))
    }

    /// The end of a VMTP transaction.
    pub fn transaction(&self) -> Option<Transaction> {
        (self.kind == Kind::Transaction).then_some(Transaction {
            began_ns: self.detail,
            number: self.extra,
            is_answered: self.code == 0,
        })
    }

    /// A record of the end of a VMTP transaction.
    #[must_use]
    pub fn with_transaction(self, ended: Transaction) -> Self {
        let Transaction { began_ns, number, is_answered } = ended;
        self.with_words(Kind::Transaction, (began_ns, number, u8::from(!is_answered)))
    }

    /// Number of blocks of a message that a VMTP module retransmits.
    pub fn blocks_again(&self) -> Option<u32> {
        (self.kind == Kind::BlocksAgain).then_some(self.extra)
    }

    /// A record of blocks that a VMTP module retransmits.
    #[must_use]
    pub fn with_blocks_again(self, blocks: u32) -> Self {
        self.with_words(Kind::BlocksAgain, (0, blocks, 0))
    }

    /// The largest segment that a SYN announces, in bytes of data; 0 without an announcement.
    pub fn announced_segment_bytes(&self) -> Option<u32> {
        (self.kind == Kind::SynOptions).then_some(self.extra)
    }

    /// A record of the options of a SYN.
    #[must_use]
    pub fn with_announced_segment_bytes(self, bytes: u32) -> Self {
        self.with_words(Kind::SynOptions, (0, bytes, 0))
    }

    /// The sender's state.
    #[inline]
    pub fn congestion(&self) -> Option<Congestion> {
        let (window_packets, threshold_packets) = halves(self.detail);
        (self.kind == Kind::TcpState).then_some(Congestion {
            in_flight_packets: self.len,
            window_packets,
            threshold_packets,
            smoothed_rtt_us: self.extra,
            state: self.code,
        })
    }

    /// A record of the sender's state.
    #[must_use]
    pub fn with_congestion(self, congestion: Congestion) -> Self {
        let Congestion { in_flight_packets, window_packets, threshold_packets, .. } = congestion;
        let detail = joined(window_packets, threshold_packets);
        let words = (detail, congestion.smoothed_rtt_us, congestion.state);
        Self { len: in_flight_packets, ..self.with_words(Kind::TcpState, words) }
    }

    /// The window that the peer offers to the sender.
    #[inline]
    pub fn send_window(&self) -> Option<SendWindow> {
        let window = SendWindow { bytes: self.detail, segment_bytes: self.extra };
        (self.kind == Kind::SendWindow).then_some(window)
    }

    /// A record of the window that the peer offers to the sender.
    #[must_use]
    pub fn with_send_window(self, window: SendWindow) -> Self {
        self.with_words(Kind::SendWindow, (window.bytes, window.segment_bytes, 0))
    }

    /// Reason of a retransmission.
    #[inline]
    pub fn retransmission(&self) -> Option<Retransmission> {
        let class = RetransmitClass::from_code(self.code);
        let again = Retransmission { class, duplicates: self.extra };
        (self.kind == Kind::Retransmit).then_some(again)
    }

    /// A record of bytes that are retransmitted.
    #[must_use]
    pub fn with_retransmission(self, again: Retransmission) -> Self {
        self.with_words(Kind::Retransmit, (0, again.duplicates, again.class as u8))
    }

    /// Reason and place of a packet's drop.
    #[inline]
    pub fn packet_drop(&self) -> Option<PacketDrop> {
        let last = Kind::from_code(self.code).and_then(Kind::point);
        (self.kind == Kind::Drop).then_some(PacketDrop { reason: self.detail, last })
    }

    /// A record of a dropped packet.
    pub fn with_packet_drop(self, PacketDrop { reason, last }: PacketDrop) -> Self {
        self.with_words(Kind::Drop, (reason, 0, last.map_or(0, Point::number)))
    }

    /// The buffers of a socket.
    #[inline]
    pub fn socket_buffers(&self) -> Option<SocketBuffers> {
        let (send, receive) = halves(self.detail);
        let buffer = |bytes, bit| BufferSize { bytes, is_set_by_program: self.code & bit != 0 };
        (self.kind == Kind::SocketBuffers).then(|| SocketBuffers {
            send: buffer(send, SEND_SET),
            receive: buffer(receive, RECEIVE_SET),
        })
    }

    /// A record of the buffers of a socket.
    pub fn with_socket_buffers(self, SocketBuffers { send, receive }: SocketBuffers) -> Self {
        let bit = |buffer: BufferSize, bit| if buffer.is_set_by_program { bit } else { 0 };
        let code = bit(send, SEND_SET) | bit(receive, RECEIVE_SET);
        self.with_words(Kind::SocketBuffers, (joined(send.bytes, receive.bytes), 0, code))
    }

    /// A socket option that was set.
    #[inline]
    pub fn socket_option(&self) -> Option<SocketOption> {
        let (asked, granted) = halves(self.detail);
        let name = ((self.extra >> 16) as u16, self.extra as u16);
        (self.kind == Kind::SocketOption).then_some(SocketOption { name, asked, granted })
    }

    /// A record of a socket option that was set.
    #[must_use]
    pub fn with_socket_option(self, option: SocketOption) -> Self {
        let SocketOption { name: (level, number), asked, granted } = option;
        let name = u32::from(level) << 16 | u32::from(number);
        self.with_words(Kind::SocketOption, (joined(asked, granted), name, 0))
    }

    /// A change of the sender's TCP state.
    #[inline]
    pub fn state_change(&self) -> Option<StateChange> {
        let old = u8::try_from(self.extra).unwrap_or(u8::MAX);
        (self.kind == Kind::StateChange).then_some(StateChange { old, new: self.code })
    }

    /// A record of a change of the sender's TCP state.
    pub fn with_state_change(self, StateChange { old, new }: StateChange) -> Self {
        self.with_words(Kind::StateChange, (0, old.into(), new))
    }

    /// Records that were missed.
    #[inline]
    pub fn loss(&self) -> Option<Loss> {
        (self.kind == Kind::Loss).then(|| Loss {
            since_ns: self.offset,
            count: self.detail,
            of: Kind::from_code(self.code),
        })
    }

    /// A record of missed records.
    pub fn with_loss(self, Loss { since_ns, count, of }: Loss) -> Self {
        let code = of.map_or(0, |kind| kind as u8);
        Self { offset: since_ns, ..self.with_words(Kind::Loss, (count, 0, code)) }
    }

    /// A conversion by a layer of the program's own.
    pub fn conversion(&self) -> Option<Conversion> {
        let conversion = Conversion { began_ns: self.detail, is_incoming: self.code != 0 };
        (self.kind == Kind::Conversion).then_some(conversion)
    }

    /// A record of a conversion by a layer of the program's own.
    pub fn with_conversion(self, Conversion { began_ns, is_incoming }: Conversion) -> Self {
        self.with_words(Kind::Conversion, (began_ns, 0, is_incoming.into()))
    }

    /// The record's fact about the interface by which a flow leaves.
    pub fn interface(&self) -> Option<InterfacePart> {
        let part = match self.code {
            0 => InterfacePart::Device(self.name()),
            1 => InterfacePart::Discipline(self.name()),
            _ => InterfacePart::Place { index: self.extra, namespace: self.detail },
        };
        (self.kind == Kind::Interface).then_some(part)
    }

    /// A record of a fact about the interface by which a flow leaves.
    #[must_use]
    pub fn with_interface(self, part: InterfacePart) -> Self {
        match part {
            InterfacePart::Device(name) => self.with_name(Kind::Interface, name, 0),
            InterfacePart::Discipline(name) => self.with_name(Kind::Interface, name, 1),
            InterfacePart::Place { index, namespace } => {
                Self { len: 0, ..self.with_words(Kind::Interface, (namespace, index, 2)) }
            }
        }
    }

    /// A pass of a device between the two ends.
    #[inline]
    pub fn hop(&self) -> Option<Hop> {
        let point = Kind::from_code(self.code).and_then(Kind::point);
        let device = DevicePlace { namespace: self.detail as u32, index: self.extra };
        (self.kind == Kind::Hop).then_some(Hop { point, device })
    }

    /// A record of a pass of a device between the two ends.
    #[must_use]
    pub fn with_hop(self, Hop { point, device }: Hop) -> Self {
        let words = (device.namespace.into(), device.index, point.map_or(0, Point::number));
        self.with_words(Kind::Hop, words)
    }

    /// The name of a device between the two ends.
    pub fn hop_device(&self) -> Option<(DevicePlace, [u8; 16])> {
        let (index, namespace) = halves(self.offset);
        let is_name = self.kind == Kind::HopDevice;
        is_name.then(|| (DevicePlace { namespace, index }, self.name()))
    }

    /// A record of the name of a device between the two ends.
    #[must_use]
    pub fn with_hop_device(self, device: DevicePlace, name: [u8; 16]) -> Self {
        let offset = joined(device.index, device.namespace);
        Self { offset, ..self.with_name(Kind::HopDevice, name, 0) }
    }

    /// The process that has accepted a connection.
    pub fn acceptor(&self) -> Option<u32> {
        (self.kind == Kind::Accept).then_some(self.extra)
    }

    /// A record of a connection that this process has accepted.
    #[must_use]
    pub fn with_acceptor(self, pid: u32) -> Self {
        self.with_words(Kind::Accept, (0, pid, 0))
    }

    /// Reason why an end does not scale its windows.
    pub fn window_scale(&self) -> Option<WindowScale> {
        let scale = match self.code {
            0 => WindowScale::NotOffered,
            1 => WindowScale::NotReceived,
            _ => WindowScale::Unshifted,
        };
        (self.kind == Kind::WindowScale).then_some(scale)
    }

    /// A record of an end that does not scale its windows.
    #[must_use]
    pub fn with_window_scale(self, scale: WindowScale) -> Self {
        self.with_words(Kind::WindowScale, (0, 0, scale as u8))
    }

    /// Layer of the kernel that reads and writes the socket; an unknown code is `Unknown`.
    pub fn socket_layer(&self) -> Option<SocketLayer> {
        let layer = SocketLayer::ALL.get(usize::from(self.code)).copied();
        (self.kind == Kind::SocketLayer).then_some(layer.unwrap_or(SocketLayer::Unknown))
    }

    /// A record of a layer of the kernel.
    #[must_use]
    pub fn with_socket_layer(self, layer: SocketLayer) -> Self {
        self.with_words(Kind::SocketLayer, (0, 0, layer as u8))
    }

    /// With all its times on another clock. An unknown time stays unknown.
    #[must_use]
    #[inline]
    pub fn on_clock(mut self, moved: impl Fn(u64) -> u64) -> Self {
        self.at_ns = moved(self.at_ns);
        match self.kind {
            Kind::Loss => self.offset = moved(self.offset),
            Kind::ReceiveDequeue if self.detail == 0 => {}
            Kind::ReceiveDequeue | Kind::Transaction | Kind::Conversion => {
                self.detail = moved(self.detail);
            }
            _ => {}
        }
        self
    }

    /// Whether it is of points 3 to 6, which packets pass.
    #[inline]
    fn is_packet(&self) -> bool {
        (Kind::InterfaceEnqueue..=Kind::InputDequeue).contains(&self.kind)
    }

    /// The 16 octets of a name in `detail`, `len` and `extra`, the low ones first.
    fn name(&self) -> [u8; 16] {
        let mut name = [0; 16];
        name[..8].copy_from_slice(&self.detail.to_le_bytes());
        name[8..12].copy_from_slice(&self.len.to_le_bytes());
        name[12..].copy_from_slice(&self.extra.to_le_bytes());
        name
    }

    fn with_name(self, kind: Kind, name: [u8; 16], code: u8) -> Self {
        let [low, high] = [0, 8].map(|at| {
            let word = std::array::from_fn(|octet| name[at + octet]);
            u64::from_le_bytes(word)
        });
        let (len, extra) = halves(high);
        Self { len, ..self.with_words(kind, (low, extra, code)) }
    }

    fn with_words(self, kind: Kind, (detail, extra, code): (u64, u32, u8)) -> Self {
        Self { kind, detail, extra, code, ..self }
    }
}

/// The low and the high half of a word.
fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

fn joined(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::select;

    /// A record of any kind with any words.
    fn record() -> impl Strategy<Value = Record> {
        let words = (any::<[u64; 3]>(), any::<[u32; 3]>(), any::<[u8; 3]>());
        (select(&Kind::ALL[..]), words).prop_map(|(kind, (long, middle, short))| {
            let ([at_ns, offset, detail], [len, thread, extra]) = (long, middle);
            let [code, tcp_flags, marks] = short;
            Record {
                at_ns,
                offset,
                detail,
                len,
                thread,
                extra,
                kind,
                code,
                tcp_flags,
                marks,
                ..Record::default()
            }
        })
    }

    #[test]
    fn the_value_of_a_queue_is_kept_as_far_as_it_fits() {
        let values = [-1, 0, 2, 254, 9000];
        let kept = |kind| {
            let record = Record { kind, ..Record::default() };
            values.map(|value| record.with_queue_value(value).queue_value())
        };
        let expected = [None, Some(0), Some(2), Some(254), Some(254)];
        assert_eq!(kept(Kind::InterfaceEnqueue), expected);
        assert_eq!(kept(Kind::ReceiveEnqueue), [None; 5]);
    }

    /// The accessors that have a value for `record`.
    fn accessors(record: &Record) -> Vec<&'static str> {
        let all = [
            ("hold", record.hold().is_some()),
            ("segment_header", record.segment_header().is_some()),
            ("datagram_number", record.datagram_number().is_some()),
            ("reader_times", record.reader_times().is_some()),
            ("writer_runnable_ns", record.writer_runnable_ns().is_some()),
            ("errno", record.errno().is_some()),
            ("transaction", record.transaction().is_some()),
            ("blocks_again", record.blocks_again().is_some()),
            ("announced_segment_bytes", record.announced_segment_bytes().is_some()),
            ("congestion", record.congestion().is_some()),
            ("send_window", record.send_window().is_some()),
            ("retransmission", record.retransmission().is_some()),
            ("packet_drop", record.packet_drop().is_some()),
            ("socket_buffers", record.socket_buffers().is_some()),
            ("socket_option", record.socket_option().is_some()),
            ("state_change", record.state_change().is_some()),
            ("loss", record.loss().is_some()),
            ("conversion", record.conversion().is_some()),
            ("interface", record.interface().is_some()),
            ("acceptor", record.acceptor().is_some()),
            ("window_scale", record.window_scale().is_some()),
            ("hop", record.hop().is_some()),
            ("hop_device", record.hop_device().is_some()),
            ("socket_layer", record.socket_layer().is_some()),
        ];
        all.into_iter().filter(|(_, is_some)| *is_some).map(|(name, _)| name).collect()
    }

    /// The accessor of a kind; `None` of a kind without packed words.
    fn accessor_of(kind: Kind, tcp_flags: u8) -> Option<&'static str> {
        Some(match kind {
            Kind::SendEnqueue | Kind::SendDequeue => "hold",
            Kind::InterfaceEnqueue
            | Kind::InterfaceDequeue
            | Kind::InputEnqueue
            | Kind::InputDequeue
                if tcp_flags == 0 =>
            {
                "datagram_number"
            }
            Kind::InterfaceEnqueue
            | Kind::InterfaceDequeue
            | Kind::InputEnqueue
            | Kind::InputDequeue => "segment_header",
            Kind::ReceiveDequeue => "reader_times",
            Kind::WriteCall => "writer_runnable_ns",
            Kind::WriteReturn | Kind::ReadReturn => "errno",
            Kind::Transaction => "transaction",
            Kind::BlocksAgain => "blocks_again",
            Kind::SynOptions => "announced_segment_bytes",
            Kind::TcpState => "congestion",
            Kind::SendWindow => "send_window",
            Kind::Retransmit => "retransmission",
            Kind::Drop => "packet_drop",
            Kind::SocketBuffers => "socket_buffers",
            Kind::SocketOption => "socket_option",
            Kind::StateChange => "state_change",
            Kind::Loss => "loss",
            Kind::Conversion => "conversion",
            Kind::Interface => "interface",
            Kind::Accept => "acceptor",
            Kind::WindowScale => "window_scale",
            Kind::Hop => "hop",
            Kind::HopDevice => "hop_device",
            Kind::SocketLayer => "socket_layer",
            Kind::ReceiveEnqueue | Kind::Wakeup | Kind::Run | Kind::LeftOut => return None,
        })
    }

    /// The fields that no constructor may change.
    fn kept(record: &Record) -> impl PartialEq + std::fmt::Debug {
        let Record { at_ns, flow, thread, tcp_flags, marks, cpu, .. } = *record;
        (at_ns, flow, thread, tcp_flags, marks, cpu)
    }

    proptest! {
        #[test]
        fn only_the_accessor_of_its_kind_reads_a_record(record in record()) {
            let own = accessor_of(record.kind, record.tcp_flags);
            prop_assert_eq!(accessors(&record), Vec::from_iter(own));
        }

        #[test]
        fn what_an_accessor_reads_its_constructor_writes_again(record in record(), other in record()) {
            let at_kind = Record { kind: record.kind, tcp_flags: record.tcp_flags, ..other };
            macro_rules! round_trips {
                ($($read:ident $write:ident,)*) => {
                    $(if let Some(value) = record.$read() {
                        let written = at_kind.$write(value);
                        prop_assert_eq!(written.$read(), Some(value));
                        prop_assert_eq!(written.kind, record.kind);
                        prop_assert_eq!(kept(&written), kept(&at_kind));
                    })*
                };
            }
            round_trips! {
                hold with_hold,
                segment_header with_segment_header,
                datagram_number with_datagram_number,
                reader_times with_reader_times,
                errno with_errno,
                transaction with_transaction,
                blocks_again with_blocks_again,
                announced_segment_bytes with_announced_segment_bytes,
                congestion with_congestion,
                send_window with_send_window,
                retransmission with_retransmission,
                packet_drop with_packet_drop,
                socket_buffers with_socket_buffers,
                socket_option with_socket_option,
                state_change with_state_change,
                loss with_loss,
                conversion with_conversion,
                interface with_interface,
                acceptor with_acceptor,
                window_scale with_window_scale,
                socket_layer with_socket_layer,
                hop with_hop,
            }
            if let Some((device, name)) = record.hop_device() {
                let written = at_kind.with_hop_device(device, name);
                prop_assert_eq!(written.hop_device(), Some((device, name)));
                prop_assert_eq!(kept(&written), kept(&at_kind));
            }
        }

        #[test]
        fn a_constructor_of_one_kind_sets_it(record in record()) {
            let congestion = Congestion {
                in_flight_packets: 1,
                window_packets: 2,
                threshold_packets: 3,
                smoothed_rtt_us: 4,
                state: 1,
            };
            prop_assert_eq!(record.with_congestion(congestion).congestion(), Some(congestion));
            let loss = Loss::new(record.kind.point(), 7, 8);
            prop_assert_eq!(record.with_loss(loss).loss(), Some(loss));
            prop_assert_eq!(loss.point(), record.kind.point());
            let times = ReaderTimes::new(0, 1 << 40);
            prop_assert_eq!(record.with_reader_times(times).reader_times(), Some(times));
            prop_assert_eq!(times, ReaderTimes { on_cpu_ns: None, runnable_ns: NonZeroU32::new(u32::MAX) });
        }
    }

    /// The layout of the columns, kind by kind: a trace of an earlier release has it too.
    #[test]
    fn the_words_are_those_of_every_trace() {
        let plain = Record { offset: 400, ..Record::default() };
        let words = |record: Record| (record.kind as u8, record.detail, record.extra, record.code);
        let header = SegmentHeader { acknowledged: Some(9), window_bytes: 8 };
        let buffer = |bytes, is_set_by_program| BufferSize { bytes, is_set_by_program };
        let congestion = Congestion {
            in_flight_packets: 5,
            window_packets: 2,
            threshold_packets: 3,
            smoothed_rtt_us: 4,
            state: 1,
        };
        assert_eq!(words(plain.with_hold(Hold::Rwnd)), (1, 0, 0, 4));
        assert_eq!(words(plain.with_segment_header(header)), (1, 9, 8, 0));
        assert_eq!(words(plain.with_datagram_number(9)), (1, 9, 0, 0));
        assert_eq!(words(plain.with_reader_times(ReaderTimes::new(9, 8))), (8, 9, 8, 0));
        assert_eq!(words(plain.with_writer_runnable_ns(8)), (16, 0, 8, 0));
        assert_eq!(words(plain.with_errno(11)), (1, 0, 0, 11));
        let ended = Transaction { began_ns: 9, number: 8, is_answered: false };
        assert_eq!(words(plain.with_transaction(ended)), (19, 9, 8, 1));
        assert_eq!(words(plain.with_blocks_again(8)), (22, 0, 8, 0));
        assert_eq!(words(plain.with_announced_segment_bytes(8)), (23, 0, 8, 0));
        let state = plain.with_congestion(congestion);
        assert_eq!((words(state), state.len), ((24, 3 << 32 | 2, 4, 1), 5));
        let window = SendWindow { bytes: 9, segment_bytes: 8 };
        assert_eq!(words(plain.with_send_window(window)), (25, 9, 8, 0));
        let again = Retransmission { class: RetransmitClass::Spurious, duplicates: 8 };
        assert_eq!(words(plain.with_retransmission(again)), (26, 0, 8, 4));
        let drop = PacketDrop { reason: 9, last: Some(Point::InputDequeue) };
        assert_eq!(words(plain.with_packet_drop(drop)), (27, 9, 0, 6));
        let buffers = SocketBuffers { send: buffer(9, false), receive: buffer(8, true) };
        assert_eq!(words(plain.with_socket_buffers(buffers)), (28, 8 << 32 | 9, 0, 2));
        let option = SocketOption { name: (6, 1), asked: 9, granted: 8 };
        assert_eq!(words(plain.with_socket_option(option)), (29, 8 << 32 | 9, 6 << 16 | 1, 0));
        assert_eq!(words(plain.with_state_change(StateChange { old: 8, new: 9 })), (30, 0, 8, 9));
        let loss = plain.with_loss(Loss::new(Some(Point::ReceiveEnqueue), 9, 8));
        assert_eq!((words(loss), loss.offset), ((31, 9, 0, 7), 8));
        assert_eq!(words(plain.with_loss(Loss::new(None, 9, 8))), (31, 9, 0, 31));
        let conversion = Conversion { began_ns: 9, is_incoming: true };
        assert_eq!(words(plain.with_conversion(conversion)), (32, 9, 0, 1));
        let device = DevicePlace { namespace: 9, index: 8 };
        let hop = Hop { point: Some(Point::InputDequeue), device };
        assert_eq!(words(plain.with_hop(hop)), (38, 9, 8, 6));
        let named = plain.with_hop_device(device, *b"12345678abcdefgh");
        let octets = [named.detail, joined(named.len, named.extra)].map(u64::to_le_bytes);
        assert_eq!((named.kind as u8, named.offset), (39, 9 << 32 | 8));
        assert_eq!(octets, [*b"12345678", *b"abcdefgh"]);
    }

    #[test]
    fn every_time_in_a_record_is_shifted_and_an_unknown_one_stays_unknown() {
        let shifted = |kind, offset, detail| {
            let record = Record { at_ns: 5, kind, offset, detail, ..Record::default() };
            let record = record.on_clock(|ns| ns + 100);
            (record.at_ns, record.offset, record.detail)
        };
        assert_eq!(shifted(Kind::SendEnqueue, 7, 8), (105, 7, 8));
        assert_eq!(shifted(Kind::Loss, 7, 8), (105, 107, 8));
        assert_eq!(shifted(Kind::ReceiveDequeue, 7, 8), (105, 7, 108));
        assert_eq!(shifted(Kind::ReceiveDequeue, 7, 0), (105, 7, 0));
        assert_eq!(shifted(Kind::Transaction, 7, 8), (105, 7, 108));
        assert_eq!(shifted(Kind::Conversion, 7, 8), (105, 7, 108));
    }
}
