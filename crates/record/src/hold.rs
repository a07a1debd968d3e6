//! Reasons why TCP did not send data in the send queue.

/// Reason why the next byte of the send queue was not sent, by the kernel's own fields at the
/// moment of the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum Hold {
    /// No hold: no byte waits, or the next one can go at once.
    #[default]
    None = 0,
    /// A short segment waits for the acknowledgment of an earlier one (RFC 9293 §3.7.4).
    Nagle = 1,
    /// A short segment waits because the program set `TCP_CORK` or `MSG_MORE`.
    Cork = 2,
    /// The congestion window is full (RFC 5681).
    Cwnd = 3,
    /// The peer's receive window is full (RFC 9293 §3.8.6).
    Rwnd = 4,
    /// The pacing rate does not allow it yet.
    Pacing = 5,
    /// Too much of this socket is still queued below TCP (TCP small queues).
    SmallQueue = 6,
    /// None of these: TCP holds it for another reason.
    Other = 7,
}

named! {
    Hold {
        None => "none",
        Nagle => "nagle",
        Cork => "cork",
        Cwnd => "cwnd",
        Rwnd => "rwnd",
        Pacing => "pacing",
        SmallQueue => "small-queue",
        Other => "other",
    }
}

impl Hold {
    /// From [`Record::code`](crate::Record::code); an unknown code is `Other`.
    #[inline]
    pub fn from_code(code: u8) -> Self {
        Self::ALL.get(usize::from(code)).copied().unwrap_or(Self::Other)
    }
}
