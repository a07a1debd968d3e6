//! The time that a copy itself spends between two calls.
//!
//! A think time ends where the kernel sees the next call. A run spends the recorded time, and then enters the kernel: its
//! think times are longer than the recorded ones, by 0.1 to 4 µs. A first run shows by how much.

use std::collections::HashMap;

use sockscope_analysis::{Action, Activity, LONG_WAIT_NS, Pattern, Step};

/// A side needs so many steps of a kind, in the recording and in the run.
const STEPS_MIN: usize = 9;

/// Programs that are slower by more are slower for another reason.
const OWN_MAX_NS: u64 = 10_000;

/// A step, the call before it, and whether the last read before it waited: the copy's caches are cold then, too.
type Kind = (Action, Action, bool);

/// Of the steps of each kind, nanoseconds; by sides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnTime([HashMap<Kind, u64>; 2]);

impl OwnTime {
    /// By how much the medians of a run are above those of the pattern that it made.
    pub fn of(pattern: &Pattern, run: &Pattern) -> Self {
        let [client, server] = [0, 1].map(|side| {
            let [mut asked, mut spent] =
                [pattern, run].map(|pattern| think_times(&pattern.sides[side]));
            let own = asked.iter_mut().filter_map(|(kind, asked)| {
                let more_ns = median(spent.get_mut(kind)?)?.saturating_sub(median(asked)?);
                (more_ns > 0).then_some((*kind, more_ns.min(OWN_MAX_NS)))
            });
            own.collect()
        });
        Self([client, server])
    }

    /// Takes it off the think times.
    pub fn take_off(&self, pattern: &mut Pattern) {
        for (own, side) in self.0.iter().zip(&mut pattern.sides) {
            for steps in &mut side.sequences {
                let kinds = kinds(steps);
                let computing = steps.iter_mut().zip(kinds).filter(|(step, _)| !step.woken);
                for (step, kind) in computing {
                    let Some((before, action, is_cold)) = kind else { continue };
                    let of = |is_cold| own.get(&(before, action, is_cold)).copied().unwrap_or(0);
                    step.think_ns = step.think_ns.saturating_sub(of(is_cold));
                    step.warm_ns = step.warm_ns.map(|ns| ns.saturating_sub(of(false)));
                }
            }
            if let Some(own_ns) = own.get(&(Action::Read, Action::Write, false)) {
                side.warm_think_ns = side.warm_think_ns.map(|ns| ns.saturating_sub(*own_ns));
            }
        }
    }

    /// The largest of a side, nanoseconds; 0 where none is known.
    pub fn largest_ns(&self, side: usize) -> u64 {
        self.0[side].values().copied().max().unwrap_or(0)
    }
}

/// The kinds of the steps; the first one has none.
fn kinds(steps: &[Step]) -> Vec<Option<Kind>> {
    let (mut before, mut is_cold) = (None, true);
    let kinds = steps.iter().map(|step| {
        if before == Some(Action::Read) {
            is_cold = step.after_wait;
        }
        before.replace(step.action).map(|before| (before, step.action, is_cold))
    });
    kinds.collect()
}

/// Times in which the program computes. A read that waited has none.
fn think_times(side: &Activity) -> HashMap<Kind, Vec<u64>> {
    let mut times: HashMap<Kind, Vec<u64>> = HashMap::new();
    for steps in &side.sequences {
        let computing = steps.iter().zip(kinds(steps)).filter(|(step, _)| !step.woken);
        for (step, kind) in computing.filter(|(step, _)| step.think_ns < LONG_WAIT_NS) {
            if let Some(kind) = kind {
                times.entry(kind).or_default().push(step.think_ns);
            }
        }
    }
    times
}

fn median(times: &mut [u64]) -> Option<u64> {
    let middle = times.len() / 2;
    (times.len() >= STEPS_MIN).then(|| *times.select_nth_unstable(middle).1)
}

#[cfg(test)]
mod tests {
    use sockscope_record::Protocol;

    use super::*;

    /// A client that reads, writes twice and waits for the next; think times of the two writes.
    fn pattern(rounds: usize, after_read_ns: u64, after_write_ns: u64) -> Pattern {
        let step = |action, think_ns, woken| Step {
            action,
            connection: 0,
            bytes: 9,
            think_ns,
            after_wait: false,
            warm_ns: (action == Action::Write).then_some(think_ns / 2),
            woken,
        };
        let round = [
            step(Action::Read, 0, true),
            step(Action::Write, after_read_ns, false),
            step(Action::Write, after_write_ns, false),
        ];
        let client = Activity { sequences: vec![round.repeat(rounds)], ..Activity::default() };
        Pattern { protocol: Protocol::Tcp, connections: 1, sides: [client, Activity::default()] }
    }

    #[test]
    fn a_run_that_is_slower_between_calls_shows_its_own_time() {
        let recorded = pattern(9, 5000, 1200);
        let own = OwnTime::of(&recorded, &pattern(9, 5700, 1900));
        assert_eq!((own.largest_ns(0), own.largest_ns(1)), (700, 0));
        let mut asked = recorded.clone();
        own.take_off(&mut asked);
        assert_eq!(asked.sides[0].sequences[0][..3], {
            let mut steps = pattern(1, 4300, 500).sides[0].sequences[0].clone();
            (steps[1].warm_ns, steps[2].warm_ns) = (Some(1800), Some(0));
            steps
        });
    }

    #[test]
    fn the_time_after_a_wait_is_not_taken_off_times_without_one() {
        let waited = |mut pattern: Pattern| {
            for step in pattern.sides[0].sequences.iter_mut().flatten() {
                step.after_wait = step.action == Action::Write;
            }
            pattern
        };
        let recorded = waited(pattern(9, 35_000, 1200));
        let own = OwnTime::of(&recorded, &waited(pattern(9, 40_000, 1900)));
        let mut asked = recorded.clone();
        own.take_off(&mut asked);
        let first = asked.sides[0].sequences[0][1];
        assert_eq!((first.think_ns, first.warm_ns), (30_000, Some(17_500)));
    }

    #[test]
    fn a_run_that_is_as_quick_or_has_few_steps_shows_none() {
        let recorded = pattern(9, 5000, 1200);
        assert_eq!(OwnTime::of(&recorded, &pattern(9, 4900, 1200)), OwnTime::default());
        assert_eq!(OwnTime::of(&recorded, &pattern(8, 5700, 1900)), OwnTime::default());
        // Other work is no time of the copy's own calls.
        assert_eq!(OwnTime::of(&recorded, &pattern(9, 90_000, 1200)).largest_ns(0), OWN_MAX_NS);
    }
}
