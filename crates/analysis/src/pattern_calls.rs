//! The calls of the programs of a connection that moved bytes, from its records.

use std::collections::HashMap;
use std::num::NonZeroU32;

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
    /// Of a call of a stream: its thread waited for a CPU before it.
    pub cpu_wait: CpuWait,
}

/// A wait for a CPU.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CpuWait {
    /// Time that the thread was runnable without a CPU, since its last call up to `since_ns`.
    waited_ns: u64,
    since_ns: u64,
    /// When the thread last got its CPU, at the latest; 0 where that is not known.
    ran_ns: u64,
}

impl Call {
    /// Time that its thread was runnable without a CPU since its call before, at least, and whether it was at all.
    pub fn waited_for_cpu(&self, before: &Call) -> (u64, bool) {
        let CpuWait { waited_ns, since_ns, ran_ns } = self.cpu_wait;
        let latest_ns = waited_ns.min(ran_ns.saturating_sub(before.end_ns));
        // A read of bytes that the read before left counts from that one. Where they lay there at another call
        // before, the wait may be from before that call.
        let is_own = since_ns >= before.end_ns
            || (before.action, before.connection) == (Action::Read, self.connection);
        (if is_own { latest_ns } else { 0 }, latest_ns > 0)
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
    let mut begun: HashMap<u32, (u64, CpuWait)> = HashMap::new();
    let mut writes = Vec::new();
    for event in &flow.events {
        match event.kind {
            // A call that waited for room may be announced again.
            Kind::WriteCall => {
                let waited_ns = known_ns(event.writer_runnable_ns());
                let cpu_wait = CpuWait { waited_ns, since_ns: u64::MAX, ran_ns: event.at_ns };
                begun.entry(event.thread).or_insert((event.at_ns, cpu_wait));
            }
            Kind::WriteReturn => {
                let begun = begun.remove(&event.thread);
                let (start_ns, cpu_wait) = begun.unwrap_or((event.at_ns, CpuWait::default()));
                writes.extend(call(event, Action::Write, start_ns, cpu_wait));
            }
            _ => {}
        }
    }
    writes
}

/// The wait that a record has, where 0 is unknown and 1 is no wait.
fn known_ns(runnable_ns: Option<u32>) -> u64 {
    runnable_ns.filter(|ns| *ns > 1).unwrap_or(0).into()
}

/// After a read took its bytes, the kernel acknowledges them. Over loopback it may then make the whole way of the next
/// segments in this call, which takes longer than the read. It is no time of the program, and a later run has its own.
fn reads(flow: &FlowStore) -> Vec<Call> {
    let mut dequeues = flow.at(Point::ReceiveDequeue).iter().peekable();
    let mut reads = Vec::new();
    let mut rests_ns = Vec::new();
    for event in flow.events_of(Kind::ReadReturn) {
        let end = event.offset + u64::from(event.len);
        let first = dequeues.peek().filter(|pass| pass.thread == event.thread);
        let cpu_wait = first.map_or_else(CpuWait::default, |first| wait_of_read(flow, first));
        while dequeues.next_if(|pass| pass.end() < end).is_some() {}
        let own = dequeues.peek().filter(|pass| {
            (pass.end(), pass.thread) == (end, event.thread) && pass.at_ns <= event.at_ns
        });
        let rest_ns = own.map(|pass| event.at_ns - pass.at_ns);
        rests_ns.extend(rest_ns);
        let read = call(event, Action::Read, event.at_ns, cpu_wait);
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

fn call(event: &Record, action: Action, start_ns: u64, cpu_wait: CpuWait) -> Option<Call> {
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
        cpu_wait,
    })
}

/// The wait for a CPU before a read that began with these bytes. It counts from their arrival, or from the last read
/// that left them.
fn wait_of_read(flow: &FlowStore, first: &Passage) -> CpuWait {
    let times = first.reader_times();
    let [arrivals, reads] = [Point::ReceiveEnqueue, Point::ReceiveDequeue].map(|at| flow.at(at));
    let before = |passes: &[Passage]| passes.partition_point(|pass| pass.end() <= first.offset);
    let arrived_ns = arrivals.get(before(arrivals)).map_or(0, |pass| pass.at_ns);
    let left_ns = reads[..before(reads)].last().map_or(0, |pass| pass.at_ns);
    CpuWait {
        waited_ns: known_ns(times.runnable_ns.map(NonZeroU32::get)),
        since_ns: arrived_ns.max(left_ns),
        ran_ns: times.on_cpu_ns.unwrap_or(0),
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
