//! What a waiting call does next: look again, check on its peers, sleep, or give up.

use std::time::Instant;

use crate::error::Error;
use crate::settings::{Means, Wait};

/// How many looks to take before going to sleep. A peer that is about to act on another CPU does so
/// within a microsecond or two, which is less than a sleep costs; but on one CPU looks are in its way.
/// So the number falls with every sleep, and rises with every wait that looks have ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Eagerness {
    looks: u32,
}

impl Default for Eagerness {
    fn default() -> Self {
        Self { looks: Self::LOOKS_MAX }
    }
}

impl Eagerness {
    const LOOKS_MAX: u32 = 64;

    /// Looks were in vain.
    pub fn lower(&mut self) {
        self.looks = (self.looks / 2).max(2);
    }

    /// Looks were enough.
    pub fn raise(&mut self) {
        self.looks = (self.looks * 2).min(Self::LOOKS_MAX);
    }
}

/// Looks of a spinning call between two checks on time and peers, some tens of microseconds.
const LOOKS_BETWEEN_CHECKS: u32 = 4_096;

/// The state of one waiting call.
pub(crate) struct Patience {
    by: Means,
    deadline: Option<Instant>,
    looks: u32,
    looks_before_sleep: u32,
}

/// What to do after one more look that found nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Look again at once.
    Look,
    /// See whether the peers are still there, and look again.
    Check,
    /// Sleep, at most until then, and look again.
    Sleep(Option<Instant>),
}

impl Patience {
    pub fn new(wait: Wait, Eagerness { looks: looks_before_sleep }: Eagerness) -> Self {
        Self { by: wait.by, deadline: wait.deadline(), looks: 0, looks_before_sleep }
    }

    /// After a look that found nothing. Fails when there is no time left to wait.
    #[inline]
    pub fn next(&mut self) -> Result<Step, Error> {
        self.looks = self.looks.wrapping_add(1);
        match self.by {
            Means::Nothing => Err(Error::WouldBlock),
            Means::Spin if !self.looks.is_multiple_of(LOOKS_BETWEEN_CHECKS) => Ok(Step::Look),
            Means::Futex | Means::Socket if self.looks < self.looks_before_sleep => Ok(Step::Look),
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

    fn patience(wait: Wait) -> Patience {
        Patience::new(wait, Eagerness::default())
    }

    #[test]
    fn a_call_that_does_not_wait_looks_once() {
        assert!(matches!(patience(Wait::NOT).next(), Err(Error::WouldBlock)));
    }

    #[test]
    fn a_spinning_call_never_sleeps_and_checks_now_and_then() {
        let mut patience = patience(Wait::SPIN);
        let steps: Vec<Step> =
            (0..LOOKS_BETWEEN_CHECKS).map(|_| patience.next().unwrap()).collect();
        let (last, before) = steps.split_last().unwrap();
        assert!(before.iter().all(|step| *step == Step::Look));
        assert_eq!(*last, Step::Check);
    }

    #[test]
    fn a_sleeping_call_looks_a_while_then_sleeps_until_its_time_is_over() {
        let mut late = patience(Wait::FUTEX.within(Duration::ZERO));
        let looks = (1..Eagerness::LOOKS_MAX).map(|_| late.next().unwrap());
        assert!(looks.eq((1..Eagerness::LOOKS_MAX).map(|_| Step::Look)));
        assert!(matches!(late.next(), Err(Error::TimedOut)));
        let mut patience = patience(Wait::SOCKET);
        patience.looks = Eagerness::LOOKS_MAX;
        assert_eq!(patience.next().unwrap(), Step::Sleep(None));
    }

    #[test]
    fn looks_in_vain_become_few_and_never_none() {
        let mut eagerness = Eagerness::default();
        (0..20).for_each(|_| eagerness.lower());
        assert_eq!(eagerness.looks, 2);
        (0..20).for_each(|_| eagerness.raise());
        assert_eq!(eagerness.looks, Eagerness::LOOKS_MAX);
    }
}
