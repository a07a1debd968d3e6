//! What a waiting call does next: look again, check on its peers, sleep, or give up.

use std::time::Instant;

use crate::error::Error;
use crate::settings::{Means, Wait};

/// Looks before the first sleep: a peer that is about to act does so within a microsecond or two,
/// and going to sleep and being woken costs more.
const LOOKS_BEFORE_SLEEP: u32 = 50;

/// Looks of a spinning call between two checks on time and peers, some tens of microseconds.
const LOOKS_BETWEEN_CHECKS: u32 = 4_096;

/// The state of one waiting call.
pub(crate) struct Patience {
    by: Means,
    deadline: Option<Instant>,
    looks: u32,
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
    pub fn new(wait: Wait) -> Self {
        Self { by: wait.by, deadline: wait.deadline(), looks: 0 }
    }

    /// After a look that found nothing. Fails when there is no time left to wait.
    #[inline]
    pub fn next(&mut self) -> Result<Step, Error> {
        self.looks = self.looks.wrapping_add(1);
        match self.by {
            Means::Nothing => Err(Error::WouldBlock),
            Means::Spin if !self.looks.is_multiple_of(LOOKS_BETWEEN_CHECKS) => Ok(Step::Look),
            Means::Futex | Means::Socket if self.looks < LOOKS_BEFORE_SLEEP => Ok(Step::Look),
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

    #[test]
    fn a_call_that_does_not_wait_looks_once() {
        assert!(matches!(Patience::new(Wait::NOT).next(), Err(Error::WouldBlock)));
    }

    #[test]
    fn a_spinning_call_never_sleeps_and_checks_now_and_then() {
        let mut patience = Patience::new(Wait::SPIN);
        let steps: Vec<Step> =
            (0..LOOKS_BETWEEN_CHECKS).map(|_| patience.next().unwrap()).collect();
        let (last, before) = steps.split_last().unwrap();
        assert!(before.iter().all(|step| *step == Step::Look));
        assert_eq!(*last, Step::Check);
    }

    #[test]
    fn a_sleeping_call_looks_a_while_then_sleeps_until_its_time_is_over() {
        let mut patience = Patience::new(Wait::FUTEX.within(Duration::ZERO));
        let looks = (0..LOOKS_BEFORE_SLEEP - 1).map(|_| patience.next().unwrap());
        assert!(looks.eq((0..LOOKS_BEFORE_SLEEP - 1).map(|_| Step::Look)));
        assert!(matches!(patience.next(), Err(Error::TimedOut)));
        let mut patience = Patience::new(Wait::SOCKET);
        patience.looks = LOOKS_BEFORE_SLEEP;
        assert_eq!(patience.next().unwrap(), Step::Sleep(None));
    }
}
