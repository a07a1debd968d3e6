//! Sets of interrupts: those pending at a CPU, and those that the CPU admits.

/// A set of interrupts, and of requests to reschedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Interrupts(u8);

impl Interrupts {
    /// The network's software interrupt: packets in the IP input queue.
    pub(crate) const NET: u8 = 1;
    /// The protocols' fast timer.
    pub(crate) const FAST: u8 = 2;
    /// The protocols' slow timer.
    pub(crate) const SLOW: u8 = 4;
    /// Any software interrupt.
    pub(crate) const SOFT: u8 = Self::NET | Self::FAST | Self::SLOW;
    /// Any interrupt of devices and of the clock.
    pub(crate) const HARD: u8 = 8;
    /// Another process may have to run, which the scheduler knows.
    pub(crate) const RESCHEDULE: u8 = 16;

    /// All interrupts, which an idle CPU admits.
    pub(crate) const ALL: Self = Self(Self::SOFT | Self::HARD);

    /// Whether there is any of these.
    pub(crate) fn has(self, which: u8) -> bool {
        self.0 & which != 0
    }

    /// The intersection with the other set.
    pub(crate) fn among(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) fn add(&mut self, which: u8) {
        self.0 |= which;
    }

    /// Removes it; whether it was in the set.
    pub(crate) fn take(&mut self, which: u8) -> bool {
        let had = self.has(which);
        self.0 &= !which;
        had
    }
}
