//! The running kernel as the source of raw records.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use libbpf_rs::RingBuffer;
use sockscope_record::{LossCounts, PointCost};

use super::clock::monotonic_ns;
use super::source::{Events, RawSource};
use crate::backlog::Backlog;
use crate::control_groups::ControlGroups;
use crate::error::Error;
use crate::hooks::{HOOKS, When};
use crate::input_devices::InputDevices;
use crate::layout::{RawEvent, RawRecord, constants as raw};
use crate::lists::{KINDS, Lists, Shape};
use crate::pick::Pick;
use crate::programs::{Counters, HookReport, Programs, Statistics};
use crate::sample::Share;

/// Programs that are loaded and attached, and their output. Dropping it detaches every probe.
pub(super) struct KernelSource {
    programs: Programs,
    lists: Arc<Lists>,
    backlog: Backlog,
    ring: RingBuffer<'static>,
    /// The events that the ring's callbacks received.
    incoming: Rc<RefCell<Events>>,
    groups: ControlGroups,
    input_devices: InputDevices,
    statistics: Option<Statistics>,
    costs_before: BTreeMap<String, (u64, u64)>,
    run_ns_before: u64,
}

/// Settings of a recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Also record returns of send and receive calls.
    pub calls: bool,
    /// Also record Unix sockets.
    pub unix: bool,
    /// Measure the run time of the probes; costs some 40 ns a hit itself.
    pub statistics: bool,
    /// A command starts with the recording: its first datagram may take a while.
    pub starts_command: bool,
    /// The part of the picked connections to record.
    pub share: Share,
    /// Bytes of each CPU's list of records that wait for the recorder. They are rounded up to a power of
    /// two from 64 KiB to 256 MiB; 4 MiB without.
    pub buffer_bytes: Option<u64>,
    /// Between two looks at the lists at most; 10 ms without. Lists that fill are looked at more often.
    pub pause_max: Option<Duration>,
}

impl KernelSource {
    /// Loads and attaches the probes; from its return on, everything picked is recorded.
    pub(super) fn start(pick: &Pick, options: Options) -> Result<Self, Error> {
        let mut programs = Programs::load(pick, Shape::of(options.buffer_bytes))?;
        programs.set_share(options.share)?;
        let lists = Arc::new(programs.lists()?);
        let backlog = programs.backlog(&lists)?;
        let incoming: Rc<RefCell<Events>> = Rc::default();
        let (for_events, for_options) = (Rc::clone(&incoming), Rc::clone(&incoming));
        let ring = programs.events(
            move |event| for_events.borrow_mut().events.push(*event),
            move |option| for_options.borrow_mut().options.push(*option),
        )?;
        let statistics = options.statistics.then(Statistics::enable).flatten();
        let costs_before = programs.costs();
        let run_ns_before = programs.run_ns();
        programs.attach(When::Control);
        if options.calls {
            programs.attach(When::Calls);
        }
        if options.unix {
            programs.note_existing_unix()?;
            programs.attach(When::Unix);
        }
        if pick.in_band {
            programs.attach(When::InBand);
        }
        programs.attach(When::Datagrams);
        let input_devices = InputDevices::scan();
        if input_devices.may_need_input_hook() {
            programs.attach(When::Devices);
        }
        programs.attach(When::Always);
        if pick.picks_any() {
            programs.join_existing()?;
        }
        let groups = ControlGroups::of_machine();
        Ok(Self {
            programs,
            lists,
            backlog,
            ring,
            incoming,
            groups,
            input_devices,
            statistics,
            costs_before,
            run_ns_before,
        })
    }

    pub(super) fn backlog(&self) -> Backlog {
        self.backlog.clone()
    }

    #[cfg(feature = "bench")]
    pub(super) fn programs(&self) -> &Programs {
        &self.programs
    }
}

/// Whether the event names a process that uses a connection.
fn shows_process(event: &RawEvent) -> bool {
    let kinds = [raw::EVENT_OPEN, raw::EVENT_THREAD].map(u32::from);
    event.pid != 0 && kinds.contains(&event.kind)
}

impl RawSource for KernelSource {
    fn now_ns(&mut self) -> u64 {
        monotonic_ns()
    }

    fn pause(&mut self, pause: Duration) {
        std::thread::sleep(pause);
    }

    fn shape(&self) -> &Shape {
        self.lists.shape()
    }

    fn span(&mut self, list: usize) -> (u64, u64) {
        self.lists.span(list)
    }

    fn read(&mut self, list: usize, number: u64) -> Option<RawRecord> {
        self.lists.read(list, number)
    }

    fn release(&mut self, list: usize, number: u64) {
        self.lists.release(list, number);
    }

    fn events(&mut self) -> Result<Events, Error> {
        self.ring.consume().map_err(|error| Error::Load(error.to_string()))?;
        let mut incoming = std::mem::take(&mut *self.incoming.borrow_mut());
        // At once: the file of a process goes with the process.
        for event in &incoming.events {
            if shows_process(event)
                && let Some(group) = self.groups.of(event.pid, event.cgroup)
            {
                incoming.groups.insert((event.pid, event.cgroup), group);
            }
        }
        Ok(incoming)
    }

    fn missed(&mut self, list: usize) -> [u64; KINDS] {
        self.lists.lost(list)
    }

    fn missed_of_others(&mut self, list: usize) -> [u64; KINDS] {
        self.lists.lost_of_others(list)
    }

    fn interrupted(&mut self) -> Result<LossCounts, Error> {
        self.programs.interrupted()
    }

    fn counters(&mut self) -> Result<Counters, Error> {
        self.programs.counters()
    }

    fn scheduler_offset_ns(&mut self) -> Option<i64> {
        self.programs.scheduler_offset_ns()
    }

    fn set_share(&mut self, share: Share) -> Result<(), Error> {
        self.programs.set_share(share)
    }

    fn expire(&mut self, from: u32, slots: u32, idle_ns: u64) {
        self.programs.expire(from, slots, idle_ns);
    }

    fn attach(&mut self, when: When) {
        self.programs.attach(when);
    }

    fn detach(&mut self, when: When) {
        self.programs.detach(when);
    }

    fn is_attached(&self, when: When) -> bool {
        self.programs.is_attached(when)
    }

    fn has_new_input_devices(&mut self) -> bool {
        self.input_devices.have_grown()
    }

    fn announce_open(&mut self) -> Result<(), Error> {
        self.programs.announce_open()
    }

    fn hooks(&self) -> Vec<HookReport> {
        self.programs.report()
    }

    fn costs(&self) -> [PointCost; 8] {
        match self.statistics {
            Some(_) => costs_since(&self.costs_before, &self.programs.costs()),
            None => [PointCost::default(); 8],
        }
    }

    fn run_ns(&self) -> Option<u64> {
        let run_ns = self.programs.run_ns().saturating_sub(self.run_ns_before);
        // Another program may have turned the measurement on.
        (self.statistics.is_some() || run_ns > 0).then_some(run_ns)
    }
}

/// Hits and run time of each point between two readings of all programs' own.
fn costs_since(
    before: &BTreeMap<String, (u64, u64)>,
    now: &BTreeMap<String, (u64, u64)>,
) -> [PointCost; 8] {
    let mut costs = [PointCost::default(); 8];
    for entry in HOOKS {
        // A hook for several points is counted once, at the last.
        let (Some(point), Some(&(hits, run_ns))) = (entry.points.last(), now.get(entry.program))
        else {
            continue;
        };
        let before = before.get(entry.program).copied().unwrap_or((0, 0));
        let cost = &mut costs[point.index()];
        cost.hits += hits - before.0;
        cost.run_ns += run_ns - before.1;
    }
    costs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_s_run_time_counts_at_its_last_point_from_the_start_on() {
        let of = |hits, run_ns| BTreeMap::from([("point4".to_owned(), (hits, run_ns))]);
        let costs = costs_since(&of(10, 1_000), &of(15, 3_000));
        assert_eq!(costs[3], PointCost { hits: 5, run_ns: 2_000 });
        assert_eq!(costs.iter().map(|cost| cost.hits).sum::<u64>(), 5);
    }
}
