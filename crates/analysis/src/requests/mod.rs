//! Requests: the asker, the time of the answer, and the owner of the time in between.
//!
//! Of each connection, from the first request on. A request runs from the first byte written to the last byte of the
//! response read, as a caller measures it. It is divided at the read that took the last byte of the request, and at
//! the first byte of the response written. Requests that missed records may have touched are left out and counted.

mod closing;
mod datagrams;
#[cfg(test)]
mod proptests;
mod request;
mod streams;
#[cfg(test)]
mod tests;
mod turns;

use sockscope_record::{Point, Protocol, Side};

pub use self::request::{
    Conversation, Moment, Request, RequestEnd, RequestParts, Requests, SeenEnds, UnreadRequest,
};

use self::closing::Closing;
use self::datagrams::Datagrams;
use self::streams::Stream;
use crate::curve::Curve;
use crate::drops::{self, Cause};
use crate::outcome::{self, Attempt};
use crate::ranges::{Range, union};
use crate::record_loss_times::Losses;
use crate::{ConnectionStore, DropReasons, FlowStore};

/// Other facts of the connection and of the trace.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub losses: &'a Losses,
    pub drop_reasons: &'a DropReasons,
    /// Side that reset the connection first, with the time.
    pub reset: Option<(Side, u64)>,
    /// When the trace ended.
    pub trace_end_ns: u64,
}

/// The requests of a connection. `reads` are the curves at point 8 of its two flows, `unknown_ns` the times between
/// which data of each may have passed each point unseen.
pub(crate) fn find(
    store: &ConnectionStore,
    reads: [&Curve; 2],
    unknown_ns: [&[Vec<Range>; 8]; 2],
    facts: &Facts<'_>,
) -> Requests {
    let ends = seen_ends(store);
    let has_data = store.flows.iter().any(|flow| flow.passages.iter().any(|list| has_bytes(list)));
    if ends == [false, false] {
        return attempt(store, facts).unwrap_or_else(|| {
            Requests::none(if has_data { Conversation::Unseen } else { Conversation::Silent })
        });
    }
    if store.connection.is_to_itself() {
        // It reads its own writes: there is no other side to answer.
        return Requests::none(Conversation::OneWay);
    }
    let mut requests = between_programs(store, reads, unknown_ns, ends, facts);
    if requests.conversation == Conversation::Silent
        && !has_data
        && store.connection.protocol == Protocol::Tcp
    {
        requests = attempt(store, facts).unwrap_or(requests);
    }
    name_readers(&mut requests, store);
    requests
}

/// The requests of a connection whose programs were seen at one end or both.
fn between_programs(
    store: &ConnectionStore,
    reads: [&Curve; 2],
    unknown_ns: [&[Vec<Range>; 8]; 2],
    ends: [bool; 2],
    facts: &Facts<'_>,
) -> Requests {
    let points = [Point::SendEnqueue, Point::ReceiveDequeue];
    let unknown = unknown_ns.iter().flat_map(|flow| points.map(|point| &flow[point.index()]));
    let unknown: Vec<Range> = unknown.flatten().copied().collect();
    let unknown = union(&unknown, &[]);
    let written = [0, 1].map(|flow: usize| {
        let point = if ends[flow] { points[0] } else { points[1] };
        store.flows[flow].at(point)
    });
    if !store.connection.protocol.is_stream() {
        let refused = [0, 1].map(|flow: usize| refused(store, &store.flows[flow], facts));
        let is_first = |flow: usize| written[flow].first().map_or(u64::MAX, |pass| pass.at_ns);
        return datagrams::find(&Datagrams {
            written,
            reads,
            ends,
            unknown_ns: &unknown,
            refused: &refused[usize::from(is_first(1) < is_first(0))],
            closed_ns: store.connection.closed_ns.filter(|ns| *ns <= facts.trace_end_ns),
            trace_end_ns: facts.trace_end_ns,
        });
    }
    // Where both ends were seen, nothing is asked of them.
    let is_one_seen = ends != [true, true];
    let arrived =
        [0, 1].map(
            |flow: usize| {
                if is_one_seen { arrivals(&store.flows[flow]) } else { Curve::default() }
            },
        );
    let connection = &store.connection;
    streams::find(&Stream {
        written,
        reads,
        arrived: [&arrived[0], &arrived[1]],
        ends,
        unknown_ns: &unknown,
        opened_ns: (!connection.preexisting).then_some(connection.opened_ns),
        closing: Closing { store, reset: facts.reset, trace_end_ns: facts.trace_end_ns },
    })
}

/// So many reads are looked at one by one before they are searched.
const READS_AHEAD: usize = 16;

/// Fills in which thread read each request.
fn name_readers(requests: &mut Requests, store: &ConnectionStore) {
    let Some(asker) = requests.asked_by else { return };
    let reads = store.flow(asker.sends()).at(Point::ReceiveDequeue);
    debug_assert!(reads.is_sorted_by_key(|read| read.at_ns));
    let mut near = 0;
    for request in &mut requests.list {
        let Some(heard_ns) = request.heard.ns() else { continue };
        // Mostly one of the next reads.
        let steps = reads[near..].iter().take_while(|read| read.at_ns <= heard_ns);
        let steps = steps.take(READS_AHEAD).count();
        let is_near = steps < READS_AHEAD && (near == 0 || reads[near - 1].at_ns <= heard_ns);
        near = match is_near {
            true => near + steps,
            false => reads.partition_point(|read| read.at_ns <= heard_ns),
        };
        let last = reads[..near].last().filter(|read| read.at_ns == heard_ns);
        request.reader_thread = last.map_or(0, |read| read.thread);
    }
}

/// The requests whose last byte lay in the receive queue for long before it was read.
pub(crate) fn unread(requests: &Requests, store: &ConnectionStore) -> Vec<UnreadRequest> {
    let Some(asker) = requests.asked_by else { return Vec::new() };
    let is_late = |request: &Request| {
        let waited_ns = request.heard.ns().map(|ns| ns.saturating_sub(request.asked_ns));
        waited_ns.is_some_and(|ns| ns >= UnreadRequest::LAIN_NS_MIN)
    };
    if !requests.list.iter().any(is_late) {
        return Vec::new();
    }
    let flow = store.flow(asker.sends());
    let reads = flow.at(Point::ReceiveDequeue);
    let arrivals = Curve::of(flow.at(Point::ReceiveEnqueue));
    let found = requests.list.iter().zip(0u32..).filter(|(request, _)| is_late(request));
    let unread = found.filter_map(|(request, index)| {
        let heard_ns = request.heard.ns()?;
        let after = reads.partition_point(|read| read.at_ns <= heard_ns);
        let read = reads[..after].last().filter(|read| read.at_ns == heard_ns)?;
        let arrived_ns = arrivals.at(read.end().checked_sub(1)?)?.at_ns;
        let lain_ns = heard_ns.saturating_sub(arrived_ns);
        (lain_ns >= UnreadRequest::LAIN_NS_MIN).then_some(UnreadRequest { index, arrived_ns })
    });
    unread.collect()
}

/// Whether the client's and the server's end were seen: something was written or read there.
fn seen_ends(store: &ConnectionStore) -> [bool; 2] {
    let [client, server] = &store.flows;
    let passed = |flow: &FlowStore, point| has_bytes(flow.at(point));
    let is_seen = |own: &FlowStore, other: &FlowStore| {
        passed(own, Point::SendEnqueue) || passed(other, Point::ReceiveDequeue)
    };
    match [is_seen(client, server), is_seen(server, client)] {
        [false, false] => [false, false],
        _ if store.connection.both_ends_here => [true, true],
        seen => seen,
    }
}

fn has_bytes(passes: &[crate::Passage]) -> bool {
    passes.iter().any(|pass| pass.len > 0)
}

/// First passages at the first point on the receiver's host that saw bytes.
fn arrivals(flow: &FlowStore) -> Curve {
    let points = [Point::InputEnqueue, Point::InputDequeue, Point::ReceiveEnqueue];
    let seen = points.into_iter().map(|point| flow.at(point)).find(|passes| has_bytes(passes));
    Curve::of(seen.unwrap_or_default())
}

/// Times at which no socket took datagrams of the flow, and their positions.
fn refused(store: &ConnectionStore, flow: &FlowStore, facts: &Facts<'_>) -> Vec<(u64, u64)> {
    let drops = drops::at_the_socket(&store.connection, flow, facts.drop_reasons);
    let refused = drops.filter(|drop| drop.cause == Cause::NoSocket);
    refused.map(|drop| (drop.drop.at_ns, drop.drop.offset)).collect()
}

/// The one request of a client that did not get a connection.
fn attempt(store: &ConnectionStore, facts: &Facts<'_>) -> Option<Requests> {
    let Attempt { asked_ns, refused_ns } =
        outcome::attempt(store, facts.losses, facts.drop_reasons)?;
    let closing = Closing { store, reset: None, trace_end_ns: facts.trace_end_ns };
    let (ended_ns, end) = match refused_ns {
        Some(refused_ns) => (refused_ns.max(asked_ns), RequestEnd::Refused),
        None => closing.of_wait(sockscope_record::Direction::FromClient, asked_ns),
    };
    let list = vec![Request { seen: SeenEnds::Asker, ..Request::asked(asked_ns, ended_ns, end) }];
    let asked_by = Some(Side::Client);
    Some(Requests { asked_by, conversation: Conversation::Alternating, list, left_out: 0 })
}
