//! Socket buffers as programs asked for them and as the kernel granted them.

use sockscope_record::Kind;

use crate::FlowStore;
use crate::buffers::request;

/// Linux `asm-generic/socket.h`; most architectures.
const SOL_SOCKET: u32 = 1;
const SO_RCVLOWAT: u32 = 18;

/// The option `SO_RCVLOWAT` as records of options name it.
const LOW_MARK: u32 = SOL_SOCKET << 16 | SO_RCVLOWAT;

/// Linux counts its own overhead against a buffer; about half of it holds data (socket(7)).
const DATA_SHARE_DIVISOR: u64 = 2;

/// One socket buffer, as last seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct BufferSetting {
    /// Bytes granted, with the kernel's overhead; `None` when not seen since the program last asked.
    pub granted_bytes: Option<u64>,
    /// The program chose the size.
    pub is_set_by_program: bool,
}

/// Bytes below which the socket that sends `flow` shall keep to itself that it has any, from when on:
/// as asked for, in time order. A negative number means as many as can be, and is more than any buffer
/// has room for here too.
pub(super) fn low_marks(flow: &FlowStore) -> impl Iterator<Item = (u64, u64)> {
    let marks = flow.events.iter().filter(|event| event.kind == Kind::SocketOption);
    marks
        .filter(|event| event.extra == LOW_MARK)
        .map(|event| (event.at_ns, event.detail & 0xffff_ffff))
}

impl BufferSetting {
    /// The send buffer of the end that sends `flow`.
    pub(super) fn send(flow: &FlowStore) -> Self {
        Self::of(flow, true)
    }

    /// The receive buffer of the end that sends `flow`.
    pub(super) fn receive(flow: &FlowStore) -> Self {
        Self::of(flow, false)
    }

    /// Bytes of data that fit.
    pub(super) fn data_bytes(self) -> Option<u64> {
        self.granted_bytes.map(|bytes| bytes / DATA_SHARE_DIVISOR)
    }

    fn of(flow: &FlowStore, is_send: bool) -> Self {
        let (shift, bit) = if is_send { (0, 1) } else { (32, 2) };
        let mut setting = Self::default();
        for event in &flow.events {
            if event.kind == Kind::SocketBuffers {
                setting.granted_bytes = Some(event.detail >> shift & u64::from(u32::MAX));
                setting.is_set_by_program |= event.code & bit != 0;
            } else if let Some(request) = request(event).filter(|one| one.is_send == is_send) {
                setting.granted_bytes = request.granted_bytes;
                setting.is_set_by_program = true;
            }
        }
        setting
    }
}
