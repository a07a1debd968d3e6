//! Printed numbers as positions in the stream.

use std::collections::BTreeMap;

use sockscope_record::{FlowId, Record, Unwrapper, marks, tcp_flags};

use super::line::Segment;

/// Numbers this far from the initial one count as relative to it.
const ABSOLUTE_DISTANCE_MAX: u32 = 1 << 30;

/// What is known of each flow, by its number.
#[derive(Debug, Default)]
pub(super) struct Flows(BTreeMap<FlowId, Flow>);

#[derive(Debug, Default)]
struct Flow {
    /// The SYN's sequence number, as printed.
    initial: Option<u32>,
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
        let record =
            Record { flow, len, offset: state.end, detail: state.datagrams, ..Record::default() };
        state.end += u64::from(len);
        state.datagrams += 1;
        record
    }

    /// A segment: its position, what it acknowledges in the reverse flow, and its window in bytes.
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
            Some((sequence, len)) if !is_syn => (state.position(sequence), len),
            _ => (state.end, 0),
        };
        let again = len > 0 && offset < state.end;
        state.end = state.end.max(offset + u64::from(len));
        let own_shift = state.window_shift;
        let reverse = self.0.entry(flow.reverse()).or_default();
        let detail = segment.ack.map_or(0, |ack| reverse.position(ack));
        let shift = match (is_syn, own_shift, reverse.window_shift) {
            (false, Some(own), Some(_)) => own,
            _ => 0,
        };
        Record {
            flow,
            offset,
            len,
            detail,
            extra: u32::try_from(u64::from(segment.window) << shift).unwrap_or(u32::MAX),
            tcp_flags: segment.flags,
            marks: if again { marks::RETRANSMITTED } else { 0 },
            ..Record::default()
        }
    }
}

impl Flow {
    /// The position of a number, which is absolute when it lies after the SYN's; otherwise it counts
    /// from the SYN. Where no SYN was seen, the first number is position 0.
    fn position(&mut self, number: u32) -> u64 {
        let (number, first_byte) = match self.initial {
            Some(initial) if is_absolute(number, initial) => (number.wrapping_sub(initial), 1),
            Some(_) => (number, 1),
            None => (number, number),
        };
        self.positions.get_or_insert_with(|| Unwrapper::new(first_byte)).position(number)
    }
}

/// A SYN printed with a small number is itself relative, as in traces edited for print.
fn is_absolute(number: u32, initial: u32) -> bool {
    initial > 1 && number.wrapping_sub(initial) < ABSOLUTE_DISTANCE_MAX
}
