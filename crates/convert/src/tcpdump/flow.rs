//! Printed numbers as positions in the stream.

use std::collections::BTreeMap;

use sockscope_record::{FlowId, Kind, Record, SegmentHeader, Unwrapper, marks, tcp_flags};

use super::line::Segment;

/// A listener on the wire sees the packets that a driver has sent.
const LEFT: Kind = Kind::InterfaceDequeue;

/// State of each flow, by its number.
#[derive(Debug, Default)]
pub(super) struct Flows(BTreeMap<FlowId, Flow>);

#[derive(Debug, Default)]
struct Flow {
    /// The SYN's sequence number, as printed.
    initial: Option<u32>,
    /// Whether numbers after the SYN are printed as they are, and not counted from it; `None` before
    /// the first one.
    is_absolute: Option<bool>,
    positions: Option<Unwrapper>,
    /// Shift that this side's SYN asked for.
    window_shift: Option<u8>,
    end: u64,
    datagrams: u64,
}

impl Flows {
    /// A datagram of `len` bytes: its position is the running byte count.
    pub(super) fn datagram(&mut self, flow: FlowId, len: u32) -> Record {
        let state = self.0.entry(flow).or_default();
        let left = Record { flow, len, offset: state.end, kind: LEFT, ..Record::default() };
        let record = left.with_datagram_number(state.datagrams);
        state.end += u64::from(len);
        state.datagrams += 1;
        record
    }

    /// A segment: its position, its acknowledgment in the reverse flow, and its window in bytes.
    pub(super) fn segment(&mut self, flow: FlowId, segment: &Segment) -> Record {
        let is_syn = segment.flags & tcp_flags::SYN != 0;
        let state = self.0.entry(flow).or_default();
        if let (true, Some((sequence, _))) = (is_syn, segment.sequence) {
            *state = Flow {
                initial: Some(sequence),
                window_shift: segment.window_shift,
                ..Flow::default()
            };
        }
        let (offset, len) = match segment.sequence {
            Some((sequence, len)) if !is_syn => (state.position(sequence, true), len),
            _ => (state.end, 0),
        };
        let again = len > 0 && offset < state.end;
        state.end = state.end.max(offset + u64::from(len));
        let own_shift = state.window_shift;
        let reverse = self.0.entry(flow.reverse()).or_default();
        // The acknowledgment of a SYN is printed as it is, also where all later numbers are not.
        let acknowledged = segment.ack.map(|ack| reverse.position(ack, !is_syn));
        let shift = match (is_syn, own_shift, reverse.window_shift) {
            (false, Some(own), Some(_)) => own,
            _ => 0,
        };
        let left = Record {
            flow,
            offset,
            len,
            kind: LEFT,
            tcp_flags: segment.flags,
            marks: if again { marks::RETRANSMITTED } else { 0 },
            ..Record::default()
        };
        let window_bytes = u32::try_from(u64::from(segment.window) << shift).unwrap_or(u32::MAX);
        left.with_segment_header(SegmentHeader { acknowledged, window_bytes })
    }
}

impl Flow {
    /// The position of a number, absolute or counted from the SYN, as the first one `settles` for the
    /// flow. Where no SYN was seen, the first number is position 0.
    fn position(&mut self, number: u32, settles: bool) -> u64 {
        let (number, first_byte) = match self.initial {
            Some(initial) => {
                let known = self.is_absolute;
                let is_absolute = known.unwrap_or_else(|| is_absolute(number, initial));
                self.is_absolute = known.or(settles.then_some(is_absolute));
                (if is_absolute { number.wrapping_sub(initial) } else { number }, 1)
            }
            None => (number, number),
        };
        self.positions.get_or_insert_with(|| Unwrapper::new(first_byte)).position(number)
    }
}

/// Whether a number is nearer to the first byte's own than to 1. A SYN printed with a small number is
/// itself relative, as in traces edited for print.
fn is_absolute(number: u32, initial: u32) -> bool {
    let distance = |first: u32| number.wrapping_sub(first).min(first.wrapping_sub(number));
    initial > 1 && distance(initial.wrapping_add(1)) < distance(1)
}
