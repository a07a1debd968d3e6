//! The table `calls`: writes and reads with their ends, which a recording with `--calls` has.

use std::collections::HashMap;

use sockscope_analysis::FlowStore;
use sockscope_record::{FlowId, Kind, Record};

use crate::column::columns;
use crate::trace::Trace;

/// A call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    flow: FlowId,
    is_write: bool,
    thread: u32,
    start_ns: Option<u64>,
    end_ns: u64,
    offset: u64,
    asked_bytes: Option<u64>,
    bytes: u64,
    error: u8,
}

/// The calls of one flow, by their end.
pub(crate) fn rows(trace: &Trace, part: usize) -> Option<Vec<Call>> {
    let (one, direction) = trace.flow_at(part)?;
    let store = trace.store(one.connection.id);
    Some(store.map(|store| of_flow(store.flow(direction))).unwrap_or_default())
}

fn of_flow(flow: &FlowStore) -> Vec<Call> {
    let mut begun: HashMap<u32, (u64, u32)> = HashMap::new();
    let mut calls = Vec::new();
    for event in flow.events.iter() {
        match event.kind {
            // A call that waited for room may be announced again.
            Kind::WriteCall => {
                begun.entry(event.thread).or_insert((event.at_ns, event.len));
            }
            Kind::WriteReturn => calls.push(ended(event, flow.id, begun.remove(&event.thread))),
            Kind::ReadReturn => calls.push(ended(event, flow.id, None)),
            _ => {}
        }
    }
    calls
}

fn ended(event: &Record, flow: FlowId, begun: Option<(u64, u32)>) -> Call {
    let is_write = event.kind == Kind::WriteReturn;
    // A read's record has the position behind its bytes by `offset` and `len`, as a write's.
    Call {
        flow,
        is_write,
        thread: event.thread,
        start_ns: begun.map(|(at_ns, _)| at_ns),
        end_ns: event.at_ns,
        offset: event.offset,
        asked_bytes: begun.map(|(_, bytes)| bytes.into()),
        bytes: event.len.into(),
        error: event.code,
    }
}

columns! {
    CallColumns "calls", |trace, call: Call| {
        let flow = call.flow;
        let sender = flow.direction().sender();
        let caller = if call.is_write { sender } else { sender.other() };
    }
    connection: Whole "" "Number of the connection" = flow.connection().0.into();
    flow: Whole "" "Flow whose data it moves" = flow.0.into();
    call: Word "" "`write` or `read`" = if call.is_write { "write" } else { "read" };
    side: Word "" "The end that calls: `client` or `server`" = caller.name();
    host: MaybeWhole "" "Number of its host, as in the table `flows`" = trace.host_of(flow.connection(), caller);
    thread: Whole "" "Thread that calls (kernel task id)" = call.thread.into();
    start_ns: MaybeWhole "ns" "Begin, on the clock of the trace; null of reads, whose begin is not recorded" = call.start_ns;
    start: Time "ns" "The same time since 1970 (UTC)" = call.start_ns.and_then(|at_ns| trace.clock.at(at_ns));
    end_ns: Whole "ns" "Return, on the clock of the trace" = call.end_ns;
    end: Time "ns" "The same time since 1970 (UTC)" = trace.clock.at(call.end_ns);
    duration_ns: MaybeWhole "ns" "From begin to return" = call.start_ns.map(|at_ns| call.end_ns.saturating_sub(at_ns));
    offset: Whole "bytes" "Position in the flow of its first byte" = call.offset;
    asked_bytes: MaybeWhole "bytes" "Bytes that a write asked to send" = call.asked_bytes;
    bytes: Whole "bytes" "Bytes taken or returned" = call.bytes;
    error: Whole "" "0, or the errno with which it failed" = call.error.into();
}
