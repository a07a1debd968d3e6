//! The layouts and constants that the BPF programs and the recorder share.
//!
//! The types and constants are generated from `bpf/layout.h` (`build.rs`). [`RawRecord`] is a union
//! there; [`RawRecord::by_kind`] is the one place that chooses among its members.

use std::mem::offset_of;

#[allow(
    missing_docs,
    unused_qualifications,
    non_camel_case_types,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::semicolon_if_nothing_returned,
    clippy::uninlined_format_args,
    unsafe_op_in_unsafe_fn
)]
pub(crate) mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/sockscope.skel.rs"));
}

/// Of `bpf/force.bpf.c`.
#[allow(
    missing_docs,
    unused_imports,
    unused_qualifications,
    non_camel_case_types,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::semicolon_if_nothing_returned,
    clippy::uninlined_format_args,
    unsafe_op_in_unsafe_fn
)]
pub(crate) mod force_skeleton {
    include!(concat!(env!("OUT_DIR"), "/force.skel.rs"));
}

#[allow(dead_code)]
pub(crate) mod constants {
    include!(concat!(env!("OUT_DIR"), "/constants.rs"));
}

/// Slots for connections in the probes' table.
pub(crate) const FLOW_SLOTS: u32 = length(|section| &section.flows) as u32;

/// Entries of an array of the table's section, in which the compiler puts them as it likes.
const fn length<T, const N: usize>(_: fn(&skeleton::types::bss_flows) -> &[T; N]) -> usize {
    N
}

const _: () = assert!(FLOW_SLOTS.is_power_of_two());

/// In the place of the index of a CPU's list, of one that has none.
pub(crate) const NO_LIST: u16 = u16::MAX;

pub(crate) use skeleton::types::{
    bss as Counters, event as RawEvent, option_event as RawOption, raw_anchor as RawAnchor,
    raw_any as RawAny, raw_call_return as RawCallReturn, raw_congestion as RawCongestion,
    raw_hop as RawHop, raw_record as RawRecord, raw_retransmit as RawRetransmit,
    raw_tcp_copy as RawTcpCopy, raw_tcp_drop as RawTcpDrop, raw_tcp_packet as RawTcpPacket,
    raw_tcp_ready as RawTcpReady, raw_udp_copy as RawUdpCopy, raw_udp_drop as RawUdpDrop,
    raw_udp_packet as RawUdpPacket, raw_udp_ready as RawUdpReady, raw_write as RawWrite,
    record_list as RecordList,
};

/// A type for which any bytes are a value.
///
/// # Safety
/// It consists of integers, without padding that something reads.
pub(crate) unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($layout:ty),*) => {
        // SAFETY: the generated types consist of integers. Of a union each member fills all bytes.
        $(unsafe impl Plain for $layout {})*
    };
}
plain!(Counters, RawEvent, RawOption, RawRecord, [u32; 4], [u64; 2]);
plain!(force_skeleton::types::bss, force_skeleton::types::settings);

impl Default for Counters {
    fn default() -> Self {
        // Generated without one. As many bytes as the counters have are counters.
        plain(&[0; size_of::<Self>()]).unwrap()
    }
}

/// The value at the beginning of these bytes, which may start unaligned; `None` where they are too few.
pub(crate) fn plain<T: Plain>(bytes: &[u8]) -> Option<T> {
    // SAFETY: at least as many bytes as the value has, and any bytes are a value; read unaligned.
    (bytes.len() >= size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// A raw record with the fields of its kind: see [`RawRecord::by_kind`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum Raw<'a> {
    Write(&'a RawWrite),
    TcpPacket(&'a RawTcpPacket),
    UdpPacket(&'a RawUdpPacket),
    TcpReady(&'a RawTcpReady),
    UdpReady(&'a RawUdpReady),
    TcpCopy(&'a RawTcpCopy),
    UdpCopy(&'a RawUdpCopy),
    Retransmit(&'a RawRetransmit),
    TcpDrop(&'a RawTcpDrop),
    UdpDrop(&'a RawUdpDrop),
    WriteReturn(&'a RawCallReturn),
    ReadReturn(&'a RawCallReturn),
    Congestion(&'a RawCongestion),
    Anchor(&'a RawAnchor),
    Hop(&'a RawHop),
}

impl RawRecord {
    /// The fields of all kinds.
    pub(crate) fn any(&self) -> &RawAny {
        // SAFETY: every member of the union fills it with integers and without padding (asserted below).
        // All its bytes are initialized, and any bytes are a value of each member.
        unsafe { &self.any }
    }

    /// The fields of this record's kind; `None` of a kind that the probes do not write.
    pub(crate) fn by_kind(&self) -> Option<Raw<'_>> {
        use constants::{RAW_INPUT, RAW_QUEUED, RAW_RECEIVE, RAW_TRANSMIT};
        let RawAny { kind, marks, .. } = *self.any();
        let is_udp = marks & constants::MARK_UDP != 0;
        // SAFETY: as in `any`.
        let raw = unsafe {
            match (kind, is_udp) {
                (constants::RAW_WRITE, false) => Raw::Write(&self.write),
                (RAW_QUEUED | RAW_TRANSMIT | RAW_INPUT | RAW_RECEIVE, false) => {
                    Raw::TcpPacket(&self.tcp_packet)
                }
                (RAW_QUEUED | RAW_TRANSMIT | RAW_INPUT | RAW_RECEIVE, true) => {
                    Raw::UdpPacket(&self.udp_packet)
                }
                (constants::RAW_READY, false) => Raw::TcpReady(&self.tcp_ready),
                (constants::RAW_READY, true) => Raw::UdpReady(&self.udp_ready),
                (constants::RAW_COPY, false) => Raw::TcpCopy(&self.tcp_copy),
                (constants::RAW_COPY, true) => Raw::UdpCopy(&self.udp_copy),
                (constants::RAW_RETRANSMIT, false) => Raw::Retransmit(&self.retransmit),
                (constants::RAW_DROP, false) => Raw::TcpDrop(&self.tcp_drop),
                (constants::RAW_DROP, true) => Raw::UdpDrop(&self.udp_drop),
                (constants::RAW_WRITE_RETURN, false) => Raw::WriteReturn(&self.call_return),
                (constants::RAW_READ_RETURN, false) => Raw::ReadReturn(&self.call_return),
                (constants::RAW_CONGESTION, false) => Raw::Congestion(&self.congestion),
                (constants::RAW_ANCHOR, false) => Raw::Anchor(&self.anchor),
                (constants::RAW_HOP, false) => Raw::Hop(&self.hop),
                _ => return None,
            }
        };
        Some(raw)
    }
}

/// Bytes of a raw record: a cache line.
const RECORD_BYTES: usize = 64;

/// As `layout.h` asserts for the probes: each kind fills the record, and has the fields of all kinds
/// at the same offsets.
macro_rules! assert_raw {
    ($($raw:ty),*) => {
        const _: () = {
            assert!(size_of::<RawRecord>() == RECORD_BYTES);
            assert!(align_of::<RawRecord>() == 8);
            $(
                assert!(size_of::<$raw>() == RECORD_BYTES);
                assert!(offset_of!($raw, stamp) == 0);
                assert!(offset_of!($raw, at_ns) == 8);
                assert!(offset_of!($raw, flow) == 16);
                assert!(offset_of!($raw, kind) == 40);
                assert!(offset_of!($raw, marks) == 43);
            )*
            assert!(offset_of!(RawAny, words) == 20);
            assert!(offset_of!(RawAny, thread) == 36);
            assert!(offset_of!(RawAny, code) == 41);
            assert!(offset_of!(RawAny, tcp_flags) == 42);
            assert!(offset_of!(RawAny, word) == 44);
            assert!(offset_of!(RawAny, longs) == 48);
        };
    };
}

assert_raw! {
    RawAny, RawWrite, RawTcpPacket, RawUdpPacket, RawTcpReady, RawUdpReady, RawTcpCopy, RawUdpCopy,
    RawRetransmit, RawTcpDrop, RawUdpDrop, RawCallReturn, RawCongestion, RawAnchor, RawHop
}
