//! Options of SYNs, and the shift of windows that both ends agree on (RFC 1323 §2).

use super::options::{HeaderOptions, SHIFT_MAX, SackBlocks};
use super::tcb::{State, WINDOW_MAX};
use crate::meter::Meter;
use crate::socket::SocketId;
use crate::stack::Stack;

impl Stack {
    /// The options of a SYN: the one that opens a connection offers all that this system knows, the answer to it
    /// accepts those offered.
    pub(super) fn syn_options(&mut self, id: SocketId, meter: &mut Meter) -> HeaderOptions {
        let segment_bytes = self.announced_bytes(id, meter);
        let timestamps = self.syn_timestamps(id);
        let scales = self.personality.tcp.options.window_scaling;
        let shift = shift_for(self.sockets[id].rcv.hiwat());
        let offers_sack = self.personality.tcp.options.sack;
        let tcb = self.tcb_mut(id);
        let is_first = tcb.state == State::SynSent;
        let permits_sack = if is_first { offers_sack } else { tcb.has_sack };
        if scales && is_first {
            // A SYN that is sent again says the same.
            tcb.rcv.shift_announced.get_or_insert(shift);
        }
        let window_shift = tcb.rcv.shift_announced;
        let sack = SackBlocks::default();
        HeaderOptions { segment_bytes, window_shift, timestamps, permits_sack, sack }
    }

    /// The peer's SYN: what both ends know is in force from now on.
    pub(super) fn take_syn_options(
        &mut self,
        id: SocketId,
        options: &HeaderOptions,
        meter: &mut Meter,
    ) {
        let knows_sack = self.personality.tcp.options.sack;
        self.timestamps_announced(id, options);
        let tcb = self.tcb_mut(id);
        tcb.has_sack = knows_sack && options.permits_sack;
        tcb.reassembly.keep_recent(tcb.has_sack);
        self.shift_announced(id, options.window_shift);
        self.size_announced(id, options.segment_bytes, meter);
    }

    /// The peer's SYN announced this shift of its windows, or none: then neither end shifts.
    fn shift_announced(&mut self, id: SocketId, of_peer: Option<u8>) {
        let scales = self.personality.tcp.options.window_scaling;
        let shift = shift_for(self.sockets[id].rcv.hiwat());
        let tcb = self.tcb_mut(id);
        tcb.snd.shift_announced = of_peer;
        let Some(of_peer) = of_peer.filter(|_| scales) else {
            tcb.rcv.shift_announced = None;
            return;
        };
        tcb.snd.shift = of_peer;
        tcb.rcv.shift = *tcb.rcv.shift_announced.get_or_insert(shift);
        tcb.reassembly.shift_window(tcb.rcv.shift);
    }
}

/// The smallest shift by which a header can name the whole buffer.
fn shift_for(buffer_bytes: u32) -> u8 {
    (0..SHIFT_MAX).find(|shift| WINDOW_MAX << shift >= buffer_bytes).unwrap_or(SHIFT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shift_is_the_smallest_that_names_the_buffer() {
        let buffers = [0, 65_535, 65_536, 131_070, 131_071, 1 << 20, WINDOW_MAX << 14, u32::MAX];
        assert_eq!(buffers.map(shift_for), [0, 0, 1, 1, 2, 5, 14, 14]);
    }
}
