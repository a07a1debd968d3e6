//! Socket buffers as programs asked for them and as the kernel granted them.

use sockscope_record::Kind;

use crate::FlowStore;
use crate::buffers::{one_of, request};

/// Linux `asm-generic/socket.h`; most architectures.
const SOL_SOCKET: u16 = 1;
const SO_RCVLOWAT: u16 = 18;

/// The option `SO_RCVLOWAT` as records of options name it.
const LOW_MARK: (u16, u16) = (SOL_SOCKET, SO_RCVLOWAT);

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
    let options = flow
        .events_of(Kind::SocketOption)
        .filter_map(|event| Some((event, event.socket_option()?)));
    let marks = options.filter(|(_, option)| option.name == LOW_MARK);
    marks.map(|(event, option)| (event.at_ns, option.asked.into()))
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
        let mut setting = Self::default();
        for event in flow.events_with(&[Kind::SocketOption, Kind::SocketBuffers]) {
            if let Some(buffers) = event.socket_buffers() {
                let buffer = one_of(buffers, is_send);
                setting.granted_bytes = Some(buffer.bytes.into());
                setting.is_set_by_program |= buffer.is_set_by_program;
            } else if let Some(request) = request(event).filter(|one| one.is_send == is_send) {
                setting.granted_bytes = request.granted_bytes;
                setting.is_set_by_program = true;
            }
        }
        setting
    }
}
