//! A host: one CPU, an interface, and processes that share both.
//!
//! Received packets are processed at the level of interrupts, first in, first out, and so are packets
//! that the protocol sends by itself. Processes run in the order in which they became ready, each
//! until it sleeps: the kernel of these systems takes the CPU from no process that works in it.

use std::collections::VecDeque;

use sockscope_sim::random::Random;
use sockscope_vmtp::wire::Packet;

use super::cpu::Cpu;
use super::frame;
use super::machine::Machine;
use super::process::{Process, Step, Tally};

/// The result of a piece of work.
#[derive(Debug)]
enum Work {
    /// The frame has been taken in.
    Input(Vec<u8>),
    /// The frame is with the interface; a process sent it, or the protocol.
    Output(Vec<u8>),
    /// The running process has done its step.
    Step,
}

/// The sending half of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transmitter {
    /// A frame is on the cable, or waits for it.
    Busy,
    /// It can begin with a frame from this time on.
    From(u64),
}

/// A host of the model.
pub(super) struct Host {
    station: u16,
    machine: Machine,
    cpu: Cpu<Work>,
    processes: Vec<Box<dyn Process>>,
    /// Processes that want the CPU, in order.
    ready: VecDeque<usize>,
    running: Option<usize>,
    /// Frames that wait for the interface.
    send_queue: VecDeque<Vec<u8>>,
    transmitter: Transmitter,
    /// Frames that arrived and wait for the CPU.
    coming_in: usize,
    variation_percent: u64,
    random: Random,
    counts: HostCounts,
}

/// The counts of a host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct HostCounts {
    /// Time of work, in nanoseconds.
    pub cpu_ns: u64,
    /// Frames lost for want of room in the queue to the interface.
    pub dropped_out: u64,
    /// Frames lost for want of room in the interface's ring.
    pub dropped_in: u64,
    /// Frames for a group without a member here.
    pub in_vain: u64,
}

impl Host {
    pub fn new(station: u16, machine: Machine, variation_percent: u32, random: Random) -> Self {
        Self {
            station,
            machine,
            cpu: Cpu::default(),
            processes: Vec::new(),
            ready: VecDeque::new(),
            running: None,
            send_queue: VecDeque::new(),
            transmitter: Transmitter::From(0),
            coming_in: 0,
            variation_percent: variation_percent.into(),
            random,
            counts: HostCounts::default(),
        }
    }

    /// Adds a process, which wants the CPU after [`Host::wake`].
    pub fn add(&mut self, process: Box<dyn Process>) -> usize {
        self.processes.push(process);
        self.processes.len() - 1
    }

    /// A process wants the CPU.
    pub fn wake(&mut self, now_ns: u64, process: usize) -> Result<(), String> {
        if self.running != Some(process) && !self.ready.contains(&process) {
            self.ready.push_back(process);
        }
        self.dispatch(now_ns)
    }

    /// When the CPU is next done with something, the interface can send, or a time limit passes.
    pub fn next_ns(&self) -> u64 {
        self.cpu.next_ns().min(self.timeout_ns()).min(self.offer_ns())
    }

    fn offer_ns(&self) -> u64 {
        match self.transmitter {
            Transmitter::From(from_ns) if !self.send_queue.is_empty() => from_ns,
            _ => u64::MAX,
        }
    }

    fn timeout_ns(&self) -> u64 {
        let idle = self.processes.iter().filter(|process| !process.is_sending());
        idle.map(|process| process.timeout_ns()).min().unwrap_or(u64::MAX)
    }

    /// Carries out all that is due.
    pub fn advance(&mut self, now_ns: u64) -> Result<(), String> {
        if self.cpu.next_ns() > now_ns {
            return if self.timeout_ns() <= now_ns { self.time_out(now_ns) } else { Ok(()) };
        }
        match self.cpu.finish(now_ns) {
            Some(Work::Input(frame)) => self.input(now_ns, &frame)?,
            Some(Work::Output(frame)) => self.queue(frame),
            Some(Work::Step) => {}
            None => return Ok(()),
        }
        self.dispatch(now_ns)
    }

    fn time_out(&mut self, now_ns: u64) -> Result<(), String> {
        for process in 0..self.processes.len() {
            let it = &mut self.processes[process];
            if !it.is_sending() && it.timeout_ns() <= now_ns {
                it.time_out(now_ns);
                self.flush(now_ns, process);
                self.wake_if_needed(now_ns, process)?;
            }
        }
        if self.timeout_ns() <= now_ns {
            return Err(format!("at {now_ns} ns a time limit passes and nothing comes of it"));
        }
        Ok(())
    }

    /// A frame arrived from the cable.
    pub fn arrive(&mut self, now_ns: u64, frame: Vec<u8>) {
        if self.coming_in >= self.machine.interface.receive_ring {
            self.counts.dropped_in += 1;
            return;
        }
        self.coming_in += 1;
        let octets = frame::packet(&frame).map_or(0, |(_, packet)| packet.len());
        let input_ns = self.machine.packet_in_ns(octets);
        self.cpu.interrupt(now_ns, input_ns, Work::Input(frame));
    }

    fn input(&mut self, now_ns: u64, octets: &[u8]) -> Result<(), String> {
        self.coming_in -= 1;
        if frame::is_for_group(octets) && self.processes.is_empty() {
            self.counts.in_vain += 1;
        }
        let Some((from, octets)) = frame::packet(octets) else { return Ok(()) };
        let Ok(packet) = Packet::new(octets) else { return Ok(()) };
        let header = packet.header();
        for process in 0..self.processes.len() {
            if self.processes[process].takes(&header) {
                self.processes[process].handle(now_ns, from, octets);
                self.flush(now_ns, process);
                self.wake_if_needed(now_ns, process)?;
            }
        }
        Ok(())
    }

    fn wake_if_needed(&mut self, now_ns: u64, process: usize) -> Result<(), String> {
        let is_awake = self.processes[process].is_awake();
        if is_awake { self.wake(now_ns, process) } else { Ok(()) }
    }

    /// Sends, at the level of interrupts, the packets that the process does not send itself.
    fn flush(&mut self, now_ns: u64, process: usize) {
        if self.processes[process].is_sending() {
            return;
        }
        while let Some((to, packet)) = self.processes[process].transmit(now_ns) {
            let output_ns = self.machine.packet_out_ns(packet.len());
            let frame = frame::frame(self.station, to, &packet);
            self.cpu.interrupt(now_ns, output_ns, Work::Output(frame));
        }
    }

    /// Lets the process that has the CPU go on, or the next one.
    fn dispatch(&mut self, now_ns: u64) -> Result<(), String> {
        while !self.cpu.has_process() {
            let Some(process) = self.running.or_else(|| self.ready.pop_front()) else {
                return Ok(());
            };
            self.running = Some(process);
            match self.processes[process].step(now_ns, &self.machine)? {
                Step::Work(len_ns) => {
                    let len_ns = self.vary(len_ns);
                    self.cpu.work(now_ns, len_ns, Work::Step);
                }
                Step::Send(to, packet) => {
                    let output_ns = self.machine.packet_out_ns(packet.len());
                    let frame = frame::frame(self.station, to, &packet);
                    self.cpu.work(now_ns, output_ns, Work::Output(frame));
                }
                Step::Sleep => {
                    self.running = None;
                    if self.processes[process].is_awake() {
                        self.ready.push_back(process);
                    }
                }
            }
        }
        Ok(())
    }

    fn vary(&mut self, len_ns: u64) -> u64 {
        let most_ns = len_ns * self.variation_percent / 100;
        len_ns - most_ns + self.random.below(2 * most_ns + 1)
    }

    fn queue(&mut self, frame: Vec<u8>) {
        if self.send_queue.len() >= self.machine.interface.send_queue {
            self.counts.dropped_out += 1;
        } else {
            self.send_queue.push_back(frame);
        }
    }

    /// The frame that the interface sends now, if it can and there is one.
    pub fn offer(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        if self.offer_ns() > now_ns {
            return None;
        }
        self.transmitter = Transmitter::Busy;
        self.send_queue.pop_front()
    }

    /// The interface's frame has gone.
    pub fn sent(&mut self, now_ns: u64) {
        let turn_ns = self.machine.interface.turn_us * 1000;
        self.transmitter = Transmitter::From(now_ns + turn_ns);
    }

    pub fn counts(&self) -> HostCounts {
        HostCounts { cpu_ns: self.cpu.used_ns(), ..self.counts }
    }

    pub fn tallies(&self) -> impl Iterator<Item = Tally> {
        self.processes.iter().map(|process| process.tally())
    }
}
