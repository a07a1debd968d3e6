//! TCP (RFC 793, RFC 9293) as the BSD systems of 1983 to 1990 had it.
//!
//! One implementation, whose differences between versions are the data of [`TcpRules`]. Time has two
//! beats, `tcp_fasttimo` every 200 ms and `tcp_slowtimo` every 500 ms; nothing else measures it.
//! Sequence numbers are [`Seq`]; positions in a stream are 64 bits and start at 0 with the first
//! data byte, so that SYN and FIN do not count.

mod ack;
mod complaints;
mod congestion;
mod control;
mod data;
mod header;
mod input;
mod observe;
mod options;
mod output;
mod peer_stamps;
mod reassembly;
mod respond;
mod rtt;
mod rules;
mod sack;
mod scaling;
mod scoreboard;
mod segment;
mod seq;
mod size;
mod syn;
mod tcb;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod timer;
mod timers;
mod timestamps;
mod trim;
mod urgent;
mod usrreq;

use crate::socket::{Socket, SocketId};
use crate::stack::Stack;

pub use header::{Header, TCP_HEADER_BYTES};
pub use options::{HeaderOptions, OptionRules, SackBlocks, Timestamps};
pub use reassembly::SEGMENTS_MAX;
pub use rtt::Rtt;
pub use rules::{
    Announced, Complaints, CongestionRules, Duplicates, Estimator, HeaderPlace, InitialWindow,
    InputRules, KeepAlive, Persist, Quench, RttRules, SegmentRules, ShortSegments,
    TICKS_PER_SECOND, TcpRules, Timing, UrgentPointer, UrgentRules, WindowGrowth, WindowOffer,
    WindowUpdate,
};
pub use seq::Seq;
pub use tcb::{State, Tcb, TcpCounts, TcpState};

/// Smallest segment that a peer may ask for, in data bytes; 4.3BSD-Reno had the same floor.
const SEGMENT_BYTES_MIN: u32 = 32;

impl Stack {
    /// The block of a socket that has one: the caller has just checked that it does.
    fn tcb(&self, id: SocketId) -> &Tcb {
        block(&self.sockets[id])
    }

    fn tcb_mut(&mut self, id: SocketId) -> &mut Tcb {
        block_mut(&mut self.sockets[id])
    }

    /// Whether the socket still has its block: a step may have ended the connection.
    fn is_alive(&self, id: SocketId) -> bool {
        self.sockets.find(id).is_some_and(|socket| socket.tcb.is_some())
    }

    /// Checks the block of a connection that has not ended: [`Tcb::check`].
    fn check_block(&self, id: SocketId) {
        let socket = self.sockets.find(id);
        let Some(Socket { tcb: Some(tcb), snd, .. }) = socket else { return };
        if tcb.state != State::Closed {
            tcb.check(snd.cc());
        }
    }
}

fn block(socket: &Socket) -> &Tcb {
    match &socket.tcb {
        Some(tcb) => tcb,
        None => no_block(),
    }
}

fn block_mut(socket: &mut Socket) -> &mut Tcb {
    match &mut socket.tcb {
        Some(tcb) => tcb,
        None => no_block(),
    }
}

fn no_block() -> ! {
    panic!("a socket without a TCP block")
}
