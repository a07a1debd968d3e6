//! The time that a copy itself spends between two calls.
//!
//! A think time ends where the kernel sees the next call. A run spends the recorded time, and then enters the kernel: its
//! think times are longer than the recorded ones, by 0.1 to 4 µs. First runs show by how much. Another guest of the
//! machine may make a run slower, so that the quickest one counts.

use std::collections::HashMap;

use sockscope_analysis::{Action, Activity, LONG_WAIT_NS, Pattern, Step};

/// A side needs so many steps of a kind, in the recording and in the run.
const STEPS_MIN: usize = 9;

/// Programs that are slower by more are slower for another reason.
const OWN_MAX_NS: u64 = 10_000;

/// Reads after a wakeup differ by this part between runs that are alike.
const WOKEN_TOLERANCE: u64 = 10;

/// A step, the call before it, and whether the last read before it waited: the copy's caches are cold then, too.
type Kind = (Action, Action, bool);

/// Of the two sides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnTime([OwnTimeOfSide; 2]);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct OwnTimeOfSide {
    /// Of the steps of each kind, nanoseconds.
    between: HashMap<Kind, u64>,
    /// See [`Activity::poll_ns`].
    poll_ns: Option<u64>,
}

/// Lets a program that answers what it finds wait by `poll`, as the recorded one may do. The time from a wakeup to the
/// read then shows whether it does.
pub fn poll_at_first(pattern: &mut Pattern) {
    for side in pattern.sides.iter_mut().filter(|side| side.answers_as_found) {
        side.poll_ns = side.woken_read_ns.map(|_| 0);
    }
}

impl OwnTime {
    /// By how much the medians of a run are above those of the pattern that it made, and by how much its reads after a
    /// wakeup are quicker.
    pub fn of(pattern: &Pattern, run: &Pattern) -> Self {
        Self([0, 1].map(|side| {
            let [recorded, run] = [pattern, run].map(|pattern| &pattern.sides[side]);
            let [mut asked, mut spent] = [recorded, run].map(think_times);
            let own = asked.iter_mut().filter_map(|(kind, asked)| {
                let more_ns = median(spent.get_mut(kind)?)?.saturating_sub(median(asked)?);
                (more_ns > 0).then_some((*kind, more_ns.min(OWN_MAX_NS)))
            });
            let woken = recorded.woken_read_ns.zip(run.woken_read_ns);
            // A program that is quicker waits in its reads.
            let polls =
                |(recorded, run): &(u64, u64)| recorded + recorded / WOKEN_TOLERANCE >= *run;
            let woken = woken.filter(|_| recorded.poll_ns.is_some()).filter(polls);
            let poll_ns = woken.map(|(recorded, run)| recorded.saturating_sub(run).min(OWN_MAX_NS));
            OwnTimeOfSide { between: own.collect(), poll_ns }
        }))
    }

    /// That of the quicker run, of two.
    pub fn least(self, other: &Self) -> Self {
        let mut least = self;
        for (own, other) in least.0.iter_mut().zip(&other.0) {
            own.between.retain(|kind, _| other.between.contains_key(kind));
            own.between.iter_mut().for_each(|(kind, ns)| *ns = (*ns).min(other.between[kind]));
            own.poll_ns = own.poll_ns.max(other.poll_ns);
        }
        least
    }

    /// Takes it off the think times.
    pub fn take_off(&self, pattern: &mut Pattern) {
        for (own, side) in self.0.iter().zip(&mut pattern.sides) {
            side.poll_ns = own.poll_ns;
            let own = &own.between;
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
        self.0[side].between.values().copied().max().unwrap_or(0)
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
    fn the_quicker_one_of_two_runs_counts() {
        let mut recorded = pattern(9, 5000, 1200);
        let side = &mut recorded.sides[0];
        (side.woken_read_ns, side.poll_ns) = (Some(3_000), Some(0));
        let of_run = |after_read_ns, woken_read_ns| {
            let mut run = pattern(9, after_read_ns, 1300);
            run.sides[0].woken_read_ns = Some(woken_read_ns);
            OwnTime::of(&recorded, &run)
        };
        let expected = of_run(5700, 2_700);
        assert_eq!(of_run(8000, 4_000).least(&expected), expected);
        assert_eq!(of_run(5700, 4_000).least(&of_run(8000, 2_700)), expected);
        // One run had none.
        assert_eq!(expected.least(&of_run(5000, 2_700)).largest_ns(0), 100);
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
    fn a_program_that_reads_later_after_a_wakeup_polls() {
        let woken = |woken_read_ns, answers_as_found| {
            let mut pattern = pattern(1, 0, 0);
            let side = &mut pattern.sides[0];
            (side.woken_read_ns, side.answers_as_found) = (Some(woken_read_ns), answers_as_found);
            poll_at_first(&mut pattern);
            pattern
        };
        let played = |recorded: Pattern, run_ns| {
            let own = OwnTime::of(&recorded, &woken(run_ns, false));
            let mut played = recorded;
            own.take_off(&mut played);
            played.sides.map(|side| side.poll_ns)
        };
        assert_eq!(played(woken(3_100, true), 2_300), [Some(800), None]);
        // Its reads wait themselves.
        assert_eq!(played(woken(2_100, true), 2_700), [None, None]);
        // These differ as two runs do.
        assert_eq!(played(woken(3_100, true), 3_200), [Some(0), None]);
        assert_eq!(played(woken(3_100, false), 2_300), [None, None]);
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
