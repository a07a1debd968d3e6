//! Datagrams one way.
#![allow(dead_code, reason = "no test needs all of them")]

use sockscope_sim::programs::{Opened, Opening, Pace};
use sockscope_sim::{Action, Answer, Data, Program, ProgramContext};
use sockscope_stack::{Endpoint, SocketError, SocketId};

/// Sends `count` datagrams to one address, with `sendto` each time.
///
/// Notes `first_ns` and `sent_ns`, the times before the first and after the last, and `refused`,
/// the number of sends without room.
#[derive(Debug)]
pub struct DatagramSender {
    to: Endpoint,
    bytes: usize,
    count: u64,
    pace: Pace,
    opening: Opening,
    socket: Option<SocketId>,
    is_pausing: bool,
    sent: u64,
    offset: u64,
    refused: u64,
}

impl DatagramSender {
    /// A sender of datagrams of so many bytes.
    pub fn new(to: Endpoint, bytes: usize, count: u64) -> Self {
        Self {
            to,
            bytes,
            count,
            pace: Pace::Fast,
            opening: Opening::of_datagrams(None),
            socket: None,
            is_pausing: false,
            sent: 0,
            offset: 0,
            refused: 0,
        }
    }

    /// The same with this between two datagrams.
    pub fn paced(self, pace: Pace) -> Self {
        Self { pace, ..self }
    }

    fn send(&mut self, id: SocketId, context: &mut ProgramContext<'_>) -> Action {
        if self.sent == self.count {
            context.note("sent_ns", context.now_ns);
            context.note("refused", self.refused);
            return Action::Exit;
        }
        if self.sent == 0 {
            context.note("first_ns", context.now_ns);
        }
        self.sent += 1;
        let data = Data::Payload { offset: self.offset, len: self.bytes };
        Action::SendTo(id, self.to, data)
    }
}

impl Program for DatagramSender {
    fn name(&self) -> &str {
        "sender"
    }

    fn next(&mut self, context: &mut ProgramContext<'_>) -> Action {
        let Some(id) = self.socket else {
            return match self.opening.go_on(context.answer) {
                Opened::Not(action) => action,
                Opened::Ready(id) => {
                    self.socket = Some(id);
                    self.send(id, context)
                }
            };
        };
        if std::mem::take(&mut self.is_pausing) {
            return self.send(id, context);
        }
        match context.answer {
            // The stream position counts only bytes that the protocol took.
            Answer::Done(bytes) => self.offset += u64::from(bytes),
            Answer::Failed(SocketError::NoBuffers) => self.refused += 1,
            _ => {}
        }
        self.is_pausing = self.sent < self.count && self.pace != Pace::Fast;
        match self.pace {
            Pace::Sleep(ns) if self.is_pausing => Action::Sleep(ns),
            Pace::Compute(ns) if self.is_pausing => Action::Compute(ns),
            _ => self.send(id, context),
        }
    }
}

/// Receives datagrams at a port until it has `count` of them; 0 for no end.
///
/// Notes `received_ns` with the time of the last one and `received_bytes`.
#[derive(Debug)]
pub struct DatagramSink {
    opening: Opening,
    read_bytes: usize,
    count: u64,
    socket: Option<SocketId>,
    received: u64,
    bytes: u64,
}

impl DatagramSink {
    /// Reads up to `read_bytes` of each datagram.
    pub fn new(port: u16, read_bytes: usize, count: u64) -> Self {
        let opening = Opening::of_datagrams(Some(port));
        Self { opening, read_bytes, count, socket: None, received: 0, bytes: 0 }
    }
}

impl Program for DatagramSink {
    fn name(&self) -> &str {
        "datagram-sink"
    }

    fn next(&mut self, context: &mut ProgramContext<'_>) -> Action {
        if let Answer::Failed(error) = context.answer {
            context.note("read_failed", u64::from(error.errno()));
            return Action::Exit;
        }
        let Some(id) = self.socket else {
            return match self.opening.go_on(context.answer) {
                Opened::Not(action) => action,
                Opened::Ready(id) => {
                    self.socket = Some(id);
                    Action::ReceiveFrom(id, self.read_bytes)
                }
            };
        };
        self.received += 1;
        self.bytes += u64::from(context.answer.bytes());
        if self.count > 0 && self.received == self.count {
            context.note("received_ns", context.now_ns);
            context.note("received_bytes", self.bytes);
            return Action::Exit;
        }
        Action::ReceiveFrom(id, self.read_bytes)
    }
}
