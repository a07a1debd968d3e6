//! Why packets are dropped.

/// Why a packet was dropped; the numbers stand in records.
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

impl DropReason {
    /// All reasons, in the order of their numbers, which begin with 1.
    pub const ALL: [Self; 10] = [
        Self::InterfaceQueueFull,
        Self::InputQueueFull,
        Self::NoMbufs,
        Self::Malformed,
        Self::BadChecksum,
        Self::NotForUs,
        Self::NoSocket,
        Self::ReceiveBufferFull,
        Self::Fragment,
        Self::OutsideWindow,
    ];

    /// The word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::InterfaceQueueFull => "interface-queue-full",
            Self::InputQueueFull => "input-queue-full",
            Self::NoMbufs => "no-mbufs",
            Self::Malformed => "malformed",
            Self::BadChecksum => "bad-checksum",
            Self::NotForUs => "not-for-us",
            Self::NoSocket => "no-socket",
            Self::ReceiveBufferFull => "receive-buffer-full",
            Self::Fragment => "fragment",
            Self::OutsideWindow => "outside-window",
        }
    }
}
