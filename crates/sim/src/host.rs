//! One host: a stack, a CPU with three levels, devices, processes and their scheduler.
//!
//! The host is run at each time at which something on it happens. The order of decisions is: device
//! interrupts, software interrupts, the running process, the scheduler. Times are nanoseconds.

mod device;
mod driver;
mod effects;
mod logging;
mod probes;
mod processes;

use std::collections::{BTreeMap, VecDeque};

use sockscope_record::Point;
use sockscope_stack::{Effect, Meter, Routine, Stack};

use crate::cpu::{Cpu, End, LEVELS, Level, Mask};
use crate::event::Event;
use crate::interrupts::Interrupts;
use crate::machine::Machine;
use crate::probe_list::ProbeList;
use crate::process::{Process, StepResult};
use crate::random::Random;
use crate::scenario::{HostConfig, ProbeConfig};
use crate::scheduler::{ProcessIndex, QUANTUM_NS, Scheduler, TICK_NS};
use crate::shared::{Observer, Shared};

use device::{Device, HardInterrupt};

/// Period of the protocols' fast timer (`pffasttimo`).
pub const FAST_TIMER_NS: u64 = 200_000_000;

/// Period of the protocols' slow timer (`pfslowtimo`).
pub const SLOW_TIMER_NS: u64 = 500_000_000;

/// The period of both timers, which tick together since boot: `domaininit` starts them at once.
pub const TIMERS_NS: u64 = 1_000_000_000;

/// Interrupts that a host takes and steps that its processes begin at one moment, at most: more is a
/// program that never lets time pass.
const TURNS_MAX: u32 = if cfg!(test) { 50_000 } else { 50_000_000 };

/// One host of a simulation.
pub struct Host {
    cpu: Cpu,
    pending: Interrupts,
    clock_armed: bool,
    quantum_armed: bool,
    timers_armed: bool,
    number: u16,
    /// The result of the last step of the running process's call, unless it goes on.
    step_result: StepResult,
    processes: Vec<Process>,
    devices: Vec<Option<Device>>,
    hard_pending: VecDeque<HardInterrupt>,
    /// The last process that had the CPU.
    last_process: Option<ProcessIndex>,
    scheduler: Scheduler,
    machine: Machine,
    meter: Meter,
    stack: Stack,
    name: String,
    counters: BTreeMap<u32, u32>,
    /// The list of its kernel's probes, if that has an end.
    probe_list: Option<ProbeList>,
    /// The age of the clock and of both timers at time 0.
    clock_since_ns: u64,
}

/// The time at which a host stopped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pause {
    pub(crate) now_ns: u64,
    /// It went on without end at one moment, and would still.
    pub(crate) is_stuck: bool,
}

impl Host {
    pub(crate) fn new(number: u16, config: HostConfig, seed: u64) -> Self {
        let mut random = Random::new(seed, 0x0a00 + u64::from(number));
        let fast_ns = random.below(FAST_TIMER_NS);
        let frames_max = device::frames_max(&config.machine);
        let device = |link| Device::new(link, frames_max);
        let devices = config.links.iter().map(|link| link.map(device)).collect();
        let clock_ns = config.machine.cpu.clock_ns;
        let mut stack = config.stack;
        if stack.initial_sequence == 0 {
            stack.initial_sequence = random.next_u64() as u32;
        }
        let drawn_ns = fast_ns + FAST_TIMER_NS * random.below(TIMERS_NS / FAST_TIMER_NS);
        for interface in &mut stack.interfaces {
            interface.device_frames_max = frames_max;
        }
        // Timers are timeouts, which the clock counts: it ticks when they do.
        let clock_since_ns = TIMERS_NS - config.timer_phase_ns.unwrap_or(drawn_ns) % TIMERS_NS;
        Self {
            name: config.name,
            number,
            meter: new_meter(&config.machine, config.is_profiled, config.probes),
            probe_list: config.probes.and_then(|it| it.list_records).map(ProbeList::new),
            machine: config.machine,
            cpu: Cpu::new(config.personality.interface.masks_devices),
            stack: Stack::new(config.personality, stack),
            scheduler: if config.is_round_robin {
                Scheduler::round_robin(clock_since_ns)
            } else {
                Scheduler::new(clock_since_ns)
            },
            processes: Vec::new(),
            step_result: StepResult::Continue,
            last_process: None,
            counters: BTreeMap::new(),
            devices,
            hard_pending: VecDeque::new(),
            pending: Interrupts::default(),
            clock_since_ns,
            timers_armed: false,
            quantum_armed: false,
            // A clock that takes no time need not tick.
            clock_armed: clock_ns == 0,
        }
    }

    /// As in its configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its kernel.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Calls and CPU time of each routine since the start.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Its machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Its scheduler.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// CPU time used at each level so far, without the segments under way: process, soft, hard.
    /// Nanoseconds.
    pub fn cpu_used_ns(&self) -> [u64; LEVELS] {
        self.cpu.used_ns
    }

    /// Whether nothing is under way on it but sleeping processes.
    pub(crate) fn is_quiet(&self) -> bool {
        self.cpu.is_idle()
            && self.hard_pending.is_empty()
            && !self.pending.has(Interrupts::NET)
            && self.devices.iter().flatten().all(Device::is_idle)
    }

    /// The time of its CPU's next effect or end; `u64::MAX` when it has nothing to do.
    pub(crate) fn next_ns(&self) -> u64 {
        self.cpu.next_ns()
    }

    /// Carries out all that is due now. Goes on while this CPU has an effect or end before
    /// `limit_ns`, before the next event and before the end of the run.
    pub(crate) fn run_until(
        &mut self,
        start_ns: u64,
        limit_ns: u64,
        shared: &mut Shared,
        observer: &mut dyn Observer,
    ) -> Pause {
        let mut now_ns = start_ns;
        let mut turns = 0;
        while turns < TURNS_MAX {
            if self.take_waiting(now_ns, shared) {
                turns += 1;
                continue;
            }
            let due_ns = self.cpu.next_ns();
            if due_ns <= now_ns {
                self.go_on(now_ns, shared);
            } else if self.cpu.is_idle() && self.advance_process(now_ns, shared) {
                shared.observed.limit(observer);
                turns += 1;
            } else {
                if !self.cpu.is_idle() {
                    self.arm_clock(now_ns, shared);
                }
                if due_ns >= limit_ns || shared.is_beyond(due_ns) {
                    return Pause { now_ns, is_stuck: false };
                }
                (now_ns, turns) = (due_ns, 0);
            }
        }
        Pause { now_ns, is_stuck: true }
    }

    fn segment_ended(&mut self, now_ns: u64, end: End, shared: &mut Shared) {
        match end {
            End::Nothing | End::Switched => {}
            End::Transmit(interface, frame) => self.transmit(now_ns, interface, frame, shared),
            End::Step => self.step_ended(now_ns, shared),
            End::Computed => self.computed(),
        }
    }

    /// The first pending interrupt that is allowed now takes the CPU.
    fn take_waiting(&mut self, now_ns: u64, shared: &mut Shared) -> bool {
        let waiting = self.pending.among(self.cpu.lets_in());
        if waiting.has(Interrupts::HARD) {
            self.take_hard_interrupt(now_ns, shared);
            return true;
        }
        waiting.has(Interrupts::SOFT) && self.soft_interrupt(now_ns)
            || waiting.has(Interrupts::RESCHEDULE) && self.preempt_user(now_ns, shared)
    }

    fn take_hard_interrupt(&mut self, now_ns: u64, shared: &mut Shared) {
        assert!(!self.hard_pending.is_empty(), "an interrupt is pending that is not queued");
        let interrupt = self.hard_pending.pop_front();
        if self.hard_pending.is_empty() {
            self.pending.take(Interrupts::HARD);
        }
        if self.cpu.is_in_user_mode() {
            self.meter.cache_filled();
        }
        if let Some(interrupt) = interrupt {
            self.hard_interrupt(now_ns, interrupt, shared);
        }
    }

    /// An interrupt of a device or of the clock is pending from now on.
    fn interrupt(&mut self, interrupt: HardInterrupt) {
        self.hard_pending.push_back(interrupt);
        self.pending.add(Interrupts::HARD);
    }

    /// `splnet` before `softclock`; whether there was something to do.
    fn soft_interrupt(&mut self, now_ns: u64) -> bool {
        if !self.pending.has(Interrupts::NET) {
            self.tick(now_ns);
            return true;
        }
        if self.stack.ends_input() {
            self.pending.take(Interrupts::NET);
            return false;
        }
        self.input_packet(now_ns)
    }

    /// One packet of the IP input queue, which has one.
    fn input_packet(&mut self, now_ns: u64) -> bool {
        self.meter.begin();
        let mark = self.stack.next_input().and_then(|packet| packet.mark);
        let mark = self.stack.seen(mark);
        if let Some(mark) = mark {
            // The first packet waits until the interrupt has been dispatched.
            let dispatch_ns = u64::from(self.machine.costs.of(Routine::Ipintr).call_ns);
            let at_ns = if self.stack.is_draining() { 0 } else { dispatch_ns };
            self.meter.effect_at(at_ns, Effect::Observed(mark.record(Point::InputDequeue)));
        }
        self.meter.charge_probe(Point::InputDequeue, mark.is_some());
        self.stack.ip_input_step(&mut self.meter);
        self.begin_step(now_ns, Level::Soft, Mask::Soft, End::Nothing);
        true
    }

    /// `softclock`: a timer of the protocols.
    fn tick(&mut self, now_ns: u64) {
        self.meter.begin();
        if self.pending.take(Interrupts::FAST) {
            self.stack.fasttimo(&mut self.meter);
        } else if self.pending.take(Interrupts::SLOW) {
            self.stack.slowtimo(&mut self.meter);
        }
        self.begin_step(now_ns, Level::Soft, Mask::Soft, End::Nothing);
    }

    /// The step that the meter holds begins.
    fn begin_step(&mut self, now_ns: u64, level: Level, mask: Mask, end: End) {
        self.cpu.begin_step(now_ns, level, mask, &mut self.meter, end);
    }

    /// The protocol timers tick.
    pub(crate) fn timers(&mut self, now_ns: u64, shared: &mut Shared) {
        assert!(self.timers_armed, "the timers tick that were not armed");
        self.timers_armed = false;
        let since_ns = now_ns + self.clock_since_ns;
        if since_ns.is_multiple_of(FAST_TIMER_NS) {
            self.pending.add(Interrupts::FAST);
        }
        if since_ns.is_multiple_of(SLOW_TIMER_NS) {
            self.pending.add(Interrupts::SLOW);
        }
        if self.stack.sockets.iter().next().is_some() {
            self.arm_timers(now_ns, shared);
        }
    }

    /// Schedules the next tick of the timers, if anything can need it.
    fn arm_timers(&mut self, now_ns: u64, shared: &mut Shared) {
        if self.timers_armed {
            return;
        }
        self.timers_armed = true;
        let fast_ns = self.next_of(FAST_TIMER_NS, now_ns);
        let tick_ns = fast_ns.min(self.next_of(SLOW_TIMER_NS, now_ns));
        shared.events.schedule(tick_ns, Event::Timers(self.number));
    }

    /// The next time of an event with this period since the host was switched on: its clock, and all
    /// that counts its ticks.
    fn next_of(&self, period_ns: u64, now_ns: u64) -> u64 {
        let since_ns = now_ns.saturating_add(self.clock_since_ns);
        (since_ns / period_ns + 1).saturating_mul(period_ns) - self.clock_since_ns
    }

    /// The clock ticks: it interrupts the running segment. An idle CPU need not learn of it.
    pub(crate) fn clock_ticked(&mut self) {
        assert!(self.clock_armed, "the clock ticks that was not armed");
        self.clock_armed = false;
        if !self.cpu.is_idle() {
            self.interrupt(HardInterrupt::Clock);
        }
    }

    /// While the CPU is in use, the next tick of the clock will interrupt it.
    fn arm_clock(&mut self, now_ns: u64, shared: &mut Shared) {
        if !self.clock_armed {
            self.clock_armed = true;
            shared.events.schedule(self.next_of(TICK_NS, now_ns), Event::Clock(self.number));
        }
    }

    /// A quantum is over.
    pub(crate) fn quantum_over(&mut self) {
        assert!(self.quantum_armed, "a quantum ends that was not armed");
        self.quantum_armed = false;
        self.scheduler.quantum_over();
        self.pending.add(Interrupts::RESCHEDULE);
    }

    /// While a process waits for the CPU, processes take turns.
    pub(crate) fn arm_quantum(&mut self, now_ns: u64, shared: &mut Shared) {
        if !self.quantum_armed && self.scheduler.somebody_waits() {
            self.quantum_armed = true;
            shared.events.schedule(self.next_of(QUANTUM_NS, now_ns), Event::Quantum(self.number));
        }
    }
}

fn new_meter(machine: &Machine, is_profiled: bool, probes: Option<ProbeConfig>) -> Meter {
    let mut meter = Meter::new(machine.costs.clone());
    if is_profiled {
        meter.profile(machine.cpu.count_ns);
    }
    meter.cache_miss(machine.cpu.refill_percent);
    if let Some(probes) = probes {
        meter.add_probes(machine.cpu.probe_costs(), probes.is_idle, probes.free_records());
    }
    meter
}
