//! One connection: its flows, its exchanges, its buffers and its findings.

use sockscope_record::{Connection, Direction, Point};

use crate::curve::Curve;
use crate::drops;
use crate::findings::Delay;
use crate::flow_curves::FlowCurves;
use crate::openings::Openings;
use crate::ranges::Range;
use crate::record_loss_times::Losses;
use crate::{
    ConnectionAnalysis, ConnectionStore, ConnectionView, Conversation, FlowAnalysis, FlowStore,
    FlowView, LedgerPart, LedgerSpan, Requests, TraceFacts, acks, buffers, exchanges, findings,
    hops, interface, kernel_socket, ledger, outcome, requests, socket_layers, stages, traffic,
    transactions,
};

/// One direction of a connection: what its analysis is made of.
#[derive(Debug)]
pub struct FlowParts<'a> {
    /// The connection.
    pub connection: &'a Connection,
    /// The direction.
    pub direction: Direction,
    /// First passages of its bytes.
    pub curves: &'a FlowCurves,
    /// Place of its oldest unread byte: spans in order, touching.
    pub ledger: &'a [LedgerSpan],
}

/// One flow's figures, and the inputs of exchanges and findings.
struct FlowResult {
    analysis: FlowAnalysis,
    timeline: Vec<LedgerSpan>,
    start_ns: u64,
    /// First passages at point 8.
    reads: Curve,
    /// Times between which data may have passed each point unseen.
    unknown_ns: [Vec<Range>; 8],
}

/// The analysis of one connection, and the parts of its requests in which a cause kept data back.
pub(crate) fn analyze_connection(
    store: &ConnectionStore,
    losses: &Losses,
    facts: &TraceFacts,
    trace_end_ns: u64,
    openings: &Openings,
    each: &mut dyn FnMut(&FlowParts<'_>),
) -> (ConnectionAnalysis, Vec<Delay>) {
    let TraceFacts { drop_reasons, network_namespaces, .. } = facts;
    let records = store.flows.iter().map(records).sum();
    let without_calls = socket_layers::without_calls(store);
    let store = without_calls.as_ref().unwrap_or(store);
    let own_losses = losses.with_left_out(store);
    let losses = own_losses.as_ref().unwrap_or(losses);
    let end_ns = store.end_ns().unwrap_or(0);
    let flows = [Direction::FromClient, Direction::FromServer]
        .map(|direction| analyze_flow(store, direction, losses, facts, each));
    let [client, server] = &flows;
    let reset = outcome::reset(store);
    let has_layer = without_calls.is_some();
    let requests = match has_layer {
        true => Requests::none(Conversation::Unseen),
        false => requests::find(
            store,
            [&client.reads, &server.reads],
            [&client.unknown_ns, &server.unknown_ns],
            &requests::Facts {
                losses,
                drop_reasons,
                reset,
                trace_end_ns: trace_end_ns.max(end_ns),
            },
        ),
    };
    let timelines = [&client.timeline[..], &server.timeline];
    let exchanges = exchanges::summarize(&requests, timelines);
    let unread_ns = exchanges::unread_ns(&requests, timelines, exchanges.is_some());
    let buffers = buffers::grants(store);
    let view = |direction| {
        let flow: &FlowResult = &flows[direction as usize];
        FlowView {
            store,
            direction,
            timeline: &flow.timeline,
            analysis: &flow.analysis,
            start_ns: flow.start_ns,
            end_ns,
            losses: &losses.intervals,
            unknown_ns: &flow.unknown_ns,
            drop_reasons,
            network_namespaces,
        }
    };
    let unopened = outcome::unopened(store, losses, drop_reasons);
    let (mut findings, mut delays) = findings::find(&ConnectionView {
        store,
        flows: [view(Direction::FromClient), view(Direction::FromServer)],
        buffers: &buffers,
        exchanges: exchanges.as_ref(),
        requests: &requests,
        unopened: unopened.as_ref(),
        openings,
    });
    if has_layer {
        findings.retain(socket_layers::may_speak);
        delays.clear();
    }
    let analysis = ConnectionAnalysis {
        connection: store.connection.clone(),
        records,
        flows: flows.map(|flow| flow.analysis),
        exchanges,
        unread_requests: requests::unread(&requests, store),
        unread_ns,
        requests,
        transactions: transactions::summarize(store),
        unopened,
        reset,
        shut_windows: outcome::shut_windows(store),
        is_inner: !has_layer && kernel_socket::has_kernel_socket(store, losses, end_ns),
        layers: socket_layers::of(store),
        buffers,
        findings,
    };
    (analysis, delays)
}

fn analyze_flow(
    store: &ConnectionStore,
    direction: Direction,
    losses: &Losses,
    facts: &TraceFacts,
    each: &mut dyn FnMut(&FlowParts<'_>),
) -> FlowResult {
    let TraceFacts { drop_reasons, network_namespaces, .. } = facts;
    let flow = store.flow(direction);
    let (start_ns, end_ns) = ledger::lasts(store, direction);
    let mut curves = FlowCurves::with_losses(store, direction, losses, drop_reasons);
    let timeline = ledger::timeline(store, direction, &curves, (start_ns, end_ns));
    let connection = &store.connection;
    each(&FlowParts { connection, direction, curves: &curves, ledger: &timeline });
    let is_stream = store.connection.protocol.is_stream();
    let reads = traffic::reads(flow, is_stream, losses);
    let analysis = FlowAnalysis {
        id: flow.id,
        at_least: traffic::at_least(store, direction, &curves, losses),
        bytes: traffic::bytes(&curves),
        segments: segments(store, flow),
        retransmitted_bytes: traffic::retransmitted_bytes(flow, &curves),
        throughput_bytes_per_s: traffic::throughput(&curves),
        stages: stages::stages(store, direction, &curves, end_ns),
        dropped_byte_delay_ns: stages::drop_gap_mean(&curves),
        ledger: ledger::sum(&timeline),
        wire_intervals: ledger::intervals(&timeline, LedgerPart::Wire),
        acks: acks::summarize(store, direction, &curves, losses),
        bursts: traffic::bursts(flow, losses),
        write_bytes: traffic::write_bytes(flow, losses),
        drops: drops::counts(store, direction, drop_reasons),
        datagrams_refused: drops::refused(&store.connection, flow, drop_reasons),
        read_bytes: reads.bytes,
        reads_are_guessed: reads.are_guessed,
        read_copy_bytes_max: reads.copied_max,
        interface: interface::interface(flow, network_namespaces),
        hops: hops::hops(
            flow,
            &curves,
            &timeline,
            !losses.intervals.is_empty(),
            network_namespaces,
        ),
    };
    let unknown_ns = curves.curves.each_ref().map(|curve| curve.unknown_ns().collect());
    let read = std::mem::take(&mut curves.curves[Point::ReceiveDequeue.index()]);
    FlowResult { analysis, timeline, start_ns, reads: read, unknown_ns }
}

fn records(flow: &FlowStore) -> u64 {
    let passes = flow.passages.iter().map(Vec::len).sum::<usize>();
    (passes + flow.events.len()) as u64
}

/// An empty datagram counts; a TCP segment without data does not. Of Unix sockets messages count.
fn segments(store: &ConnectionStore, flow: &FlowStore) -> u64 {
    let protocol = store.connection.protocol;
    let is_datagram = !protocol.is_stream();
    if is_datagram && protocol.is_unix() {
        return flow.at(Point::SendEnqueue).len() as u64;
    }
    let seen = traffic::segments_point(flow).map(|point| flow.at(point)).unwrap_or_default();
    seen.iter().filter(|pass| pass.len > 0 || is_datagram).count() as u64
}
