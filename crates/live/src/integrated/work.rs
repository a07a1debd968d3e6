//! What a form did: passes over data, counted where they happen.

use sockscope_record::named;

/// Why data is gone over, or, where no data is, why a layer is entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Pass {
    /// The stub copies data into its buffer.
    Encode,
    /// `write()` copies the buffer into the socket's queue.
    Write,
    /// TCP copies a segment out of the queue.
    Segment,
    /// TCP sums the segment.
    Sum,
    /// The receiver sums what arrived.
    Verify,
    /// What arrived is copied into the socket's queue.
    Queue,
    /// `read()` copies the queue into the stub's buffer.
    Read,
    /// The stub copies data out of its buffer.
    Decode,
    /// The application hands a data unit to the path: no data is touched.
    Hand,
    /// One loop encodes, copies and sums a segment.
    Send,
    /// One loop sums, copies and decodes a segment.
    Receive,
}

named! {
    Pass {
        Encode => "encode",
        Write => "write",
        Segment => "segment",
        Sum => "sum",
        Verify => "verify",
        Queue => "queue",
        Read => "read",
        Decode => "decode",
        Hand => "hand",
        Send => "send",
        Receive => "receive",
    }
}

impl Pass {
    /// Whether it only reads what it goes over.
    pub fn is_sum(self) -> bool {
        matches!(self, Self::Sum | Self::Verify)
    }

    /// Whether it copies and sums at once.
    pub fn is_fused(self) -> bool {
        matches!(self, Self::Send | Self::Receive)
    }
}

/// Passes of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PassCount {
    /// How many.
    pub passes: u64,
    /// Bytes that they went over, headers among them.
    pub bytes: u64,
}

/// All that was done since it was last taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    counts: [PassCount; Pass::ALL.len()],
}

impl Work {
    /// Counts a pass over so many bytes.
    pub(super) fn count(&mut self, pass: Pass, bytes: usize) {
        let count = &mut self.counts[pass as usize];
        count.passes += 1;
        count.bytes += bytes as u64;
    }

    /// Passes of this kind.
    pub fn of(&self, pass: Pass) -> PassCount {
        self.counts[pass as usize]
    }

    fn bytes_where(&self, wanted: impl Fn(Pass) -> bool) -> u64 {
        let passes = Pass::ALL.into_iter().filter(|pass| wanted(*pass));
        passes.map(|pass| self.of(pass).bytes).sum()
    }

    /// Bytes that a pass read: all of them.
    pub fn read_bytes(&self) -> u64 {
        self.bytes_where(|_| true)
    }

    /// Bytes that a pass wrote: those of copies.
    pub fn written_bytes(&self) -> u64 {
        self.bytes_where(|pass| !pass.is_sum())
    }

    /// Bytes of passes that sum, alone or while they copy.
    pub fn summed_bytes(&self) -> u64 {
        self.bytes_where(|pass| pass.is_sum() || pass.is_fused())
    }

    /// System calls: each write and read, or each data unit handed over.
    pub fn system_calls(&self) -> u64 {
        [Pass::Write, Pass::Read, Pass::Hand].map(|pass| self.of(pass).passes).iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_counts_are_those_of_the_list() {
        assert!(Pass::ALL.iter().enumerate().all(|(at, pass)| *pass as usize == at));
    }

    #[test]
    fn a_sum_reads_and_a_copy_writes_too() {
        let mut work = Work::default();
        work.count(Pass::Encode, 10);
        work.count(Pass::Sum, 10);
        work.count(Pass::Send, 7);
        work.count(Pass::Hand, 0);
        assert_eq!((work.read_bytes(), work.written_bytes(), work.summed_bytes()), (27, 17, 17));
        assert_eq!((work.system_calls(), work.of(Pass::Sum).passes), (1, 1));
    }
}
