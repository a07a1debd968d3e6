//! Messages that are repeated until they are answered, to one member or several.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};

use sockscope_channel::library::{Distributor, passing};

const MILLISECOND_NS: u64 = 1_000_000;
/// Before the first round trip is known.
const TIMEOUT_FIRST_NS: u64 = 200 * MILLISECOND_NS;
/// A process that waits for a CPU answers late.
const TIMEOUT_LEAST_NS: u64 = 10 * MILLISECOND_NS;
/// Doublings of the timeout.
const BACKOFFS_MAX: u32 = 6;
/// An answer is a number.
const ANSWER_BYTES: usize = 8;

/// A [`Distributor`] with a socket and a timer. The timer begins anew with each answer: when it ends, all messages
/// that arrived have been answered, and only the others are repeated.
#[derive(Debug)]
pub(super) struct Repeater {
    socket: UdpSocket,
    distributor: Distributor<SocketAddr>,
    window: u64,
    /// When each message was offered, unless it was repeated: the answer may be that of either (Karn).
    offered_ns: BTreeMap<u64, u64>,
    sent: u64,
    smoothed_ns: Option<u64>,
    backoffs: u32,
    due_ns: Option<u64>,
}

impl Repeater {
    pub(super) fn new(socket: UdpSocket, members: &[SocketAddr], window: u64) -> Self {
        let mut distributor = Distributor::new();
        members.iter().for_each(|member| distributor.join(*member));
        Self {
            socket,
            distributor,
            window,
            offered_ns: BTreeMap::new(),
            sent: 0,
            smoothed_ns: None,
            backoffs: 0,
            due_ns: None,
        }
    }

    pub(super) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Whether a message may be sent: the oldest one without an answer is less than a window behind it.
    pub(super) fn has_room(&self) -> bool {
        self.sent - self.distributor.all_before() < self.window
    }

    pub(super) fn is_done(&self) -> bool {
        self.distributor.waiting() == 0
    }

    pub(super) fn send(&mut self, now_ns: u64, message: &[u8]) -> io::Result<()> {
        let number = self.distributor.send(message);
        self.sent = number + 1;
        self.offered_ns.insert(number, now_ns);
        self.due_ns = self.due_ns.or(Some(now_ns + self.timeout_ns()));
        self.offer(false)
    }

    /// Takes answers, and repeats where the timer has ended; the time of the next timer.
    pub(super) fn attend(&mut self, now_ns: u64) -> io::Result<Option<u64>> {
        let mut answer = [0; ANSWER_BYTES];
        while let Some((bytes, from)) = passing(self.socket.recv_from(&mut answer))? {
            self.distributor.answered(from, &answer[..bytes]);
            if let Some(offered_ns) = self.offered_ns.remove(&u64::from_le_bytes(answer)) {
                let sample_ns = now_ns.saturating_sub(offered_ns);
                let smooth = |old_ns: u64| (7 * old_ns + sample_ns) / 8;
                self.smoothed_ns = Some(self.smoothed_ns.map_or(sample_ns, smooth));
            }
            self.backoffs = 0;
            self.due_ns = Some(now_ns + self.timeout_ns());
        }
        if self.is_done() {
            self.due_ns = None;
        }
        if self.due_ns.is_some_and(|due_ns| due_ns <= now_ns) {
            self.offered_ns.clear();
            self.backoffs = (self.backoffs + 1).min(BACKOFFS_MAX);
            self.due_ns = Some(now_ns + self.timeout_ns());
            self.offer(true)?;
        }
        Ok(self.due_ns)
    }

    fn timeout_ns(&self) -> u64 {
        let timeout_ns = self.smoothed_ns.map_or(TIMEOUT_FIRST_NS, |it| 2 * it + TIMEOUT_LEAST_NS);
        timeout_ns << self.backoffs
    }

    fn offer(&mut self, repeat: bool) -> io::Result<()> {
        let mut sent = Ok(());
        let socket = &self.socket;
        self.distributor.offer(repeat, &mut |member, packet| {
            if let Err(error) = passing(socket.send_to(packet, member)) {
                sent = Err(error);
            }
        });
        sent
    }
}
