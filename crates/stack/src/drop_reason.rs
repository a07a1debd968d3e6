//! Why packets are dropped.

use sockscope_record::named;

/// Why a packet was dropped; records hold these numbers, in this order from 1 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DropReason {
    /// The interface queue was full.
    InterfaceQueueFull = 1,
    /// The IP input queue was full.
    InputQueueFull = 2,
    /// No mbufs were left.
    NoMbufs = 3,
    /// A frame, a header or a length made no sense.
    Malformed = 4,
    /// A checksum was wrong.
    BadChecksum = 5,
    /// It was for another host or another protocol.
    NotForUs = 6,
    /// No socket at its port.
    NoSocket = 7,
    /// The socket's receive buffer was full.
    ReceiveBufferFull = 8,
    /// A fragment of a packet that never became whole, or one too many.
    Fragment = 9,
    /// TCP had no use for it: outside the window, or received before.
    OutsideWindow = 10,
}

named! {
    DropReason {
        InterfaceQueueFull => "interface-queue-full",
        InputQueueFull => "input-queue-full",
        NoMbufs => "no-mbufs",
        Malformed => "malformed",
        BadChecksum => "bad-checksum",
        NotForUs => "not-for-us",
        NoSocket => "no-socket",
        ReceiveBufferFull => "receive-buffer-full",
        Fragment => "fragment",
        OutsideWindow => "outside-window",
    }
}
