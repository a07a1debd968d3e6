//! Connections that a listening socket has not handed out yet.

use std::collections::VecDeque;

use super::id::SocketId;

/// Largest backlog that is heard (`SOMAXCONN`).
pub const BACKLOG_MAX: u32 = 5;

/// The two queues of a listening socket (`so_q0` and `so_q`).
#[derive(Debug, Default)]
pub struct ListenQueue {
    backlog: u32,
    incomplete: VecDeque<SocketId>,
    complete: VecDeque<SocketId>,
}

impl ListenQueue {
    /// Room for `backlog` connections, at most `BACKLOG_MAX` (5).
    pub fn new(backlog: u32) -> Self {
        Self { backlog: backlog.min(BACKLOG_MAX), ..Self::default() }
    }

    /// Whether one more connection may begin: up to one and a half times the backlog in all.
    pub fn has_room(&self) -> bool {
        let queued = self.incomplete.len() + self.complete.len();
        queued <= 3 * self.backlog as usize / 2
    }

    /// A connection has begun.
    pub fn begin(&mut self, socket: SocketId) {
        debug_assert!(self.all().all(|id| id != socket), "{socket:?} is queued already");
        self.incomplete.push_back(socket);
    }

    /// A connection that has begun is complete; `false` when it is not in the queue.
    pub fn complete(&mut self, socket: SocketId) -> bool {
        let Some(at) = self.incomplete.iter().position(|id| *id == socket) else { return false };
        self.incomplete.remove(at);
        self.complete.push_back(socket);
        true
    }

    /// Takes the oldest complete connection.
    pub fn accept(&mut self) -> Option<SocketId> {
        self.complete.pop_front()
    }

    /// A connection is gone, wherever it stood.
    pub fn remove(&mut self, socket: SocketId) {
        self.incomplete.retain(|id| *id != socket);
        self.complete.retain(|id| *id != socket);
    }

    /// All connections, those that have only begun first.
    pub fn all(&self) -> impl Iterator<Item = SocketId> {
        self.incomplete.iter().chain(&self.complete).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_accepted_in_the_order_in_which_they_were_completed() {
        let mut queue = ListenQueue::new(5);
        for id in 1..=3 {
            queue.begin(SocketId(id));
        }
        assert!(queue.complete(SocketId(3)) && queue.complete(SocketId(1)));
        assert!(!queue.complete(SocketId(1)), "complete already");
        queue.remove(SocketId(2));
        assert_eq!(queue.accept(), Some(SocketId(3)));
        assert_eq!(queue.all().collect::<Vec<_>>(), [SocketId(1)]);
    }

    #[test]
    fn a_backlog_holds_one_and_a_half_times_its_number_and_one_more() {
        for (backlog, connections) in [(0, 1), (1, 2), (2, 4), (5, 8), (100, 8)] {
            let mut queue = ListenQueue::new(backlog);
            let mut begun = 0;
            while queue.has_room() {
                queue.begin(SocketId(begun));
                begun += 1;
            }
            assert_eq!(begun, connections, "backlog {backlog}");
        }
    }
}
