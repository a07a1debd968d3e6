//! Steps with their repetitions folded into loops, and back: nothing is lost.
//!
//! Two rounds are alike when their calls are, with the same bytes where that makes the result shorter, else with any.
//! A value that differs from round to round is a list with a value for each.

use crate::pattern::{Action, Step};

/// Longest round that is looked for, steps.
const ROUND_MAX: usize = 64;

/// Rounds of the same bytes are a loop from this number of steps on that it saves.
const SAVED_MIN: usize = 6;

/// A step counts so much more than a value of a list, when the shorter of two results is chosen.
const STEP_COST: usize = 4;

/// Steps that repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loop {
    /// How often, once at least.
    pub times: u64,
    /// One round.
    pub steps: Vec<LoopStep>,
}

/// A step of all rounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopStep {
    /// The kind of the call.
    pub action: Action,
    /// Number of the connection: one value for all rounds, or one for each.
    pub connection: Vec<u32>,
    /// Bytes; likewise.
    pub bytes: Vec<u64>,
    /// Time that the program spends before it, nanoseconds; likewise.
    pub think_ns: Vec<u64>,
    /// Whether the program waited before that; likewise.
    pub after_wait: Vec<bool>,
    /// The time before it in another recording, without a wait; likewise.
    pub warm_ns: Vec<Option<u64>>,
    /// Whether data woke the program in it; likewise.
    pub woken: Vec<bool>,
}

/// Folds repetitions.
pub fn fold(steps: &[Step]) -> Vec<Loop> {
    let by_calls = fold_by(steps, 1, |left, right| left.action == right.action);
    let by_bytes = fold_same(steps);
    if cost(&by_bytes) < cost(&by_calls) { by_bytes } else { by_calls }
}

/// The steps of the loops, one by one. Where a list is too short its last value counts on.
pub fn unfold(loops: &[Loop]) -> Vec<Step> {
    let mut steps = Vec::new();
    for one in loops {
        for round in 0..usize::try_from(one.times).unwrap_or(usize::MAX) {
            steps.extend(one.steps.iter().map(|step| Step {
                action: step.action,
                connection: at(&step.connection, round),
                bytes: at(&step.bytes, round),
                think_ns: at(&step.think_ns, round),
                after_wait: at(&step.after_wait, round),
                warm_ns: at(&step.warm_ns, round),
                woken: at(&step.woken, round),
            }));
        }
    }
    steps
}

fn at<T: Copy + Default>(values: &[T], round: usize) -> T {
    values.get(round).or(values.last()).copied().unwrap_or_default()
}

/// Loops of the same calls with the same bytes; calls between them are folded by their kind alone.
fn fold_same(steps: &[Step]) -> Vec<Loop> {
    let call = |step: &Step| (step.action, step.connection, step.bytes);
    let is_same = |left: &Step, right: &Step| call(left) == call(right);
    let mut loops = Vec::new();
    let mut rest = Vec::new();
    let fold_rest = |rest: &mut Vec<Step>, loops: &mut Vec<Loop>| {
        loops.extend(fold_by(rest, 1, |left, right| left.action == right.action));
        rest.clear();
    };
    for one in fold_by(steps, SAVED_MIN, is_same) {
        if one.times == 1 {
            rest.extend(unfold(&[one]));
        } else {
            fold_rest(&mut rest, &mut loops);
            loops.push(one);
        }
    }
    fold_rest(&mut rest, &mut loops);
    loops
}

/// At each place the loop that saves most steps, `saved_min` at least. Steps between loops are one of a single round.
fn fold_by(steps: &[Step], saved_min: usize, alike: impl Fn(&Step, &Step) -> bool) -> Vec<Loop> {
    let mut loops: Vec<Loop> = Vec::new();
    let (mut at, mut single) = (0, 0);
    while at < steps.len() {
        let mut best = (0, 0, 0);
        for round in 1..=ROUND_MAX.min((steps.len() - at) / 2) {
            let is_alike = |place: &usize| alike(&steps[*place], &steps[place + round]);
            let alike = (at..steps.len() - round).take_while(is_alike).count();
            let saved = alike / round * round;
            if saved > best.0 {
                best = (saved, round, alike / round + 1);
            }
        }
        let (saved, round, times) = best;
        if saved < saved_min.max(1) {
            at += 1;
            continue;
        }
        loops.extend(looped(&steps[single..at], at - single));
        loops.extend(looped(&steps[at..at + round * times], round));
        at += round * times;
        single = at;
    }
    loops.extend(looped(&steps[single..], steps.len() - single));
    loops
}

fn looped(steps: &[Step], round: usize) -> Option<Loop> {
    let times = steps.len().checked_div(round)?;
    let step = |place: usize| {
        let alike = || steps.iter().skip(place).step_by(round);
        LoopStep {
            action: steps[place].action,
            connection: values(alike().map(|step| step.connection)),
            bytes: values(alike().map(|step| step.bytes)),
            think_ns: values(alike().map(|step| step.think_ns)),
            after_wait: values(alike().map(|step| step.after_wait)),
            warm_ns: values(alike().map(|step| step.warm_ns)),
            woken: values(alike().map(|step| step.woken)),
        }
    };
    Some(Loop { times: times as u64, steps: (0..round).map(step).collect() })
}

/// One value for all rounds where they are the same.
fn values<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut values: Vec<T> = values.collect();
    if values.windows(2).all(|pair| pair[0] == pair[1]) {
        values.truncate(1);
    }
    values
}

fn cost(loops: &[Loop]) -> usize {
    let of_step = |step: &LoopStep| STEP_COST + step.connection.len() + step.bytes.len();
    loops.iter().flat_map(|one| &one.steps).map(of_step).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Steps from text: `w100 r20/5` writes 100 bytes at once, and reads 20 after 5 ns.
    fn steps(text: &str) -> Vec<Step> {
        let step = |word: &str| {
            let (what, think) = word.split_once('/').unwrap_or((word, "0"));
            let action = if what.starts_with('w') { Action::Write } else { Action::Read };
            let [bytes, think_ns] = [&what[1..], think].map(|text| text.parse().unwrap());
            Step {
                action,
                connection: 0,
                bytes,
                think_ns,
                after_wait: think_ns > 8,
                warm_ns: None,
                woken: false,
            }
        };
        text.split_whitespace().map(step).collect()
    }

    /// As `2 x w100 r20,30`.
    fn folded(steps: &[Step]) -> String {
        let list = |values: &[u64]| values.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let word = |step: &LoopStep| {
            let letter = if step.action == Action::Write { 'w' } else { 'r' };
            match step.think_ns[..] {
                [0] => format!("{letter}{}", list(&step.bytes)),
                _ => format!("{letter}{}/{}", list(&step.bytes), list(&step.think_ns)),
            }
        };
        let one = |one: &Loop| {
            let words: Vec<_> = one.steps.iter().map(word).collect();
            format!("{} x {}", one.times, words.join(" "))
        };
        fold(steps).iter().map(one).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn calls_that_repeat_are_a_loop_with_their_think_times() {
        let calls = steps("w100/7 w300/1 r100 w100/8 w300/1 r100 w100/9 w300/1 r100");
        assert_eq!(folded(&calls), "3 x w100/7,8,9 w300/1 r100");
    }

    #[test]
    fn a_first_round_that_differs_stays_apart() {
        let calls = steps(&format!("r400 w100 {}", "r100 r300 w100 ".repeat(200)));
        assert_eq!(folded(&calls), "1 x r400; 200 x w100 r100 r300; 1 x w100");
    }

    #[test]
    fn sizes_that_vary_are_a_list() {
        let sizes: Vec<String> = (0..40).map(|size| format!("w{} r9", 7 * size % 31)).collect();
        let folded = folded(&steps(&sizes.join(" ")));
        assert!(folded.starts_with("40 x w0,7,14,21,28,4,") && folded.ends_with(" r9"), "{folded}");
    }

    #[test]
    fn two_hundred_calls_are_few_steps() {
        let calls: Vec<String> = (0..200).map(|at| format!("w100/{at} w300 r100/{at}")).collect();
        assert_eq!(
            fold(&steps(&calls.join(" "))).iter().map(|one| one.steps.len()).sum::<usize>(),
            3
        );
    }

    #[test]
    fn nothing_is_folded_to_nothing() {
        assert_eq!(fold(&[]), []);
        assert_eq!(folded(&steps("w5 r6 r7/3")), "1 x w5; 2 x r6,7/0,3");
    }

    fn any_step() -> impl Strategy<Value = Step> {
        (any::<bool>(), 0u32..2, 1u64..4, 0u64..3).prop_map(
            |(is_write, connection, bytes, think_ns)| {
                let action = if is_write { Action::Write } else { Action::Read };
                let warm_ns = (think_ns == 1).then_some(7);
                Step {
                    action,
                    connection,
                    bytes,
                    think_ns,
                    after_wait: think_ns == 2,
                    warm_ns,
                    woken: is_write,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn unfolded_steps_are_those_that_were_folded(
            parts in prop::collection::vec((prop::collection::vec(any_step(), 0..9), 1usize..9), 0..9)
        ) {
            let steps: Vec<Step> =
                parts.into_iter().flat_map(|(steps, times)| steps.repeat(times)).collect();
            let loops = fold(&steps);
            prop_assert_eq!(unfold(&loops), steps.clone());
            prop_assert!(loops.iter().map(|one| one.steps.len()).sum::<usize>() <= steps.len());
        }
    }
}
