//! Ready-made programs: the papers' workloads.
//!
//! They write the [payload](crate::payload) pattern, and check the bytes that they read against it.

mod bulk;
mod load;
mod opening;
mod pipeline;
mod sink;

pub use bulk::{BulkWriter, Pace};
pub use load::{PrimeLoad, ProbeReader};
pub use opening::{Opened, Opening};
pub use pipeline::{Computer, StageReceiver, StageSender};
pub use sink::Sink;

use sockscope_stack::{SetOption, SocketId};

use crate::program::Action;

/// Actions of programs on a new socket before they use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Setup {
    /// Send and receive buffer asked for with `setsockopt`, in bytes.
    pub buffer_bytes: Option<u32>,
    /// Send and receive buffer of a kernel built so, in bytes.
    pub reserve_bytes: Option<u32>,
    /// Receive buffer of such a kernel, where it is not that size.
    pub reserve_receive_bytes: Option<u32>,
    /// `TCP_NODELAY`
    pub no_delay: bool,
    /// `SO_KEEPALIVE`
    pub keep_alive: bool,
    /// `SO_LOG`
    pub log: bool,
}

impl Setup {
    /// The actions for socket `id`, in order.
    fn actions(self, id: SocketId) -> Vec<Action> {
        let mut actions = Vec::new();
        if let Some(bytes) = self.reserve_bytes {
            let receive = self.reserve_receive_bytes.unwrap_or(bytes);
            actions.push(Action::Reserve(id, bytes, receive));
        }
        if let Some(bytes) = self.buffer_bytes {
            let options = [SetOption::SendBuffer(bytes), SetOption::ReceiveBuffer(bytes)];
            actions.extend(options.map(|option| Action::SetOption(id, option)));
        }
        if self.log {
            actions.push(Action::Log(id));
        }
        if self.no_delay {
            actions.push(Action::SetOption(id, SetOption::NoDelay(true)));
        }
        if self.keep_alive {
            actions.push(Action::SetOption(id, SetOption::KeepAlive(true)));
        }
        // Taken from the end.
        actions.reverse();
        actions
    }
}
