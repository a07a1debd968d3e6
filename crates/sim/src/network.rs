//! Hosts, links and events under one clock.
//!
//! The clock is nanoseconds from the start of the simulation. It moves to the next thing that
//! happens; at the same time events precede CPUs, and hosts follow the order of the scenario.
//!
//! Nothing here knows the destination of records: they are handed over in batches, so that all code
//! that runs for each segment exists once, for any sink.

use crate::event::Event;
use crate::host::Host;
use crate::link::LinkId;
use crate::shared::{Observer, Shared};

/// The condition that ends a run before its time is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Nothing.
    Time,
    /// Every program but the daemons has ended and nothing is under way.
    Quiet,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All programs have ended and nothing is under way.
    Ended,
    /// The time was up.
    TimeIsUp,
    /// Nothing can happen any more, but programs wait.
    Deadlock,
    /// A host went on without end at one moment; the simulation cannot go on any more.
    Stuck,
}

/// Everything that happens, and the time that it is.
pub(crate) struct Network {
    pub(crate) now_ns: u64,
    pub(crate) hosts: Vec<Host>,
    pub(crate) shared: Shared,
    /// A host went on without end at one moment, and would still.
    is_stuck: bool,
}

impl Network {
    /// Nothing has happened yet.
    pub(crate) fn new(hosts: Vec<Host>, shared: Shared) -> Self {
        Self { now_ns: 0, hosts, shared, is_stuck: false }
    }

    /// Runs to its goal, at most to `until_ns`, that time included; all records have been handed
    /// over then.
    pub(crate) fn run(
        &mut self,
        until_ns: u64,
        goal: Goal,
        observer: &mut dyn Observer,
    ) -> Outcome {
        let outcome = self.advance(until_ns, goal, observer);
        self.shared.observed.hand_over(observer);
        outcome
    }

    /// Nothing follows: what is held back is handed over, with what probes lost.
    pub(crate) fn end(&mut self, observer: &mut dyn Observer) {
        for host in &mut self.hosts {
            host.end_probes(self.now_ns, &mut self.shared);
        }
        self.shared.observed.end(observer);
    }

    /// Whether the goal is reached, once no program works any more.
    fn is_over(&self, goal: Goal) -> bool {
        goal == Goal::Quiet
            && self.shared.frames.in_use() == 0
            && self.hosts.iter().all(Host::is_quiet)
    }

    fn advance(&mut self, until_ns: u64, goal: Goal, observer: &mut dyn Observer) -> Outcome {
        let end_ns = until_ns.saturating_add(1);
        self.shared.end_ns = if self.shared.working == 0 { 0 } else { end_ns };
        while !self.is_stuck {
            if self.shared.working == 0 && self.is_over(goal) {
                return Outcome::Ended;
            }
            let event_ns = self.shared.events.next_ns();
            let (mut host, host_ns) = self.next_host();
            let next_ns = event_ns.min(host_ns);
            if next_ns >= end_ns {
                return self.stop(next_ns, until_ns);
            }
            assert!(next_ns >= self.now_ns, "time falls from {} to {next_ns}", self.now_ns);
            self.now_ns = next_ns;
            if event_ns <= host_ns {
                self.shared.observed.limit(observer);
                let Some(happened_to) = self.next_event(observer) else { continue };
                host = happened_to;
            }
            self.run_host(host, self.others_ns(host), observer);
        }
        Outcome::Stuck
    }

    /// A host goes on while its CPU is due before `limit_ns` and before the next event.
    fn run_host(&mut self, host: usize, limit_ns: u64, observer: &mut dyn Observer) {
        let host = &mut self.hosts[host];
        let pause = host.run_until(self.now_ns, limit_ns, &mut self.shared, observer);
        assert!(pause.now_ns >= self.now_ns, "a host goes back to {}", pause.now_ns);
        self.now_ns = pause.now_ns;
        self.is_stuck = pause.is_stuck;
    }

    /// A host's quantum is over: it goes on up to now only, and then the next one begins.
    fn quantum_over(&mut self, host: usize, observer: &mut dyn Observer) {
        let now_ns = self.now_ns;
        self.hosts[host].quantum_over();
        self.run_host(host, 0, observer);
        self.hosts[host].arm_quantum(now_ns, &mut self.shared);
    }

    /// Nothing happens any more up to `until_ns`: why the run ends.
    fn stop(&mut self, next_ns: u64, until_ns: u64) -> Outcome {
        if next_ns < u64::MAX {
            self.now_ns = self.now_ns.max(until_ns);
            Outcome::TimeIsUp
        } else if self.shared.working == 0 {
            Outcome::Ended
        } else {
            Outcome::Deadlock
        }
    }

    /// When something happens next.
    pub(crate) fn next_ns(&self) -> u64 {
        self.shared.events.next_ns().min(self.next_host().1)
    }

    /// The first host whose CPU has the next effect or end, and its time.
    fn next_host(&self) -> (usize, u64) {
        let due = self.hosts.iter().map(Host::next_ns).enumerate();
        due.min_by_key(|(_, due_ns)| *due_ns).unwrap_or((0, u64::MAX))
    }

    /// The time of the next effect or end of any other host's CPU.
    fn others_ns(&self, host: usize) -> u64 {
        let others = self.hosts.iter().enumerate().filter(|(other, _)| *other != host);
        others.map(|(_, other)| other.next_ns()).min().unwrap_or(u64::MAX)
    }

    /// Lets the next event happen; the host that it happened to, if that has to run now.
    fn next_event(&mut self, observer: &mut dyn Observer) -> Option<usize> {
        let Self { now_ns, hosts, shared, .. } = self;
        let now_ns = *now_ns;
        let (at_ns, event) = shared.events.pop()?;
        assert_eq!(at_ns, now_ns, "{event:?} is not due");
        let host = match event {
            Event::Attempt { link, station } => {
                let link = LinkId::from(link);
                shared.with_link(now_ns, link, |link, context| link.attempt(station, context));
                return None;
            }
            Event::TransmissionEnd { link, number } => {
                let link = LinkId::from(link);
                shared.with_link(now_ns, link, |link, context| {
                    link.transmission_ends(number, context);
                });
                return None;
            }
            Event::Arrival { host, interface, frame } => {
                let host = usize::from(host);
                hosts[host].arrived(interface, frame, shared).then_some(host)?
            }
            Event::Sent { host, interface } => {
                let host = usize::from(host);
                hosts[host].sent(now_ns, interface, shared).then_some(host)?
            }
            Event::Collided { host, .. } => {
                let host = usize::from(host);
                hosts[host].collided().then_some(host)?
            }
            Event::Timers(host) => {
                let host = usize::from(host);
                hosts[host].timers(now_ns, shared);
                host
            }
            Event::Clock(host) => {
                let host = usize::from(host);
                hosts[host].clock_ticked();
                host
            }
            Event::Quantum(host) => {
                self.quantum_over(usize::from(host), observer);
                return None;
            }
            Event::Wake { host, process } => {
                hosts[usize::from(host)].time_is_up(now_ns, process, shared);
                usize::from(host)
            }
        };
        Some(host)
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        Action, HostConfig, LogPolicy, Machine, NoRecords, Outcome, Program, ProgramContext,
        Scenario, Simulation,
    };
    use sockscope_stack::Personality;

    /// Computes for no time, for ever.
    struct Restless;

    impl Program for Restless {
        fn name(&self) -> &str {
            "restless"
        }

        fn next(&mut self, _: &mut ProgramContext<'_>) -> Action {
            Action::Compute(0)
        }
    }

    #[test]
    fn a_program_that_lets_no_time_pass_ends_the_simulation() {
        let personality = Personality::by_name("4.3bsd").unwrap();
        let host = HostConfig::new("alone", personality, Machine::by_name("instant").unwrap());
        let hosts = vec![host.with_loopback()];
        let scenario = Scenario { seed: 1, hosts, links: Vec::new(), log: LogPolicy::All };
        let mut simulation = Simulation::new(scenario, NoRecords).unwrap();
        simulation.spawn(0, Box::new(Restless), 7_000);
        assert_eq!(simulation.run_until(6_999), Outcome::TimeIsUp);
        assert_eq!(simulation.run_until(1_000_000), Outcome::Stuck);
        assert_eq!(simulation.now_ns(), 7_000);
        assert_eq!(simulation.run_until(1_000_000), Outcome::Stuck, "and stays so");
    }
}
