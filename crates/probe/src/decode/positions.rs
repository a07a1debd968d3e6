//! Stream positions of a flow's sequence numbers.
//!
//! Positions are bytes from the flow's first byte on. A number that a socket of this host has is sure,
//! and moves the position from which later numbers are unwrapped; a number in a header is not.

use sockscope_record::Unwrapper;

/// No connection carries more bytes; a position below this can be added to without overflow.
pub(super) const POSITION_MAX: u64 = 1 << 62;

/// The sequence numbers of one flow.
#[derive(Default)]
pub(super) struct Positions {
    /// `None` until the SYN was recorded or the connection joined.
    unwrapper: Option<Unwrapper>,
    /// The sequence number taken for position 0 from the socket, where no SYN was recorded.
    provisional: Option<u32>,
    /// Position of the end of the stream, once a FIN or the closing socket showed it.
    end: Option<u64>,
}

/// The effect of a SYN on the positions.
pub(super) enum Begun {
    /// Positions start with it.
    Anew,
    /// Positions that the socket gave move by as many bytes: the SYN carried data.
    Moved(u64),
    /// Positions were known.
    Before,
}

impl Positions {
    /// Position of a sequence number that a socket of this host has; its FIN has none of its own.
    pub(super) fn of(&mut self, sequence: u32) -> Option<u64> {
        let position = self.unwrapper.as_mut()?.position(sequence);
        Some(self.without_fin(position))
    }

    /// Position of a sequence number in a header, which any host may have sent: not remembered.
    pub(super) fn claimed(&self, sequence: u32) -> Option<u64> {
        Some(self.without_fin(self.unwrapper?.peek(sequence)))
    }

    /// Position of a sequence number near a count of bytes; not remembered.
    pub(super) fn near(&self, sequence: u32, bytes: u64) -> Option<u64> {
        Some(self.unwrapper?.nearest(sequence, bytes))
    }

    /// Whether this is the sequence number of its SYN; a FIN of a flow without data has the next one.
    pub(super) fn is_syn(&self, sequence: u32) -> bool {
        self.unwrapper.is_some_and(|unwrapper| unwrapper.peek(sequence.wrapping_add(1)) == 0)
    }

    pub(super) fn are_known(&self) -> bool {
        self.unwrapper.is_some()
    }

    fn without_fin(&self, position: u64) -> u64 {
        // More than one beyond the end: then the FIN that showed the end was a forged one.
        let placed = self.end.filter(|end| *end < position && position - end == 1);
        let placed = placed.unwrap_or(position);
        debug_assert!(position - placed <= 1, "a FIN takes one number: {placed} {position}");
        placed
    }

    /// Sequence numbers start with this SYN, unless they are known already.
    pub(super) fn begin(&mut self, syn: u32) -> Begun {
        let unwrapper = Unwrapper::new(syn.wrapping_add(1));
        let begun = match (self.unwrapper, self.provisional.take()) {
            (None, _) => Begun::Anew,
            // With TCP Fast Open the socket had counted the data of its SYN by then.
            (Some(_), Some(provisional)) => Begun::Moved(unwrapper.peek(provisional)),
            (Some(_), None) => return Begun::Before,
        };
        if let Begun::Moved(bytes) = begun {
            self.end = self.end.map(|end| end.saturating_add(bytes));
        }
        self.unwrapper = Some(unwrapper);
        begun
    }

    /// Sequence numbers start with this one by the socket, until a SYN is recorded; false where they are
    /// known already.
    pub(super) fn begin_provisionally(&mut self, first_byte: u32) -> bool {
        if self.are_known() {
            return false;
        }
        self.unwrapper = Some(Unwrapper::new(first_byte));
        self.provisional = Some(first_byte);
        true
    }

    /// The socket was open before the recording, and has this sequence number at `offset`.
    pub(super) fn join(&mut self, sequence: u32, offset: u64) {
        self.unwrapper = Some(Unwrapper::joined_at(sequence, offset.min(POSITION_MAX)));
    }

    /// After missed records: the socket's 64-bit count of bytes at a sequence number.
    pub(super) fn anchor(&mut self, sequence: u32, bytes: u64) {
        if let Some(unwrapper) = &mut self.unwrapper {
            unwrapper.anchor(sequence, bytes.min(POSITION_MAX));
        }
    }

    pub(super) fn end(&self) -> Option<u64> {
        self.end
    }

    pub(super) fn set_end(&mut self, end: Option<u64>) {
        self.end = end;
    }

    /// The stream is the same as that of `other`.
    pub(super) fn follow(&mut self, other: &Self) {
        (self.unwrapper, self.end) = (other.unwrapper, other.end);
    }
}
