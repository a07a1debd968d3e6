//! Simulated traffic in virtual time, on CPUs whose lists the recorder empties.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use sockscope_record::{LossCounts, PointCost};

use super::super::source::{Events, RawSource};
use super::plan::Plan;
use super::probes::Probes;
use super::rng::Rng;
use super::tcp::{Step, Stream};
use super::udp::{Datagrams, Move};
use crate::error::Error;
use crate::hooks::When;
use crate::layout::{RawOption, RawRecord};
use crate::lists::{KINDS, Shape};
use crate::programs::{Counters, HookReport};
use crate::sample::Share;

/// The next event, on the whole machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Action {
    /// The next TCP connection opens.
    Open,
    /// A step of the connection with this index.
    Stream(usize, Step),
    /// A step of datagrams.
    Datagrams(Move),
}

/// Traffic, the probes that watch it, and the recorder's stops.
pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) rng: Rng,
    pub(super) probes: Probes,
    /// Those that the ring has until the next look. A scenario sets them; the world has no bound for them.
    pub(super) options: Vec<RawOption>,
    pub(super) streams: Vec<Stream>,
    pub(super) datagrams: Datagrams,
    /// Addresses of sockets that are free: the last one freed is the next one used.
    pub(super) addresses: Vec<u64>,
    agenda: BTreeSet<(u64, u64, Action)>,
    added: u64,
    next_stall_ns: u64,
    /// The CPU of the function that is under way.
    pub(super) running_on: Option<usize>,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let plan = Plan::of(&mut rng);
        Self::planned(plan, rng)
    }

    pub(super) fn planned(plan: Plan, mut rng: Rng) -> Self {
        let probes = Probes::new(&plan, Rng::new(rng.next()));
        let mut world = Self {
            datagrams: Datagrams::new(&plan, &mut rng),
            probes,
            options: Vec::new(),
            streams: Vec::new(),
            addresses: (1..=64).map(|number| number * 0x840).collect(),
            agenda: BTreeSet::new(),
            added: 0,
            next_stall_ns: 0,
            running_on: None,
            plan,
            rng,
        };
        world.plan_stall();
        for _ in 0..world.plan.streams.min(world.plan.streams_in_all) {
            let after_ns = world.rng.range(0, 20_000_000);
            world.after(after_ns, Action::Open);
        }
        for flow in 0..world.plan.flows {
            let after_ns = world.rng.range(0, 20_000_000);
            world.after(after_ns, Action::Datagrams(Move::Send(flow)));
        }
        world
    }

    fn plan_stall(&mut self) {
        self.next_stall_ns = match self.plan.stall_every_ns {
            0 => u64::MAX,
            // Not before the recorder has read the counters once.
            every_ns => self.probes.now_ns + 1_000_000 + self.rng.range(1, 2 * every_ns),
        };
    }

    /// Does something later.
    pub(super) fn after(&mut self, delay_ns: u64, action: Action) {
        self.added += 1;
        self.agenda.insert((self.probes.now_ns + delay_ns, self.added, action));
    }

    /// Whether the traffic has had its share of hits.
    pub(super) fn is_late(&self) -> bool {
        self.probes.truth.hits.len() as u64 >= self.plan.hits
    }

    /// Whether nothing happens any more, or the recording is to end before that.
    pub(super) fn is_over(&self) -> bool {
        self.agenda.is_empty() || self.plan.ends_early && self.is_late()
    }

    /// The recorder needs this long for something; all else continues.
    pub(super) fn run_for(&mut self, time_ns: u64) {
        let mut until_ns = self.probes.now_ns + time_ns;
        if self.probes.now_ns >= self.next_stall_ns {
            until_ns += self.rng.range(self.plan.stall_ns / 2, self.plan.stall_ns + 1);
            self.plan_stall();
        }
        while let Some(&next) = self.agenda.first()
            && next.0 <= until_ns
        {
            self.agenda.remove(&next);
            let (at_ns, _, action) = next;
            self.probes.now_ns = self.probes.now_ns.max(at_ns);
            match action {
                Action::Open => self.open_stream(),
                Action::Stream(index, step) => self.step_stream(index, step),
                Action::Datagrams(step) => self.step_datagrams(step),
            }
        }
        self.probes.now_ns = self.probes.now_ns.max(until_ns);
        self.probes.finish_records();
    }
}

/// The simulated machine as a source; others may look at it too.
#[derive(Clone)]
pub(super) struct SimulatedSource {
    world: Rc<RefCell<World>>,
    shape: Shape,
}

impl SimulatedSource {
    pub(super) fn new(world: &Rc<RefCell<World>>) -> Self {
        let shape = world.borrow().probes.shape();
        Self { world: Rc::clone(world), shape }
    }

    /// The world, after the time that a call of the recorder takes.
    fn after<T>(&self, at_least_ns: u64, at_most_ns: u64, ask: impl FnOnce(&mut World) -> T) -> T {
        let mut world = self.world.borrow_mut();
        let time_ns = world.rng.range(at_least_ns, at_most_ns);
        world.run_for(time_ns);
        ask(&mut world)
    }
}

impl RawSource for SimulatedSource {
    /// It records every connection.
    fn set_share(&mut self, _: Share) -> Result<(), Error> {
        Ok(())
    }

    fn now_ns(&mut self) -> u64 {
        self.after(10, 40, |world| {
            let now_ns = world.probes.tick();
            let truth = &mut world.probes.truth;
            if truth.ended_ns == Some(0) {
                truth.ended_ns = Some(now_ns);
            }
            if truth.attached_ns == 0 && truth.counted_since_ns > 0 {
                truth.attached_ns = now_ns;
            }
            now_ns
        })
    }

    fn pause(&mut self, pause: Duration) {
        let least_ns = pause.as_nanos() as u64;
        self.after(least_ns, least_ns + 100_000, |_| ());
    }

    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn span(&mut self, list: usize) -> (u64, u64) {
        self.after(5, 200, |world| {
            let list = &world.probes.lists[list];
            (list.tail, list.head)
        })
    }

    fn read(&mut self, list: usize, number: u64) -> Option<RawRecord> {
        self.after(20, 300, |world| {
            let record = *world.probes.lists[list].place(number);
            (record.any().stamp == number + 1).then_some(record)
        })
    }

    fn release(&mut self, list: usize, number: u64) {
        self.after(5, 50, |world| world.probes.lists[list].tail = number);
    }

    fn events(&mut self) -> Result<Events, Error> {
        self.after(200, 5_000, |world| {
            world.may_leave_out();
            let events = world.probes.events.drain(..).collect();
            let options = std::mem::take(&mut world.options);
            Ok(Events { events, options, ..Events::default() })
        })
    }

    fn missed(&mut self, list: usize) -> [u64; KINDS] {
        self.after(5, 200, |world| world.probes.lists[list].lost)
    }

    fn missed_of_others(&mut self, _list: usize) -> [u64; KINDS] {
        [0; KINDS]
    }

    fn interrupted(&mut self) -> Result<LossCounts, Error> {
        self.after(5_000, 40_000, |world| {
            let probes = &mut world.probes;
            if probes.truth.counted_since_ns == 0 {
                probes.truth.counted_since_ns = probes.now_ns;
            }
            Ok(probes.interrupted)
        })
    }

    fn counters(&mut self) -> Result<Counters, Error> {
        self.after(1_000, 10_000, |world| Ok(world.probes.counters))
    }

    fn scheduler_offset_ns(&mut self) -> Option<i64> {
        self.after(1_000, 5_000, |_| None)
    }

    fn expire(&mut self, from: u32, slots: u32, idle_ns: u64) {
        self.after(1_000, 20_000, |world| world.expire(from, slots, idle_ns));
    }

    fn attach(&mut self, when: When) {
        self.after(1_000_000, 5_000_000, |world| world.probes.attached.push(when));
    }

    fn detach(&mut self, when: When) {
        self.after(10_000, 100_000, |world| world.probes.attached.retain(|one| *one != when));
    }

    fn is_attached(&self, when: When) -> bool {
        self.world.borrow().probes.attached.contains(&when)
    }

    fn has_new_input_devices(&mut self) -> bool {
        self.after(500, 2_000, |world| world.rng.once_in(2_000))
    }

    fn announce_open(&mut self) -> Result<(), Error> {
        self.after(10_000, 1_000_000, |world| {
            world.announce_streams();
            // The next reading of the clock is the end of the recording.
            world.probes.truth.ended_ns = Some(0);
        });
        Ok(())
    }

    fn hooks(&self) -> Vec<HookReport> {
        Vec::new()
    }

    fn costs(&self) -> [PointCost; 8] {
        [PointCost::default(); 8]
    }

    fn run_ns(&self) -> Option<u64> {
        None
    }
}
