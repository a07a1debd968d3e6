//! The activities of processes, by time.

use sockscope_sim::{Activity, ActivityState};

/// The processes of a run, with their changes in order of time.
#[derive(Debug, Default)]
pub struct Activities {
    /// Names, by number.
    names: Vec<String>,
    changes: Vec<Activity>,
}

impl Activities {
    pub(crate) fn new(names: Vec<String>, changes: Vec<Activity>) -> Self {
        Self { names, changes }
    }

    /// Times from being ready to running, of all processes of this name, in nanoseconds.
    pub fn waits_ns(&self, name: &str) -> Vec<u64> {
        let is_named = |change: &&Activity| {
            self.names.get(change.process as usize).is_some_and(|other| other == name)
        };
        let mut ready_ns = None;
        let mut waits = Vec::new();
        for change in self.changes.iter().filter(is_named) {
            match change.state {
                ActivityState::Ready => ready_ns = Some(change.at_ns),
                ActivityState::Running => {
                    waits.extend(ready_ns.take().map(|from_ns| change.at_ns - from_ns));
                }
                ActivityState::Asleep | ActivityState::Gone => ready_ns = None,
            }
        }
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn activities(changes: &[(u64, u32, ActivityState)]) -> Activities {
        let change = |&(at_ns, process, state)| Activity { at_ns, process, state };
        let names = ["reader", "primes"].map(str::to_owned).to_vec();
        Activities::new(names, changes.iter().map(change).collect())
    }

    #[test]
    fn a_wait_ends_with_the_cpu() {
        use ActivityState::{Asleep, Gone, Ready, Running};
        let seen = activities(&[
            (10, 0, Ready),
            (15, 0, Running),
            (20, 0, Ready),
            (20, 1, Running),
            (30, 1, Ready),
            (30, 0, Running),
            (34, 0, Asleep),
            (50, 0, Ready),
            (51, 0, Running),
            (53, 0, Gone),
        ]);
        assert_eq!(seen.waits_ns("reader"), [5, 10, 1]);
        assert!(seen.waits_ns("writer").is_empty());
    }
}
