//! The effects of a running segment: records, packets, wake-ups.

use sockscope_record::{FlowId, Kind, ReaderTimes, Record, Side, marks};
use sockscope_stack::{Channel, Effect};

use super::Host;
use crate::cpu::Level;
use crate::interrupts::Interrupts;
use crate::process::Awaited;
use crate::scheduler::ProcessIndex;
use crate::shared::Shared;
use crate::sink::{Activity, ActivityState};

impl Host {
    /// Carries out the next effect of the running segment, or its end.
    pub(super) fn go_on(&mut self, now_ns: u64, shared: &mut Shared) {
        let Some(effect) = self.cpu.next_effect() else {
            let end = self.cpu.finish(now_ns);
            return self.segment_ended(now_ns, end, shared);
        };
        match effect {
            Effect::Observed(record) => {
                let mut record = *record;
                let side = self.fill_in_thread(&mut record);
                self.hand_over(now_ns, record, shared);
                let Record { flow, thread, .. } = record;
                if let Some(side) = side {
                    shared.see_process(flow, side, thread);
                } else if let Some(change) = record.state_change() {
                    shared.see_state(now_ns, flow, change.new);
                }
            }
            Effect::Output { interface, packet } => {
                let (interface, packet) = (*interface, packet.take());
                let level = self.cpu.level().unwrap_or(Level::Process);
                self.output(now_ns, level, interface, packet, shared);
            }
            Effect::LoopbackInput { interface, packet } => {
                let (interface, packet) = (*interface, packet.take());
                let level = self.cpu.level().unwrap_or(Level::Process);
                self.loop_back(now_ns, level, interface, packet, shared);
            }
            Effect::Wakeup(channel) => {
                let awaited = Awaited::Channel(*channel);
                self.wake_up(now_ns, awaited, shared);
            }
            Effect::SoftInterrupt => self.pending.add(Interrupts::NET),
        }
    }

    /// Fills in the process of a record; returns the side of the connection on which it works,
    /// where the record shows it.
    fn fill_in_thread(&mut self, record: &mut Record) -> Option<Side> {
        match record.kind {
            Kind::SendEnqueue | Kind::WriteCall => {
                record.thread = self.running_thread();
                return Some(record.flow.direction().sender());
            }
            Kind::ReceiveDequeue => {
                self.fill_in_reader(record);
                return Some(record.flow.direction().receiver());
            }
            Kind::WriteReturn | Kind::ReadReturn | Kind::SocketOption => {
                record.thread = self.running_thread();
            }
            Kind::ReceiveEnqueue if record.is_marked(marks::WAITED_FOR) => {
                record.thread = self.waiting_thread(record.flow);
            }
            _ => {}
        }
        None
    }

    fn running_thread(&self) -> u32 {
        self.scheduler.running().map_or(0, |process| self.processes[process].number)
    }

    /// At a copy to the reader: the time when it got the CPU, and its wait for it.
    fn fill_in_reader(&mut self, record: &mut Record) {
        let Some(process) = self.scheduler.running() else { return };
        let process = &mut self.processes[process];
        let waited_ns = std::mem::take(&mut process.waited_ns);
        record.thread = process.number;
        *record = record.with_reader_times(ReaderTimes::new(process.run_ns, waited_ns));
    }

    /// The process that sleeps until this flow brings data.
    fn waiting_thread(&self, flow: FlowId) -> u32 {
        let waits = |awaited: Option<Awaited>| match awaited {
            Some(Awaited::Channel(Channel::Readable(id))) => {
                let socket = self.stack.sockets.find(id);
                socket.is_some_and(|socket| {
                    socket.received_flow() == Some(flow) || socket.is_atomic()
                })
            }
            _ => false,
        };
        let mut processes = self.processes.iter();
        processes.find(|process| waits(process.awaited)).map_or(0, |process| process.number)
    }

    /// Makes the processes that wait for this ready.
    pub(super) fn wake_up(&mut self, now_ns: u64, awaited: Awaited, shared: &mut Shared) {
        for index in 0..self.processes.len() {
            if self.processes[index].awaited == Some(awaited) {
                self.wake_process(now_ns, index, shared);
            }
        }
    }

    pub(super) fn wake_process(&mut self, now_ns: u64, index: ProcessIndex, shared: &mut Shared) {
        let awaited = self.processes[index].awaited.take();
        if !self.scheduler.wakeup(now_ns, index) {
            return;
        }
        self.pending.add(Interrupts::RESCHEDULE);
        let woken_by = match awaited {
            Some(Awaited::Channel(Channel::Readable(id))) => self.stack.sockets.find(id),
            _ => None,
        };
        let woken_by =
            woken_by.and_then(|socket| Some((socket.received_flow()?, socket.rcv.left())));
        let process = &mut self.processes[index];
        process.ready_ns = now_ns;
        process.woken_by = woken_by;
        let number = process.number;
        if let Some((flow, offset)) = woken_by {
            let kind = Kind::Wakeup;
            let woken = Record { kind, flow, offset, thread: number, ..Record::default() };
            self.record(now_ns, woken, shared);
        }
        let state = ActivityState::Ready;
        shared.activity(Activity { at_ns: now_ns, process: number, state });
        self.arm_quantum(now_ns, shared);
    }
}
