//! The table `flows`: one row for each direction of each connection, and `stages`: one for each stage of a flow.

use sockscope_analysis::{
    ConnectionAnalysis, Distribution, FlowAnalysis, StageAnalysis, Uncertainty,
};
use sockscope_record::{Container, ControlGroup, Direction, Pod, Side};

use crate::column::columns;
use crate::trace::Trace;

/// A flow, by its part of the trace: see [`Trace::flow_at`].
fn flow(trace: &Trace, part: usize) -> Option<(&ConnectionAnalysis, &FlowAnalysis, Direction)> {
    let (one, direction) = trace.flow_at(part)?;
    Some((one, &one.flows[direction as usize], direction))
}

/// The rows of a part.
pub(crate) fn rows(trace: &Trace, part: usize) -> Option<Vec<usize>> {
    flow(trace, part).map(|_| vec![part])
}

columns! {
    FlowColumns "flows", |trace, part: usize| {
        let (one, flow, direction) = flow(trace, *part).expect("a part of the trace");
        let connection = &one.connection;
    }
    connection: Whole "" "Number of the connection in its trace, from 1 on" = connection.id.0.into();
    flow: Whole "" "Number of the direction: twice that of the connection, plus 1 from the server" = flow.id.0.into();
    protocol: Word "" "`tcp` or `udp`" = connection.protocol.name();
    client: Text "" "Address and port of the end that opened the connection" = connection.end(Side::Client).to_string();
    server: Text "" "Address and port of the other end" = connection.end(Side::Server).to_string();
    sender: Word "" "The end that sends this flow: `client` or `server`" = direction.sender().name();
    client_pid: MaybeWhole "" "First process seen at the client's end" = process(one, Side::Client).map(|it| it.pid.into());
    client_program: MaybeText "" "Its name, at most 15 bytes" = process(one, Side::Client).map(|it| it.comm.clone());
    server_pid: MaybeWhole "" "First process seen at the server's end" = process(one, Side::Server).map(|it| it.pid.into());
    server_program: MaybeText "" "Its name, at most 15 bytes" = process(one, Side::Server).map(|it| it.comm.clone());
    client_host: MaybeWhole "" "Number of the client's host in a merged trace, from 1 on; null in a trace of one host, and where no process shows it" = connection.host(Side::Client).map(u64::from);
    server_host: MaybeWhole "" "The same of the server" = connection.host(Side::Server).map(u64::from);
    opened_ns: Whole "ns" "First event of the connection, on the clock of the trace" = connection.opened_ns;
    opened: Time "ns" "The same time since 1970 (UTC)" = trace.clock.at(connection.opened_ns);
    closed_ns: MaybeWhole "ns" "The last end on this host closed; null while open" = connection.closed_ns;
    closed: Time "ns" "The same time since 1970 (UTC)" = connection.closed_ns.and_then(|at_ns| trace.clock.at(at_ns));
    preexisting: Flag "" "It was open before the recording: early bytes are unknown" = connection.preexisting;
    both_ends_here: Flag "" "Both ends are sockets of the recorded host" = connection.both_ends_here;
    conversation: Word "" "Pattern of talk between the two ends" = one.requests.conversation.name();
    requests: Whole "" "Requests of the connection that the table `exchanges` has" = one.requests.list.len() as u64;
    connection_records: Whole "" "Records of the connection, both directions" = one.records;
    bytes: Whole "bytes" "Distinct bytes that entered the first point seen" = flow.bytes;
    bytes_is_lower_bound: Flag "" "Missed records may make `bytes` too small" = flow.at_least.bytes;
    segments: Whole "packets" "Packets with data, as handed to IP; of UDP all" = flow.segments;
    segments_is_lower_bound: Flag "" "Missed records may make `segments` too small" = flow.at_least.segments;
    retransmitted_bytes: Whole "bytes" "Bytes sent again" = flow.retransmitted_bytes;
    retransmitted_is_lower_bound: Flag "" "Missed records may make `retransmitted_bytes` too small" = flow.at_least.retransmitted;
    dropped_packets: Whole "packets" "Packets of it that the kernel dropped" = flow.drops.iter().map(|drop| drop.count).sum();
    dropped_is_lower_bound: Flag "" "Missed records may make `dropped_packets` too small" = flow.at_least.drops;
    datagrams_refused: Whole "packets" "Datagrams that no socket of their host took; 0 of TCP" = flow.datagrams_refused;
    throughput_bytes_per_s: MaybeReal "bytes/s" "Distinct bytes a second at the last point seen" = flow.throughput_bytes_per_s;
    acknowledgments: Whole "packets" "Segments that acknowledged new data of it" = flow.acks.advancing;
    duplicate_acknowledgments: Whole "packets" "Duplicate acknowledgments and window updates" = flow.acks.duplicate;
    writes: MaybeWhole "" "Writes of the program; null without a recorded one" = flow.write_bytes.map(|it| it.count);
    reads: MaybeWhole "" "Reads of the program; null without a recorded one" = flow.read_bytes.map(|it| it.count);
    interface: MaybeText "" "Device by which it left its sender's host" = flow.interface.as_ref().map(|it| it.device.clone());
    findings: Whole "" "Findings in this flow" = one.findings.iter().filter(|it| it.flow == flow.id).count() as u64;
    client_cgroup: MaybeText "" "Path of the control group of the client's first process" = group(one, Side::Client).map(|it| it.path.clone());
    client_unit: MaybeText "" "Its unit of systemd" = group(one, Side::Client).and_then(|it| it.unit.clone());
    client_container: MaybeText "" "Name of its container" = container(one, Side::Client).and_then(|it| it.name.clone());
    client_container_id: MaybeText "" "Number of its container" = container(one, Side::Client).map(|it| it.id.clone());
    client_namespace: MaybeText "" "Namespace of its pod" = pod(one, Side::Client).and_then(|it| it.namespace.clone());
    client_pod: MaybeText "" "Name of its pod" = pod(one, Side::Client).and_then(|it| it.name.clone());
    client_pod_uid: MaybeText "" "Number of its pod" = pod(one, Side::Client).map(|it| it.uid.clone());
    server_cgroup: MaybeText "" "Path of the control group of the server's first process" = group(one, Side::Server).map(|it| it.path.clone());
    server_unit: MaybeText "" "Its unit of systemd" = group(one, Side::Server).and_then(|it| it.unit.clone());
    server_container: MaybeText "" "Name of its container" = container(one, Side::Server).and_then(|it| it.name.clone());
    server_container_id: MaybeText "" "Number of its container" = container(one, Side::Server).map(|it| it.id.clone());
    server_namespace: MaybeText "" "Namespace of its pod" = pod(one, Side::Server).and_then(|it| it.namespace.clone());
    server_pod: MaybeText "" "Name of its pod" = pod(one, Side::Server).and_then(|it| it.name.clone());
    server_pod_uid: MaybeText "" "Number of its pod" = pod(one, Side::Server).map(|it| it.uid.clone());
}

/// The control group of the first process at an end.
fn group(one: &ConnectionAnalysis, side: Side) -> Option<&ControlGroup> {
    process(one, side)?.group.as_deref()
}

fn container(one: &ConnectionAnalysis, side: Side) -> Option<&Container> {
    group(one, side)?.container.as_ref()
}

fn pod(one: &ConnectionAnalysis, side: Side) -> Option<&Pod> {
    group(one, side)?.pod.as_ref()
}

/// The first process at an end.
fn process(one: &ConnectionAnalysis, side: Side) -> Option<&sockscope_record::Process> {
    one.connection.processes.iter().find(|process| process.side == side)
}

/// A stage of a flow, by the part of the trace and the place among the stages.
pub(crate) type StageRow = (usize, usize);

/// The stages of a part.
pub(crate) fn stage_rows(trace: &Trace, part: usize) -> Option<Vec<StageRow>> {
    let (_, flow, _) = flow(trace, part)?;
    Some((0..flow.stages.len()).map(|stage| (part, stage)).collect())
}

columns! {
    StageColumns "stages", |trace, row: StageRow| {
        let (one, flow, _) = flow(trace, row.0).expect("a part of the trace");
        let stage: &StageAnalysis = &flow.stages[row.1];
        let delay: Option<Distribution> = stage.delay_ns;
    }
    connection: Whole "" "Number of the connection" = one.connection.id.0.into();
    flow: Whole "" "Number of the flow" = flow.id.0.into();
    stage: Word "" "The stage: `send_queue` to `receive_queue`, or `total`" = stage.stage.name();
    enter_host: MaybeWhole "" "Number of the host where bytes enter it, as in the table `flows`" = trace.host(flow.id, stage.stage.enter());
    leave_host: MaybeWhole "" "Number of the host where they leave it" = trace.host(flow.id, stage.stage.leave());
    runs: MaybeWhole "" "Runs of bytes that entered and left it; null without one" = delay.map(|it| it.count);
    delay_ns_mean: MaybeReal "ns" "Mean delay of a run" = delay.map(|it| it.mean);
    delay_ns_min: MaybeWhole "ns" "Smallest delay" = delay.map(|it| it.min);
    delay_ns_p50: MaybeWhole "ns" "Median delay" = delay.map(|it| it.p50);
    delay_ns_p90: MaybeWhole "ns" "90th percentile" = delay.map(|it| it.p90);
    delay_ns_p99: MaybeWhole "ns" "99th percentile" = delay.map(|it| it.p99);
    delay_ns_max: MaybeWhole "ns" "Largest delay" = delay.map(|it| it.max);
    byte_delay_ns: MaybeReal "ns" "Mean delay of a byte, of bytes seen at points 1 and 8" = stage.byte_delay_ns;
    length_bytes_mean: MaybeReal "bytes" "Mean length of the queue over time" = stage.length_bytes.map(|it| it.mean).filter(|it| it.is_finite());
    length_bytes_max: MaybeWhole "bytes" "Largest length; a lower bound with unknown intervals" = stage.length_bytes.map(|it| it.max);
    resident_bytes: MaybeWhole "bytes" "Bytes in it at the end of the trace" = stage.resident_bytes;
    unknown_intervals: Whole "" "Intervals of its length that missed records make unknown" = stage.unknown_intervals;
    uncertainty_ns: MaybeWhole "ns" "Delays between two hosts may be so much longer or shorter; null within a host, and where no bound is known" = stage.uncertainty.and_then(Uncertainty::at_most_ns);
    uncertainty_is_unknown: Flag "" "The clocks of its two hosts differ by an unknown time" = stage.uncertainty == Some(Uncertainty::Unknown);
}
