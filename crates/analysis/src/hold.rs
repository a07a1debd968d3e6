//! What kept the head of the send queue from being sent, over time.
//!
//! Each record at points 1 and 2 says what holds the next byte from then on; the latest one up to an
//! instant counts there, and of two at one instant that of point 2.

use sockscope_record::Hold;

use crate::{LedgerPart, Pass};

/// Walks through what the records at points 1 and 2 say, at growing times.
#[derive(Debug)]
pub(crate) struct Holds<'a> {
    /// Passes at point 1, then at point 2, that are not past yet.
    ahead: [&'a [Pass]; 2],
    part: LedgerPart,
}

impl<'a> Holds<'a> {
    /// From passes in time order.
    pub(crate) fn new(written: &'a [Pass], taken: &'a [Pass]) -> Self {
        Self { ahead: [written, taken], part: LedgerPart::SendOther }
    }

    /// Calls `each` with start, end and part of every stretch of `[start_ns, end_ns)`, in order;
    /// `start_ns` is not before the `end_ns` of the call before.
    pub(crate) fn between(
        &mut self,
        start_ns: u64,
        end_ns: u64,
        mut each: impl FnMut(u64, u64, LedgerPart),
    ) {
        let mut at_ns = start_ns;
        while let Some(pass) = self.next_before(end_ns) {
            if pass.at_ns > at_ns {
                each(at_ns, pass.at_ns, self.part);
                at_ns = pass.at_ns;
            }
            self.part = part_of(Hold::from_code(pass.code));
        }
        if at_ns < end_ns {
            each(at_ns, end_ns, self.part);
        }
    }

    /// Takes the next pass that lies before `end_ns`.
    fn next_before(&mut self, end_ns: u64) -> Option<&'a Pass> {
        let [written, taken] = self.ahead;
        let list = match (written.first(), taken.first()) {
            (Some(write), Some(take)) => usize::from(take.at_ns < write.at_ns),
            (Some(_), None) => 0,
            (None, _) => 1,
        };
        let (pass, rest) = self.ahead[list].split_first()?;
        if pass.at_ns >= end_ns {
            return None;
        }
        self.ahead[list] = rest;
        Some(pass)
    }
}

fn part_of(hold: Hold) -> LedgerPart {
    match hold {
        Hold::Nagle => LedgerPart::SendNagle,
        Hold::Cork => LedgerPart::SendCork,
        Hold::Cwnd => LedgerPart::SendCwnd,
        Hold::Rwnd => LedgerPart::SendRwnd,
        Hold::Pacing | Hold::SmallQueue => LedgerPart::SendPacing,
        Hold::None | Hold::Other => LedgerPart::SendOther,
    }
}
