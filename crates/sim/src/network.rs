//! Hosts, links and events under one clock.
//!
//! The clock is nanoseconds from the start of the simulation. It moves to the next thing that
//! happens; at the same time events come before CPUs, and hosts in the order of the scenario.
//!
//! Nothing here knows where records go: they are handed over in batches, so that all that runs
//! for each segment exists once, whatever the sink.

use crate::event::Event;
use crate::host::Host;
use crate::link::{Link, LinkContext, LinkId, Port};
use crate::scheduler::ProcessIndex;
use crate::simulation::Outcome;
use crate::world::{Observer, World};

/// What ends a run before its time is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Nothing.
    Time,
    /// Every program but the daemons has ended and nothing is under way.
    Quiet,
    /// The last socket is gone too.
    Closed,
}

/// Everything that happens, and the time that it is.
pub(crate) struct Network {
    pub(crate) now_ns: u64,
    pub(crate) hosts: Vec<Host>,
    /// For each host, when its CPU comes to its next effect; `u64::MAX` when it has nothing to do.
    due_ns: Vec<u64>,
    pub(crate) world: World,
}

impl Network {
    /// Nothing has happened yet.
    pub(crate) fn new(hosts: Vec<Host>, world: World) -> Self {
        let due_ns = vec![u64::MAX; hosts.len()];
        Self { now_ns: 0, hosts, due_ns, world }
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
        self.world.observed.hand_over(observer);
        outcome
    }

    /// Whether the goal is reached, once no program works any more.
    #[cold]
    fn is_over(&self, goal: Goal) -> bool {
        let is_quiet = || self.world.frames.in_use() == 0 && self.hosts.iter().all(Host::is_quiet);
        let has_socket = |host: &Host| host.stack().sockets.iter().next().is_some();
        match goal {
            Goal::Time => false,
            Goal::Quiet => is_quiet(),
            Goal::Closed => is_quiet() && !self.hosts.iter().any(has_socket),
        }
    }

    fn advance(&mut self, until_ns: u64, goal: Goal, observer: &mut dyn Observer) -> Outcome {
        let end_ns = until_ns.saturating_add(1);
        loop {
            if self.world.working == 0 && self.is_over(goal) {
                return Outcome::Ended;
            }
            let event_ns = self.world.events.next_ns();
            let next = self.next_host();
            if event_ns.min(next.at_ns) >= end_ns {
                return self.stop(until_ns);
            }
            let mut turn = Turn { host: next.host, is_quantum: false };
            let mut limit_ns = next.others_ns;
            if event_ns <= next.at_ns {
                self.now_ns = event_ns;
                self.world.observed.limit(observer);
                let Some(happened) = self.next_event() else { continue };
                turn = happened;
                limit_ns = if turn.is_quantum { 0 } else { next.limit_ns(turn.host) };
            } else {
                self.now_ns = next.at_ns;
            }
            let Self { now_ns, hosts, due_ns, world } = self;
            let host = &mut hosts[turn.host];
            let pause = host.run_until(*now_ns, limit_ns.min(end_ns), world, observer);
            if turn.is_quantum {
                host.arm_quantum(*now_ns, world);
            }
            *now_ns = pause.now_ns;
            due_ns[turn.host] = pause.due_ns;
            if pause.is_stuck() {
                return Outcome::Stuck;
            }
        }
    }

    /// Nothing happens any more up to `until_ns`: why the run ends.
    #[cold]
    fn stop(&mut self, until_ns: u64) -> Outcome {
        let next_ns = self.world.events.next_ns().min(self.next_host().at_ns);
        if next_ns < u64::MAX {
            self.now_ns = self.now_ns.max(until_ns);
            Outcome::TimeIsUp
        } else if self.world.working == 0 {
            Outcome::Ended
        } else {
            Outcome::Deadlock
        }
    }

    #[inline]
    fn next_host(&self) -> NextHost {
        // Most networks have two hosts, which need no search.
        match self.due_ns[..] {
            [first, second] => NextHost {
                host: usize::from(second < first),
                at_ns: first.min(second),
                others_ns: first.max(second),
            },
            _ => self.search_next_host(),
        }
    }

    #[inline(never)]
    fn search_next_host(&self) -> NextHost {
        let mut next = NextHost { host: 0, at_ns: u64::MAX, others_ns: u64::MAX };
        for (host, due_ns) in self.due_ns.iter().enumerate() {
            if *due_ns < next.at_ns {
                next = NextHost { host, at_ns: *due_ns, others_ns: next.at_ns };
            } else {
                next.others_ns = next.others_ns.min(*due_ns);
            }
        }
        next
    }

    /// Lets the next event happen; the turn of the host that it happened to, if that has to run now.
    #[inline(never)]
    fn next_event(&mut self) -> Option<Turn> {
        let Self { now_ns, hosts, world, .. } = self;
        let now_ns = *now_ns;
        let (_, event) = world.events.pop()?;
        let host = match event {
            Event::Attempt { link, station } => {
                let link = LinkId::from(link);
                world.with_link(now_ns, link, |link, context| link.attempt(station, context));
                return None;
            }
            Event::TransmissionEnd { link, number } => {
                let work = |link: &mut Link, context: &mut LinkContext<'_>| {
                    link.transmission_ends(number, context)
                };
                let port = world.with_link(now_ns, LinkId::from(link), work)?;
                sent(hosts, now_ns, port, world)?
            }
            Event::Arrival { host, interface, frame } => {
                let host = usize::from(host);
                hosts[host].arrived(interface, frame, world).then_some(host)?
            }
            Event::Sent(port) => sent(hosts, now_ns, port, world)?,
            Event::Collided(port) => hosts[port.host()].collided().then_some(port.host())?,
            Event::DriverReady(port) => {
                hosts[port.host()].offer(now_ns, port.interface, world);
                return None;
            }
            Event::Timers(host) => {
                let host = usize::from(host);
                hosts[host].timers(now_ns, world);
                host
            }
            Event::Clock(host) => {
                let host = usize::from(host);
                hosts[host].clock_ticked();
                host
            }
            Event::Quantum(host) => {
                let host = usize::from(host);
                hosts[host].quantum_over();
                return Some(Turn { host, is_quantum: true });
            }
            Event::Wake { host, process } => {
                hosts[usize::from(host)].time_is_up(now_ns, process as ProcessIndex, world);
                usize::from(host)
            }
        };
        Some(Turn { host, is_quantum: false })
    }
}

/// A port's frame has gone; its host, if that has to run now.
fn sent(hosts: &mut [Host], now_ns: u64, port: Port, world: &mut World) -> Option<usize> {
    hosts[port.host()].sent(now_ns, port.interface, world).then_some(port.host())
}

/// A host's turn to go on.
#[derive(Debug, Clone, Copy)]
struct Turn {
    host: usize,
    /// Its quantum is over: it goes on up to now only, and then the next one begins.
    is_quantum: bool,
}

/// Which host's CPU comes to something next.
#[derive(Debug, Clone, Copy)]
struct NextHost {
    host: usize,
    at_ns: u64,
    /// When the CPU of any other host comes to something.
    others_ns: u64,
}

impl NextHost {
    /// How far `host` may go on before another one must.
    fn limit_ns(self, host: usize) -> u64 {
        if host == self.host { self.others_ns } else { self.at_ns }
    }
}
