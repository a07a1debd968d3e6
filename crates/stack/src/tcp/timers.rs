//! The four timers of a connection, in ticks of 500 ms.

/// The four timers of a connection, in the order in which they are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// Something is unacknowledged for too long (`TCPT_REXMT`).
    Retransmit,
    /// The peer's window is closed for too long (`TCPT_PERSIST`).
    Persist,
    /// No segment arrived for too long; also the handshake takes too long (`TCPT_KEEP`).
    Keep,
    /// Late segments need no longer be expected (`TCPT_2MSL`); also a FIN is missing for too long.
    Linger,
}

pub(super) const TIMERS: [Timer; 4] =
    [Timer::Retransmit, Timer::Persist, Timer::Keep, Timer::Linger];

/// Ticks left of each timer; 0 while it does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Timers([u32; 4]);

impl Timers {
    pub(super) fn start(&mut self, timer: Timer, ticks: u32) {
        self.0[timer as usize] = ticks.max(1);
    }

    pub(super) fn stop(&mut self, timer: Timer) {
        self.0[timer as usize] = 0;
    }

    pub(super) fn stop_all(&mut self) {
        self.0 = [0; 4];
    }

    pub(super) fn runs(&self, timer: Timer) -> bool {
        self.0[timer as usize] > 0
    }

    /// One tick of one timer; whether it ran out.
    pub(super) fn tick(&mut self, timer: Timer) -> bool {
        let ticks = &mut self.0[timer as usize];
        if *ticks == 0 {
            return false;
        }
        *ticks -= 1;
        *ticks == 0
    }
}
