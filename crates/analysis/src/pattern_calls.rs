//! The calls of the programs of a connection that moved bytes, from its records.

use std::collections::HashMap;

use sockscope_record::{Kind, Point, Record, Side};

use crate::pattern::{Action, NoPattern, median};
use crate::socket_layers;
use crate::{ConnectionStore, FlowStore, Passage};

/// A call with its times; nanoseconds of the trace's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub action: Action,
    /// Number of the connection in the pattern.
    pub connection: u32,
    pub thread: u32,
    /// A write began. The begin of a read is not recorded: here it returned, without the kernel's work for others.
    pub start_ns: u64,
    pub end_ns: u64,
    pub offset: u64,
    pub bytes: u64,
    /// Of a read of a stream: its thread waited for a CPU before it.
    pub cpu_wait: CpuWait,
}

/// A wait for a CPU.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CpuWait {
    /// Time that the thread was runnable without a CPU since its read before, at least.
    waited_ns: u64,
    /// When it last got its CPU; 0 where that is not known.
    ran_ns: u64,
}

impl Call {
    /// Time that its thread was runnable without a CPU since then, where it got its CPU after that.
    pub fn waited_for_cpu_ns(&self, since_ns: u64) -> u64 {
        self.cpu_wait.waited_ns.min(self.cpu_wait.ran_ns.saturating_sub(since_ns))
    }

    /// The position after its bytes.
    pub fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

/// The calls of one side that moved bytes, by start.
pub(crate) fn calls(
    store: &ConnectionStore,
    connection: u32,
    side: Side,
) -> Result<Vec<Call>, NoPattern> {
    if socket_layers::is_at(store, side) {
        return Err(NoPattern::UnseenSide(side));
    }
    let (sent, received) = (store.flow(side.sends()), store.flow(side.other().sends()));
    let mut calls = match store.connection.protocol.is_stream() {
        false => {
            let mut calls = datagrams(sent, Point::SendEnqueue, Action::Write);
            calls.extend(datagrams(received, Point::ReceiveDequeue, Action::Read));
            calls
        }
        true => {
            let mut calls = writes(sent);
            calls.extend(reads(received));
            calls
        }
    };
    for action in [Action::Write, Action::Read] {
        let mut own: Vec<_> = calls.iter().filter(|call| call.action == action).collect();
        own.sort_by_key(|call| call.offset);
        let touch = |pair: &[&Call]| pair[0].end() == pair[1].offset;
        let begins =
            own.first().is_none_or(|first| first.offset == 0 || store.connection.preexisting);
        if !begins || !own.windows(2).all(touch) {
            return Err(NoPattern::MissedCalls(side));
        }
    }
    calls.iter_mut().for_each(|call| call.connection = connection);
    calls.sort_by_key(|call| (call.start_ns, call.end_ns));
    Ok(calls)
}

/// A call of a datagram, which has no record of its return: it takes no time.
fn datagrams(flow: &FlowStore, point: Point, action: Action) -> Vec<Call> {
    let passes = flow.at(point).iter().filter(|pass| pass.len > 0);
    let call = |pass: &Passage| Call {
        action,
        connection: 0,
        thread: pass.thread,
        start_ns: pass.at_ns,
        end_ns: pass.at_ns,
        offset: pass.offset,
        bytes: pass.len.into(),
        cpu_wait: CpuWait::default(),
    };
    passes.map(call).collect()
}

fn writes(flow: &FlowStore) -> Vec<Call> {
    let mut begun: HashMap<u32, u64> = HashMap::new();
    let mut writes = Vec::new();
    for event in &flow.events {
        match event.kind {
            // A call that waited for room may be announced again.
            Kind::WriteCall => drop(begun.entry(event.thread).or_insert(event.at_ns)),
            Kind::WriteReturn => {
                let start_ns = begun.remove(&event.thread).unwrap_or(event.at_ns);
                writes.extend(call(event, Action::Write, start_ns));
            }
            _ => {}
        }
    }
    writes
}

/// After a read took its bytes, the kernel acknowledges them. Over loopback it may then make the whole way of the next
/// segments in this call, which takes longer than the read. It is no time of the program, and a later run has its own.
fn reads(flow: &FlowStore) -> Vec<Call> {
    let mut dequeues = flow.at(Point::ReceiveDequeue).iter().peekable();
    let mut waits = CpuWaits::of(flow);
    let mut reads = Vec::new();
    let mut rests_ns = Vec::new();
    for event in flow.events_of(Kind::ReadReturn) {
        let end = event.offset + u64::from(event.len);
        let first = dequeues.peek().filter(|pass| pass.thread == event.thread);
        let cpu_wait =
            first.map_or_else(CpuWait::default, |first| waits.before(first, event.at_ns));
        while dequeues.next_if(|pass| pass.end() < end).is_some() {}
        let own = dequeues.peek().filter(|pass| {
            (pass.end(), pass.thread) == (end, event.thread) && pass.at_ns <= event.at_ns
        });
        let rest_ns = own.map(|pass| event.at_ns - pass.at_ns);
        rests_ns.extend(rest_ns);
        let read = call(event, Action::Read, event.at_ns).map(|read| Call { cpu_wait, ..read });
        reads.extend(read.map(|read| (read, rest_ns)));
        dequeues.next_if(|pass| pass.end() == end);
    }
    let usual_ns = median(rests_ns).unwrap_or(0);
    let without_work = |(read, rest_ns): (Call, Option<u64>)| Call {
        start_ns: read.end_ns - rest_ns.map_or(0, |rest_ns| rest_ns.saturating_sub(usual_ns)),
        ..read
    };
    reads.into_iter().map(without_work).collect()
}

fn call(event: &Record, action: Action, start_ns: u64) -> Option<Call> {
    let Record { at_ns: end_ns, offset, len, thread, .. } = *event;
    let bytes = u64::from(len);
    (bytes > 0).then_some(Call {
        action,
        connection: 0,
        thread,
        start_ns,
        end_ns,
        offset,
        bytes,
        cpu_wait: CpuWait::default(),
    })
}

/// The waits of readers for a CPU, read by read.
struct CpuWaits<'a> {
    arrivals: &'a [Passage],
    /// Thread, wait and return of the read before.
    before: (u32, u64, u64),
}

impl<'a> CpuWaits<'a> {
    fn of(flow: &'a FlowStore) -> Self {
        Self { arrivals: flow.at(Point::ReceiveEnqueue), before: (0, 0, 0) }
    }

    /// The wait before a read that began with these bytes. A record has the wait since the last read before its bytes
    /// arrived. Where these lay there at the read before, that one's wait has a part of it.
    fn before(&mut self, first: &Passage, returned_ns: u64) -> CpuWait {
        let times = first.reader_times();
        // 1 is no wait.
        let all_ns = times.runnable_ns.map_or(0, |ns| u64::from(ns.get()));
        let all_ns = if all_ns > 1 { all_ns } else { 0 };
        let arrived = self.arrivals.partition_point(|pass| pass.end() <= first.offset);
        let arrived_ns = self.arrivals.get(arrived).map_or(0, |pass| pass.at_ns);
        let (thread, before_ns, end_ns) = self.before;
        let was_there = thread == first.thread && arrived_ns <= end_ns;
        self.before = (first.thread, all_ns, returned_ns);
        let waited_ns = if was_there { all_ns.saturating_sub(before_ns) } else { all_ns };
        CpuWait { waited_ns, ran_ns: times.on_cpu_ns.unwrap_or(0) }
    }
}

/// When each thread moved bytes of connections that are not chosen.
pub(crate) fn elsewhere(stores: &[ConnectionStore], chosen: &[usize]) -> HashMap<u32, Vec<u64>> {
    let mut times: HashMap<u32, Vec<u64>> = HashMap::new();
    let others = stores.iter().enumerate().filter(|(other, _)| !chosen.contains(other));
    for flow in others.flat_map(|(_, store)| &store.flows) {
        for event in flow.events_with(&[Kind::WriteReturn, Kind::ReadReturn]) {
            if matches!(event.kind, Kind::WriteReturn | Kind::ReadReturn) && event.len > 0 {
                times.entry(event.thread).or_default().push(event.at_ns);
            }
        }
    }
    times.values_mut().for_each(|times| times.sort_unstable());
    times
}

/// When data woke the reader, after `since_ns`; `None` where the read did not wait.
pub(crate) fn woken_ns(incoming: &FlowStore, read: &Call, since_ns: u64) -> Option<u64> {
    let events = incoming.events_with(&[Kind::Wakeup]);
    let first = events.partition_point(|event| event.at_ns <= since_ns);
    let later = events[first..].iter().take_while(|event| event.at_ns <= read.end_ns);
    let mut later = later.into_iter();
    let own = later.find(|event| event.kind == Kind::Wakeup && event.thread == read.thread);
    own.map(|event| event.at_ns)
}

/// The position up to which data lay in the receive queue or was read, at this time.
pub(crate) fn arrived(incoming: &FlowStore, at_ns: u64) -> u64 {
    let passes = incoming.at(Point::ReceiveEnqueue);
    let count = passes.partition_point(|pass| pass.at_ns <= at_ns);
    passes[..count].last().map_or(0, |pass| pass.end())
}
