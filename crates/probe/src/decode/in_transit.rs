//! Datagrams of a flow on their way: which lie between which points.

use std::collections::VecDeque;

/// Packets remembered between two points of a flow, at most; older ones are forgotten.
pub(super) const BETWEEN_MAX: usize = 16_384;

/// Indices of [`Datagrams::between`].
pub(super) const QUEUED: usize = 0;
pub(super) const WIRE: usize = 1;
pub(super) const INPUT: usize = 2;
pub(super) const SOCKET: usize = 3;

/// A datagram on its way.
#[derive(Clone, Copy)]
pub(super) struct Datagram {
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) number: u64,
    /// When it passed the last point.
    pub(super) at_ns: u64,
}

/// Datagrams of a flow between two points, each list in order of arrival.
#[derive(Default)]
pub(super) struct Datagrams {
    /// Bytes and datagrams seen to enter, at the first point that saw them.
    pub(super) bytes: u64,
    pub(super) count: u64,
    /// Between points 3 and 4, 4 and 5, 5 and 6, 6 and 7.
    pub(super) between: [VecDeque<Datagram>; 4],
    /// Those that the last hit announced, for the queue of their socket to take.
    pub(super) received: Vec<Datagram>,
    /// The socket that last announced one, 0 for none: it got it for a program.
    pub(super) socket: u32,
}

impl Datagrams {
    /// A datagram that no earlier point announced gets the next position.
    pub(super) fn announce(&mut self, len: u32) -> Datagram {
        let datagram = Datagram { offset: self.bytes, len, number: self.count, at_ns: 0 };
        self.bytes += u64::from(len);
        self.count += 1;
        datagram
    }

    pub(super) fn put(&mut self, gap: usize, datagram: Datagram, at_ns: u64) {
        let list = &mut self.between[gap];
        if list.len() == BETWEEN_MAX {
            list.pop_front();
        }
        list.push_back(Datagram { at_ns, ..datagram });
    }

    /// The oldest datagram of this length in the gap; older ones of another length got lost.
    pub(super) fn take(&mut self, gap: usize, len: u32) -> Option<Datagram> {
        let list = &mut self.between[gap];
        let index = list.iter().position(|datagram| datagram.len == len)?;
        list.drain(..index);
        list.pop_front()
    }

    /// Whether a datagram of this length is in the gap.
    pub(super) fn has(&self, gap: usize, len: u32) -> bool {
        self.between[gap].iter().any(|datagram| datagram.len == len)
    }

    /// The oldest datagram of this length that came into the gap at another time than this; older ones of
    /// another length got lost.
    pub(super) fn take_unless_at(&mut self, gap: usize, len: u32, at_ns: u64) -> Option<Datagram> {
        let found = self.between[gap].iter().find(|datagram| datagram.len == len)?;
        if found.at_ns == at_ns { None } else { self.take(gap, len) }
    }

    /// Whether a datagram of this length is in any gap.
    pub(super) fn has_any(&self, len: u32) -> bool {
        [QUEUED, WIRE, INPUT, SOCKET].into_iter().any(|gap| self.has(gap, len))
    }

    /// The oldest datagram in the gap, if it has at least `len` bytes.
    pub(super) fn next(&mut self, gap: usize, len: u32) -> Option<Datagram> {
        let list = &mut self.between[gap];
        if list.front()?.len >= len { list.pop_front() } else { None }
    }

    /// All that came into the gap before the oldest one of this length.
    pub(super) fn before(&mut self, gap: usize, len: u32) -> Vec<Datagram> {
        let list = &mut self.between[gap];
        let index = list.iter().position(|datagram| datagram.len == len).unwrap_or(0);
        list.drain(..index).collect()
    }

    /// Takes out those that IP took before `until_ns`, and that since then neither came into a receive
    /// queue nor were seen to be dropped: how many, and when the first was taken. Where none ever came
    /// into one, the kernel itself reads them.
    pub(super) fn stranded(&mut self, until_ns: u64) -> Option<(u64, u64)> {
        let list = &mut self.between[SOCKET];
        let since_ns = list.front()?.at_ns;
        let before = list.len();
        list.retain(|datagram| datagram.at_ns >= until_ns);
        let count = (before - list.len()) as u64;
        (self.socket > 0 && count > 0).then_some((count, since_ns))
    }

    /// Whether one may be in a receive queue without having been announced: IP took it since then. Where
    /// earlier ones wait and none ever was, the kernel itself reads them.
    pub(super) fn is_one_in_transit(&self, since_ns: u64) -> bool {
        let list = &self.between[SOCKET];
        let is_kernels =
            self.socket == 0 && list.front().is_some_and(|first| first.at_ns < since_ns);
        !is_kernels && list.back().is_some_and(|last| last.at_ns >= since_ns)
    }

    /// Removes the newest datagram of this length from where a drop is most likely: before the
    /// socket, then further up. Also says after which point.
    pub(super) fn remove(&mut self, len: u32) -> Option<(Datagram, u8)> {
        for gap in [SOCKET, INPUT, WIRE, QUEUED] {
            let list = &mut self.between[gap];
            if let Some(index) = list.iter().rposition(|datagram| datagram.len == len) {
                return list.remove(index).map(|datagram| (datagram, gap as u8 + 3));
            }
        }
        None
    }
}
