//! Backoff of a waiting call: poll again, check the peers, sleep, or fail.

use std::time::Instant;

use crate::error::Error;
use crate::settings::{Means, Wait};

/// Number of polls before a sleep.
///
/// A peer that runs on another CPU acts within a microsecond or two, and a sleep costs more than that.
/// On one CPU each poll delays the peer. So every sleep halves the number, and every wait that ended
/// by polling doubles it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpinBudget {
    polls: u32,
}

impl Default for SpinBudget {
    fn default() -> Self {
        Self { polls: Self::POLLS_MAX }
    }
}

impl SpinBudget {
    const POLLS_MAX: u32 = 64;

    /// Polling found nothing, and the call sleeps.
    pub fn lower(&mut self) {
        self.polls = (self.polls / 2).max(2);
    }

    /// Polling ended the wait.
    pub fn raise(&mut self) {
        self.polls = (self.polls * 2).min(Self::POLLS_MAX);
    }
}

/// Polls of a spinning call between two checks of time and peers: some tens of microseconds.
const POLLS_BETWEEN_CHECKS: u32 = 4_096;

/// The state of one waiting call.
pub(crate) struct Backoff {
    by: Means,
    deadline: Option<Instant>,
    polls: u32,
    polls_before_sleep: u32,
}

/// The action after a poll that found nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Poll again at once.
    Poll,
    /// Check that the peers are connected, and poll again.
    Check,
    /// Sleep, at most until then, and poll again.
    Sleep(Option<Instant>),
}

impl Backoff {
    pub fn new(wait: Wait, SpinBudget { polls: polls_before_sleep }: SpinBudget) -> Self {
        Self { by: wait.by, deadline: wait.deadline(), polls: 0, polls_before_sleep }
    }

    /// After a poll that found nothing. Fails when the time to wait is over.
    #[inline]
    pub fn next(&mut self) -> Result<Step, Error> {
        self.polls = self.polls.wrapping_add(1);
        match self.by {
            Means::Nothing => Err(Error::WouldBlock),
            Means::Spin if !self.polls.is_multiple_of(POLLS_BETWEEN_CHECKS) => Ok(Step::Poll),
            Means::Futex | Means::Socket if self.polls < self.polls_before_sleep => Ok(Step::Poll),
            _ => self.check(),
        }
    }

    #[cold]
    fn check(&self) -> Result<Step, Error> {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(Error::TimedOut);
        }
        Ok(if self.by == Means::Spin { Step::Check } else { Step::Sleep(self.deadline) })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn backoff(wait: Wait) -> Backoff {
        Backoff::new(wait, SpinBudget::default())
    }

    #[test]
    fn a_call_that_does_not_wait_polls_once() {
        assert!(matches!(backoff(Wait::NOT).next(), Err(Error::WouldBlock)));
    }

    #[test]
    fn a_spinning_call_never_sleeps_and_checks_now_and_then() {
        let mut spinning = backoff(Wait::SPIN);
        let steps: Vec<Step> =
            (0..POLLS_BETWEEN_CHECKS).map(|_| spinning.next().unwrap()).collect();
        let (last, before) = steps.split_last().unwrap();
        assert!(before.iter().all(|step| *step == Step::Poll));
        assert_eq!(*last, Step::Check);
    }

    #[test]
    fn a_sleeping_call_polls_a_while_then_sleeps_until_its_time_is_over() {
        let mut late = backoff(Wait::FUTEX.within(Duration::ZERO));
        let polls = (1..SpinBudget::POLLS_MAX).map(|_| late.next().unwrap());
        assert!(polls.eq((1..SpinBudget::POLLS_MAX).map(|_| Step::Poll)));
        assert!(matches!(late.next(), Err(Error::TimedOut)));
        let mut sleeping = backoff(Wait::SOCKET);
        sleeping.polls = SpinBudget::POLLS_MAX;
        assert_eq!(sleeping.next().unwrap(), Step::Sleep(None));
    }

    #[test]
    fn the_spin_budget_falls_to_two_polls_and_no_further() {
        let mut spin_budget = SpinBudget::default();
        (0..20).for_each(|_| spin_budget.lower());
        assert_eq!(spin_budget.polls, 2);
        (0..20).for_each(|_| spin_budget.raise());
        assert_eq!(spin_budget.polls, SpinBudget::POLLS_MAX);
    }
}
