//! The budget of a recorder: costs in, the share of the connections out, and the words about both.

use std::collections::VecDeque;
use std::fs;
use std::time::Duration;

use sockscope_probe::{Openings, Share};
use sockscope_record::counted;
use sockscope_watch::{Budget, Change};

/// Sampling by a budget, where the user gave one.
pub struct Sampling {
    budget: Budget,
    /// Counts at the last refreshes, for as long as a trace may reach back.
    history: VecDeque<At>,
    history_ns: u64,
    /// At the start, so that the cost of the start itself is not among the costs of recording.
    started: Option<Spent>,
    now: Option<Spent>,
}

/// Counts at a time.
#[derive(Clone, Copy)]
struct At {
    at_ns: u64,
    openings: Openings,
}

/// CPU time at a time, all of the process or the probes since the start.
#[derive(Clone, Copy)]
pub struct Spent {
    pub at_ns: u64,
    /// `None` where the kernel does not measure it.
    pub probes_ns: Option<u64>,
    pub process_ns: u64,
}

impl Sampling {
    /// With a budget as a part of a CPU. Traces reach back so far.
    pub fn new(limit: f64, reach: Duration) -> Self {
        Self {
            budget: Budget::new(limit),
            history: VecDeque::new(),
            history_ns: u64::try_from(reach.as_nanos()).unwrap_or(u64::MAX),
            started: None,
            now: None,
        }
    }

    /// The part of new connections that is recorded.
    pub fn share(&self) -> f64 {
        self.budget.share()
    }

    /// Looks at the cost of the last refresh. Gives the new share where it changes, and a message. The cost of making a
    /// trace soon ends, and decides nothing.
    pub fn look(
        &mut self,
        spent: Spent,
        openings: Openings,
        makes_trace: bool,
    ) -> Option<(Share, String)> {
        self.started.get_or_insert(spent);
        self.now = Some(spent);
        let least_ns = spent.at_ns.saturating_sub(self.history_ns);
        // The last one before the time that is needed stays.
        while self.history.get(1).is_some_and(|second| second.at_ns <= least_ns) {
            self.history.pop_front();
        }
        self.history.push_back(At { at_ns: spent.at_ns, openings });
        let spent_ns = spent.probes_ns.unwrap_or_default() + spent.process_ns;
        if makes_trace {
            self.budget.skip(spent.at_ns, spent_ns);
            return None;
        }
        let change = self.budget.look(spent.at_ns, spent_ns)?;
        let [cost, limit, share] =
            [self.budget.cost(), self.budget.limit(), self.share()].map(percent);
        let is_now = format!("{share} of the connections are recorded from now on");
        let words = match change {
            Change::Fell(_) => {
                format!("the cost is {cost} of a CPU, above the budget of {limit}: {is_now}")
            }
            Change::Rose(_) => {
                format!("the cost is {cost} of a CPU, less than half of the budget: {is_now}")
            }
            Change::CannotHold { fixed, least } => format!(
                "the budget of {limit} cannot be held: {} of a CPU are for any share, and {share} of the connections are \
                 recorded from now on; give --budget {:.1}%, or pick fewer connections",
                percent(fixed),
                least * 100.0
            ),
        };
        Some((Share::of(self.share()), words))
    }

    /// A sentence on the connections that opened between the two times, where some were left out.
    pub fn note(&self, from_ns: u64, until_ns: u64) -> Option<String> {
        let by = |time_ns: u64| {
            let before = self.history.iter().rev().find(|one| one.at_ns <= time_ns);
            before.map_or(Openings::default(), |one| one.openings)
        };
        // The refresh behind the end has all of them.
        let after =
            self.history.iter().find(|one| one.at_ns >= until_ns).or(self.history.back())?;
        let note = after.openings.since(by(from_ns)).note()?;
        Some(format!("in the time of this trace: {note}"))
    }

    /// The cost since the start, with the value of the kernel's table of processes.
    pub fn summary(&self, openings: Openings) -> Option<String> {
        let (started, now) = (self.started?, self.now?);
        let passed_ns = now.at_ns.checked_sub(started.at_ns).filter(|ns| *ns > 0)?;
        let part = |ns: u64| ns as f64 / passed_ns as f64;
        let probes_ns = now.probes_ns.zip(started.probes_ns).map(|(now, then)| now - then);
        let process = part(now.process_ns - started.process_ns);
        let sum = percent(process + probes_ns.map_or(0.0, part));
        let [process, limit] = [process, self.budget.limit()].map(percent);
        let probes = probes_ns.map_or("unknown".to_owned(), |ns| percent(part(ns)));
        let all = ticks_ns().map(|ns| format!("{:.2} s", ns as f64 * 1e-9));
        let all = all.unwrap_or_else(|| "unknown".to_owned());
        Some(format!(
            "the cost was {sum} of a CPU (budget {limit}): probes {probes}, this program {process}; it used \
             {:.2} s of CPU time since its start, by /proc/self/stat {all}; {} recorded, {} of them left out on the \
             way, {} others left out",
            now.process_ns as f64 * 1e-9,
            counted(openings.recorded, "connection"),
            openings.left_out_later,
            openings.left_out
        ))
    }
}

fn percent(part: f64) -> String {
    let percent = part * 100.0;
    if percent < 10.0 { format!("{percent:.2} %") } else { format!("{percent:.0} %") }
}

/// CPU time of this process in /proc, in ticks of 10 ms (`USER_HZ`, 100 on all machines that are supported).
fn ticks_ns() -> Option<u64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let fields = stat.rsplit_once(')')?.1;
    let mut times = fields.split_whitespace().skip(11).map_while(|field| field.parse::<u64>().ok());
    Some((times.next()? + times.next()?) * 10_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(second: u64, cost_ns: u64) -> Spent {
        let probes_ns = cost_ns / 4;
        let process_ns = cost_ns - probes_ns;
        Spent { at_ns: second * SECOND, probes_ns: Some(probes_ns), process_ns }
    }

    fn openings(recorded: u64, left_out: u64) -> Openings {
        Openings { recorded, left_out, left_out_later: recorded / 2 }
    }

    #[test]
    fn a_cost_above_the_budget_is_named_with_the_new_share() {
        let mut sampling = Sampling::new(0.03, Duration::from_secs(30));
        let looks = (0..=3)
            .map(|second| sampling.look(at(second, second * SECOND / 10), openings(0, 0), false));
        let changes: Vec<_> = looks.flatten().collect();
        let words = "the cost is 10 % of a CPU, above the budget of 3.00 %: 25 % of the connections are recorded from \
                     now on";
        let [(share, said)] = &changes[..] else { panic!("{changes:?}") };
        assert_eq!(said, words);
        assert_eq!(*share, Share::of(0.25), "a quarter at least");
        let said = sampling.summary(openings(7, 8)).unwrap();
        assert!(said.starts_with(
            "the cost was 10 % of a CPU (budget 3.00 %): probes 2.50 %, this program 7.50 %"
        ));
        let counts = "7 connections recorded, 3 of them left out on the way, 8 others left out";
        assert!(said.ends_with(counts), "{said}");
    }

    #[test]
    fn a_budget_below_the_fixed_part_is_named_with_the_least_one() {
        let mut sampling = Sampling::new(0.03, Duration::from_secs(30));
        // No share changes the cost.
        let looks = (0..=30)
            .map(|second| sampling.look(at(second, second * SECOND / 20), openings(0, 0), false));
        let said: Vec<String> = looks.flatten().map(|(_, words)| words).collect();
        let words = "the budget of 3.00 % cannot be held: 5.00 % of a CPU are for any share, and 0.10 % of the connections \
                     are recorded from now on; give --budget 5.5%, or pick fewer connections";
        assert_eq!((said.len(), said[2].as_str()), (3, words), "{said:?}");
    }

    #[test]
    fn a_run_time_that_is_not_measured_is_unknown() {
        let mut sampling = Sampling::new(0.03, Duration::from_secs(30));
        for second in 0..=10 {
            let spent = Spent { probes_ns: None, ..at(second, second * SECOND / 10) };
            sampling.look(spent, openings(0, 0), false);
        }
        let said = sampling.summary(openings(1, 0)).unwrap();
        assert!(
            said.contains("of a CPU (budget 3.00 %): probes unknown, this program 7.50 %"),
            "{said}"
        );
    }

    #[test]
    fn a_trace_has_the_counts_of_its_time() {
        let mut sampling = Sampling::new(0.03, Duration::from_secs(3));
        for second in 0..10 {
            sampling.look(at(second, 0), openings(second, 3 * second), false);
        }
        assert_eq!(sampling.history.len(), 4);
        let note = sampling.note(7 * SECOND, 9 * SECOND - 1).unwrap();
        assert!(note.contains(": recorded 25.0 % of the connections (2)"), "{note}");
        assert!(note.contains("6 others were left out"), "{note}");
    }

    #[test]
    fn the_table_of_processes_has_the_cpu_time_of_this_one() {
        assert!(ticks_ns().is_some());
    }
}
