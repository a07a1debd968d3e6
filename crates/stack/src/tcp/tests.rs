//! TCP as traces: see [`testing`](super::testing) for the notation.

mod acks;
mod congestion;
mod connection;
mod faults;
mod hostile;
mod nagle;
mod papers;
mod records;
mod sack;
mod scaling;
mod timers;
mod timestamps;
mod urgent;
mod windows;
mod wrap;

use super::TcpCounts;
use super::testing::Script;
use crate::Stack;

impl Stack {
    /// The counts of TCP up to now.
    fn tcp_counts(&self) -> TcpCounts {
        self.tcp.counts
    }
}

/// A connection that the host under test has opened; both windows are 4096 bytes.
fn opened(personality: &str) -> Script {
    let mut script = Script::alone(personality);
    open(&mut script, 4096);
    script
}

/// Opens it from this host; the peer offers `window` and takes segments of 1024 bytes.
fn open(script: &mut Script, window: u32) {
    script.begin("connect");
    script.begin(&format!("< S 0:0(0) ack 1 win {window} <mss 1024>"));
}
