//! The process level: programs, their system calls, and the choice of the next process.

use sockscope_record::{Kind, Record};
use sockscope_stack::{
    AcceptCall, Channel, ConnectCall, Effect, ReceiveCall, SendCall, SocketError,
};

use super::Host;
use crate::cpu::{End, Level, Mask};
use crate::event::Event;
use crate::interrupts::Interrupts;
use crate::process::{Awaited, Call, Process, ProcessId, StepResult};
use crate::program::{Action, Answer, Data, ProgramContext};
use crate::scheduler::{PSLEP, PSOCK, ProcessIndex, TICK_NS};
use crate::shared::Shared;
use crate::sink::{Activity, ActivityState};

impl Host {
    /// A new process that begins at `start_ns`.
    pub(crate) fn spawn(
        &mut self,
        start_ns: u64,
        process: Process,
        nice: u8,
        shared: &mut Shared,
    ) -> ProcessId {
        let index = self.scheduler.spawn(nice);
        let awaited = Some(Awaited::Time);
        self.processes.push(Process { awaited, wake_ns: start_ns, ..process });
        let id = ProcessId { host: usize::from(self.number), index };
        shared.events.schedule(start_ns, Event::Wake { host: self.number, process: index });
        id
    }

    /// A process has slept, or waited for a datagram, long enough.
    pub(crate) fn time_is_up(&mut self, now_ns: u64, index: ProcessIndex, shared: &mut Shared) {
        let process = &mut self.processes[index];
        let is_limited = matches!(process.call, Some(Call::ReceiveWithin(_)));
        let is_due = process.wake_ns == now_ns;
        match process.awaited {
            Some(Awaited::Time) if is_due => {}
            Some(Awaited::Channel(_)) if is_due && is_limited => {
                // It sleeps, so that it holds no lock of the buffer.
                process.call = None;
                process.answer = Answer::Failed(SocketError::TimedOut);
                process.awaited = Some(Awaited::Time);
            }
            _ => return,
        }
        self.wake_process(now_ns, index, shared);
    }

    /// On the way back to user mode, or in it, a better process takes the CPU, if there is one.
    pub(super) fn preempt_user(&mut self, now_ns: u64, shared: &mut Shared) -> bool {
        if !self.scheduler.must_reschedule() {
            return false;
        }
        let left_ns = self.cpu.preempt(now_ns);
        if let Some(process) = self.scheduler.running() {
            self.processes[process].compute_ns = left_ns;
        }
        self.give_up(now_ns, shared);
        true
    }

    fn give_up(&mut self, now_ns: u64, shared: &mut Shared) {
        if let Some(index) = self.scheduler.running() {
            self.scheduler.give_up(now_ns);
            self.processes[index].ready_ns = now_ns;
            self.activity(now_ns, index, ActivityState::Ready, shared);
            self.arm_quantum(now_ns, shared);
        }
    }

    fn activity(
        &self,
        now_ns: u64,
        index: ProcessIndex,
        state: ActivityState,
        shared: &mut Shared,
    ) {
        let process = self.processes[index].number;
        shared.activity(Activity { at_ns: now_ns, process, state });
    }

    /// Nothing is on the CPU: the running process goes on, or another one gets its turn. `false`
    /// when no process wants it.
    pub(super) fn advance_process(&mut self, now_ns: u64, shared: &mut Shared) -> bool {
        let Some(index) = self.scheduler.running() else { return self.switch(now_ns, shared) };
        if self.processes[index].call.is_some() {
            self.step_call(now_ns, index, shared);
        } else if let Some(counter) = self.processes[index].takes {
            self.take_counter(now_ns, index, counter, shared);
        } else if self.scheduler.must_reschedule() {
            self.give_up(now_ns, shared);
        } else if self.processes[index].compute_ns > 0 {
            let compute_ns = self.processes[index].compute_ns;
            self.cpu.begin(now_ns, Level::Process, Mask::User, compute_ns, End::Computed);
        } else if self.processes[index].is_exiting {
            self.exit(now_ns, index, shared);
        } else {
            self.ask_program(now_ns, index, shared);
        }
        true
    }

    /// The best process gets the CPU.
    fn switch(&mut self, now_ns: u64, shared: &mut Shared) -> bool {
        let Some(index) = self.scheduler.pick(now_ns) else { return false };
        self.pending.take(Interrupts::RESCHEDULE);
        let process = &mut self.processes[index];
        let goes_on = self.last_process.replace(index) == Some(index) && !process.has_slept;
        process.has_slept = false;
        let switch_ns = if goes_on { 0 } else { self.machine.cpu.switch_ns };
        process.run_ns = now_ns + switch_ns;
        process.waited_ns += process.run_ns - process.ready_ns;
        let number = process.number;
        let run = process.woken_by.take().map(|(flow, offset)| {
            let kind = Kind::Run;
            let run = Record { kind, flow, offset, thread: number, ..Record::default() };
            Effect::Observed(run)
        });
        self.activity(now_ns, index, ActivityState::Running, shared);
        self.cpu.begin(now_ns, Level::Process, Mask::None, switch_ns, End::Switched);
        if let Some(run) = run {
            self.cpu.ends_with(run);
        }
        true
    }

    fn step_call(&mut self, now_ns: u64, index: ProcessIndex, shared: &mut Shared) {
        self.meter.begin();
        let process = &mut self.processes[index];
        let mut end = End::Nothing;
        let mask = loop {
            let (mask, result) = process.step(&mut self.stack, &shared.payload, &mut self.meter);
            if result != StepResult::Continue {
                self.step_result = result;
                end = End::Step;
                break mask;
            }
            // Steps that take no time and have no effect need no segments of their own.
            if self.meter.elapsed_ns() > 0 || !self.meter.effects().is_empty() {
                break mask;
            }
        };
        if let Some((id, to)) = process.unnamed {
            self.name_datagrams(index, (id, to), shared);
        }
        self.begin_step(now_ns, Level::Process, mask, end);
    }

    /// A step of the running process's call has taken its time.
    pub(super) fn step_ended(&mut self, now_ns: u64, shared: &mut Shared) {
        let Some(index) = self.scheduler.running() else { return };
        match self.step_result {
            StepResult::Continue => {}
            StepResult::Sleep(channel) => {
                if let Channel::Connection(id) = channel {
                    self.name_flow(id, shared);
                }
                if self.is_late(now_ns, index) {
                    // Its wake-up happened while it was awake, and does not happen again.
                    self.finish_call(index, Answer::Failed(SocketError::TimedOut));
                } else {
                    self.sleep(now_ns, index, Awaited::Channel(channel), PSOCK, shared);
                }
            }
            StepResult::Done(answer) => {
                let call = &self.processes[index].call;
                let was_connect = matches!(call, Some(Call::Connect(_)));
                if let Some(Call::ReadProbes(records)) = *call {
                    self.free_probe_records(records, now_ns, shared);
                }
                self.finish_call(index, answer);
                if was_connect {
                    self.name_sockets(index, shared);
                }
            }
        }
    }

    /// The call returns to its program.
    fn finish_call(&mut self, index: ProcessIndex, answer: Answer) {
        let process = &mut self.processes[index];
        process.answer = answer;
        process.compute_ns = self.machine.cpu.user_ns;
        process.call = None;
    }

    /// Whether the process is about to wait for a datagram when the time that it waits is up.
    fn is_late(&self, now_ns: u64, index: ProcessIndex) -> bool {
        let process = &self.processes[index];
        matches!(process.call, Some(Call::ReceiveWithin(_))) && process.wake_ns <= now_ns
    }

    fn name_sockets(&self, index: ProcessIndex, shared: &mut Shared) {
        for id in &self.processes[index].sockets {
            self.name_flow(*id, shared);
        }
    }

    pub(super) fn computed(&mut self) {
        if let Some(index) = self.scheduler.running() {
            self.processes[index].compute_ns = 0;
        }
    }

    fn sleep(
        &mut self,
        now_ns: u64,
        index: ProcessIndex,
        awaited: Awaited,
        priority: u8,
        shared: &mut Shared,
    ) {
        assert_eq!(self.scheduler.running(), Some(index), "a process sleeps that does not run");
        self.processes[index].awaited = Some(awaited);
        self.processes[index].has_slept = true;
        self.scheduler.sleep(now_ns, priority);
        self.activity(now_ns, index, ActivityState::Asleep, shared);
    }

    /// The process is in user mode: its program gives the next action.
    fn ask_program(&mut self, now_ns: u64, index: ProcessIndex, shared: &mut Shared) {
        let Process { program, answer, from, number, buffer, read_bytes, .. } =
            &mut self.processes[index];
        let mut context = ProgramContext {
            now_ns,
            answer: *answer,
            from: *from,
            process: *number,
            data: &buffer[..*read_bytes],
            payload: &shared.payload,
            notes: &mut shared.notes,
            damage: &mut shared.damage,
        };
        let action = program.next(&mut context);
        self.act(now_ns, index, action, shared);
    }

    fn act(&mut self, now_ns: u64, index: ProcessIndex, action: Action, shared: &mut Shared) {
        match action {
            Action::Write(id, data) => {
                make_payload(&data, shared);
                let call = SendCall::write(id, data.len());
                self.processes[index].call = Some(Call::Send(call, data));
            }
            Action::WriteUrgent(id, data) => {
                make_payload(&data, shared);
                let call = SendCall::urgent(id, data.len());
                self.processes[index].call = Some(Call::Send(call, data));
            }
            Action::SendTo(id, to, data) => {
                make_payload(&data, shared);
                self.log_datagrams(now_ns, index, (id, to), shared);
                let call = SendCall::send_to(id, data.len(), to);
                self.processes[index].call = Some(Call::Send(call, data));
            }
            Action::Read(id, len) => {
                self.processes[index].make_room(len);
                self.processes[index].call = Some(Call::Receive(ReceiveCall::read(id, len)));
            }
            Action::ReceiveFrom(id, len) => {
                let call = ReceiveCall::receive_from(id, len);
                self.processes[index].make_room(len);
                self.processes[index].call = Some(Call::Receive(call));
            }
            other => match self.act_otherwise(now_ns, index, other, shared) {
                Some(call) => self.processes[index].call = Some(call),
                None => return,
            },
        }
        self.arm_timers(now_ns, shared);
    }

    /// An action that moves no data: the system call that it makes, if it makes one.
    fn act_otherwise(
        &mut self,
        now_ns: u64,
        index: ProcessIndex,
        action: Action,
        shared: &mut Shared,
    ) -> Option<Call> {
        let call = match action {
            Action::Connect(id, to) => {
                self.log_on_connect(now_ns, id, shared);
                Call::Connect(ConnectCall::new(id, to))
            }
            Action::Accept(id) => Call::Accept(AcceptCall::new(id)),
            Action::ReadProbes => Call::ReadProbes(self.probe_records()),
            Action::ReceiveWithin(id, len, ns) => {
                self.wake_after(now_ns, index, ns, shared);
                self.processes[index].make_room(len);
                Call::ReceiveWithin(ReceiveCall::receive_from(id, len))
            }
            Action::Sleep(ns) => {
                self.sleep_for(now_ns, index, ns, shared);
                return None;
            }
            Action::Compute(ns) => {
                let process = &mut self.processes[index];
                process.answer = Answer::Done(0);
                process.compute_ns = ns;
                return None;
            }
            Action::Post(counter) => {
                *self.counters.entry(counter).or_default() += 1;
                self.processes[index].answer = Answer::Done(0);
                self.wake_up(now_ns, Awaited::Counter(counter), shared);
                return None;
            }
            Action::Take(counter) => {
                self.take_counter(now_ns, index, counter, shared);
                return None;
            }
            Action::Log(id) => {
                self.log(now_ns, id, shared);
                self.processes[index].answer = Answer::Done(0);
                return None;
            }
            Action::Converted(id, conversion) => {
                self.tell_conversion(now_ns, (index, id), conversion, shared);
                self.processes[index].answer = Answer::Done(0);
                return None;
            }
            Action::Exit => {
                self.exit(now_ns, index, shared);
                return None;
            }
            simple => Call::Simple(simple),
        };
        Some(call)
    }

    fn sleep_for(&mut self, now_ns: u64, index: ProcessIndex, ns: u64, shared: &mut Shared) {
        self.wake_after(now_ns, index, ns, shared);
        self.processes[index].answer = Answer::Done(0);
        self.sleep(now_ns, index, Awaited::Time, PSLEP, shared);
    }

    /// `timeout`: so many nanoseconds from now, when the clock ticks, the time is up.
    fn wake_after(&mut self, now_ns: u64, index: ProcessIndex, ns: u64, shared: &mut Shared) {
        // A tick at that very time counts.
        let wake_ns = self.next_of(TICK_NS, now_ns.saturating_add(ns).saturating_sub(1));
        shared.events.schedule(wake_ns, Event::Wake { host: self.number, process: index });
        self.processes[index].wake_ns = wake_ns;
    }

    /// Stays in the same action until the counter has something to take.
    fn take_counter(
        &mut self,
        now_ns: u64,
        index: ProcessIndex,
        counter: u32,
        shared: &mut Shared,
    ) {
        let count = self.counters.entry(counter).or_default();
        if *count > 0 {
            *count -= 1;
            let process = &mut self.processes[index];
            process.answer = Answer::Done(0);
            process.awaited = None;
            process.takes = None;
        } else {
            self.processes[index].takes = Some(counter);
            self.sleep(now_ns, index, Awaited::Counter(counter), PSLEP, shared);
        }
    }

    /// The process ends: its sockets are closed one by one, then it is gone.
    fn exit(&mut self, now_ns: u64, index: ProcessIndex, shared: &mut Shared) {
        let process = &mut self.processes[index];
        if let Some(id) = process.sockets.pop() {
            process.call = Some(Call::Simple(Action::Close(id)));
            process.is_exiting = true;
            return;
        }
        process.is_gone = true;
        if !process.is_daemon {
            shared.worker_ended();
        }
        assert_eq!(self.scheduler.running(), Some(index), "a process ends that does not run");
        self.scheduler.exit(now_ns);
        self.activity(now_ns, index, ActivityState::Gone, shared);
    }
}

fn make_payload(data: &Data, shared: &mut Shared) {
    if let Data::Payload { len, .. } = data {
        shared.payload.make_room(*len);
    }
}
