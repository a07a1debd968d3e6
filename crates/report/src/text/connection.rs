//! One connection in full.

use std::io;

use sockscope_analysis::{Analysis, ConnectionAnalysis, FlowAnalysis, Unopened};
use sockscope_record::{Protocol, Side};
use sockscope_render::number::{bit_rate, bound, count, rate, size};
use sockscope_render::style::Tone;

use super::page::{INDENT, Page};
use super::{bar, calls, findings, hops, path};
use crate::Report;
use crate::times::Times;

/// Processes named at one end, at most.
const PROCESSES_NAMED: usize = 8;

pub(super) fn write<'a>(
    report: &Report<'a>,
    analysis: &'a ConnectionAnalysis,
    page: &mut Page<'_>,
) -> io::Result<()> {
    write_head(report, analysis, page)?;
    for flow in report.flows(analysis) {
        write_flow(analysis, flow, page)?;
    }
    let has_calls = analysis.exchanges.is_some() || analysis.transactions.is_some();
    if has_calls || !analysis.buffers.is_empty() {
        page.blank()?;
    }
    write_calls(report, analysis, page)?;
    let found: Vec<_> = report.findings(analysis).collect();
    findings::write(&found, report.analysis, report.times(), page)
}

/// Requests, transactions and buffers.
pub(super) fn write_calls(
    report: &Report<'_>,
    analysis: &ConnectionAnalysis,
    page: &mut Page<'_>,
) -> io::Result<()> {
    if let Some(exchanges) = &analysis.exchanges {
        let is_udp = analysis.connection.protocol == Protocol::Udp;
        calls::write_exchanges(exchanges, is_udp, report.times(), page)?;
    }
    if let Some(transactions) = &analysis.transactions {
        calls::write_transactions(transactions, page)?;
    }
    calls::write_buffers(&analysis.buffers, page)
}

/// The heading, the programs at both ends, and notes on unknown parts.
pub(super) fn write_head(
    report: &Report<'_>,
    analysis: &ConnectionAnalysis,
    page: &mut Page<'_>,
) -> io::Result<()> {
    page.blank()?;
    page.rule(&format!("connection {}: {}", analysis.connection.id.0, headline(analysis, page)))?;
    write_ends(report, analysis, page)
}

/// As `tcp 127.0.0.1:40000 → 127.0.0.1:5000`.
pub(super) fn headline(analysis: &ConnectionAnalysis, page: &Page<'_>) -> String {
    let connection = &analysis.connection;
    let [client, server] = [Side::Client, Side::Server].map(|side| connection.end(side));
    format!("{} {client} {} {server}", connection.protocol.name(), page.arrow())
}

pub(super) fn write_ends(
    report: &Report<'_>,
    analysis: &ConnectionAnalysis,
    page: &mut Page<'_>,
) -> io::Result<()> {
    let [client, server] = [Side::Client, Side::Server].map(|side| programs(analysis, side));
    let both = format!("{client}; server: {server}");
    if !report.options.full && page.fits(&both) {
        page.labelled(Side::Client.name(), &both, Tone::Plain)?;
    } else {
        page.labelled(Side::Client.name(), &client, Tone::Plain)?;
        page.labelled(Side::Server.name(), &server, Tone::Plain)?;
    }
    let is_capture = report.analysis.facts.source == "pcap";
    let is_cut = report.options.shown.as_ref().is_some_and(|shown| shown.is_cut);
    let times = report.times();
    notes(analysis, is_capture, is_cut)
        .into_iter()
        .map(str::to_owned)
        .chain(analysis.layers_in_words())
        .chain(translated(analysis, page))
        .chain(unopened(analysis))
        .chain(refusal(analysis))
        .chain(reset(analysis, times))
        .chain(shut_windows(analysis, report.analysis, times))
        .try_for_each(|text| page.labelled("note", &text, Tone::Plain))
}

/// As `nginx (pid 17), nginx (pid 18) in unit nginx.service`; a question mark where none was seen.
fn programs(analysis: &ConnectionAnalysis, side: Side) -> String {
    let processes = &analysis.connection.processes;
    let processes = || processes.iter().filter(|process| process.side == side);
    let first = processes().next().and_then(|process| process.named_group());
    // Workers of one server have one group, which is named once.
    let is_of_all = processes().all(|process| process.named_group() == first);
    let mut names: Vec<_> = processes()
        .map(|process| match is_of_all {
            true => format!("{} (pid {})", process.comm, process.pid),
            false => process.to_string(),
        })
        .collect();
    if let Some(more) = names.len().checked_sub(PROCESSES_NAMED).filter(|more| *more > 0) {
        names.truncate(PROCESSES_NAMED);
        names.push(format!("and {} more", count(more as u64)));
    }
    match first.filter(|_| is_of_all) {
        _ if names.is_empty() => "?".to_owned(),
        Some(group) => format!("{} in {group}", names.join(", ")),
        None => names.join(", "),
    }
}

/// Whether anything passed in this direction.
pub(super) fn has_data(flow: &FlowAnalysis) -> bool {
    flow.bytes > 0 || flow.segments > 0
}

/// Why there was no connection.
pub(super) fn unopened(analysis: &ConnectionAnalysis) -> Option<String> {
    analysis.unopened.as_ref().map(|unopened| match unopened {
        Unopened::Refused => "refused: nobody listens there, or a filter turns connections away"
            .to_owned(),
        Unopened::Dropped(reason) => format!(
            "not answered: the SYN came to this host and was dropped ({reason}), by a filter or for \
             lack of room"
        ),
    })
}

/// The end that reset the connection, and the data that was not read by then.
fn reset(analysis: &ConnectionAnalysis, times: Times) -> Option<String> {
    let (side, at_ns) = analysis.reset.filter(|_| analysis.unopened.is_none())?;
    let total = analysis.flows.iter().filter_map(|flow| flow.stages.last());
    let unread = match total.map(|stage| stage.resident_bytes).sum::<Option<u64>>() {
        None | Some(0) => String::new(),
        Some(bytes) => format!("; {} were never read", size(bytes)),
    };
    Some(format!("reset by the {} at {}{unread}", side.name(), times.at(at_ns)))
}

/// A window that was shut for less when the trace ended would have opened in its time.
const SHUT_NS_MIN: u64 = 500_000_000;

/// The sides that had shut their receive window for long when the trace ended, and since when.
pub(super) fn shut_sides<'a>(
    connection: &'a ConnectionAnalysis,
    trace: &Analysis,
) -> impl Iterator<Item = (Side, u64)> + 'a {
    let latest_ns = trace.start_ns.saturating_add(trace.duration_ns).saturating_sub(SHUT_NS_MIN);
    let is_programs = |side| !connection.layers.iter().any(|&(at, _)| at == side);
    let shut = connection.shut_windows.iter().copied();
    shut.filter(move |&(side, at_ns)| at_ns <= latest_ns && is_programs(side))
}

/// The ends that shut their receive window and did not open it again.
fn shut_windows<'a>(
    connection: &'a ConnectionAnalysis,
    trace: &Analysis,
    times: Times,
) -> impl Iterator<Item = String> + 'a {
    shut_sides(connection, trace).map(move |(side, at_ns)| {
        let (since, side) = (times.at(at_ns), side.name());
        format!("the {side}'s receive window is 0 from {since} on: it opens when the {side} reads")
    })
}

/// Whether datagrams of this host found no socket on it: neither end is on another one.
fn is_refused_at_home(flow: &FlowAnalysis) -> bool {
    flow.datagrams_refused > 0 && flow.segments > 0
}

/// The outcome of datagrams that no socket of this host took.
fn refusal(analysis: &ConnectionAnalysis) -> Option<String> {
    let refused: u64 = analysis.flows.iter().map(|flow| flow.datagrams_refused).sum();
    let (datagrams, them) = if refused == 1 { ("datagram", "it") } else { ("datagrams", "them") };
    let text = format!(
        "{} {datagrams} came to this host, and no socket took {them}: nobody listens there, or a filter \
         dropped {them}",
        count(refused)
    );
    (refused > 0 && !analysis.connection.both_ends_here).then_some(text)
}

/// The ends as the other host has them.
fn translated(analysis: &ConnectionAnalysis, page: &Page<'_>) -> Option<String> {
    let [client, server] = analysis.connection.translated()?;
    let arrow = page.arrow();
    Some(format!(
        "the other host has {client} {arrow} {server}: addresses are translated between the hosts"
    ))
}

/// Unknowns of the connection itself.
fn notes(analysis: &ConnectionAnalysis, is_capture: bool, is_cut: bool) -> Vec<&'static str> {
    let connection = &analysis.connection;
    let has_ports = !connection.protocol.is_unix();
    if has_ports && connection.client.port() == 0 && connection.server.port() == 0 {
        return vec![
            "not described in the trace, whose flow table is missing or damaged: addresses, processes \
             and when it was opened are unknown",
        ];
    }
    let was_established = connection.preexisting && connection.protocol == Protocol::Tcp;
    let mut notes = Vec::new();
    if is_capture && connection.both_ends_here {
        notes.push("captures at both hosts: what was in sockets and programs is unknown");
    } else if is_capture {
        notes.push("a capture at one place: what was before it and behind it is unknown");
    } else if connection.is_to_itself() {
        notes.push(
            "one socket, connected to itself: it reads what it writes; both directions are one, told as \
             client to server",
        );
    } else if !connection.both_ends_here && !analysis.flows.iter().any(is_refused_at_home) {
        if analysis.flows.iter().any(has_data) {
            notes.push("one end is not on this host: what passed there is unknown");
        } else if analysis.unopened.is_none() && !was_established {
            notes.push(
                "the other end was not seen: it refused, did not answer, or is on another host",
            );
        }
    }
    if analysis.is_inner {
        notes.push(
            "a socket of the kernel's own, as MPTCP has one for each path: programs write to another \
             socket and read from it, so that what waits before point 2 and after point 7 is unknown",
        );
    }
    if connection.preexisting && is_cut {
        notes.push("open before the time that is shown: its early bytes are left out");
    } else if connection.preexisting {
        notes.push("established before recording began: its early bytes are unknown");
    }
    if was_established && connection.both_ends_here && !is_cut {
        notes.push(
            "joined on the way, so that the recorder did not look for records that the kernel \
             skipped: a skipped one shows as residue, not as missed",
        );
    }
    notes
}

fn write_flow(
    analysis: &ConnectionAnalysis,
    flow: &FlowAnalysis,
    page: &mut Page<'_>,
) -> io::Result<()> {
    page.blank()?;
    if !has_data(flow) {
        let ends = ends(flow, page);
        let what = match (analysis.records, flow.at_least.bytes) {
            (0, _) => "no record",
            (_, true) => "no data recorded; some may have been missed",
            (_, false) => "no data",
        };
        return page.line(&format!("flow {}: {ends}, {what}", flow.id));
    }
    write_traffic(analysis, flow, page)?;
    page.blank()?;
    let is_udp = analysis.connection.protocol == Protocol::Udp;
    path::write(flow, analysis.connection.protocol, page)?;
    page.blank()?;
    bar::write_ledger(flow, is_udp, page)?;
    write_delay(flow, is_udp, page)?;
    hops::write(flow, page)?;
    calls::write_flow(flow, analysis.connection.protocol == Protocol::Tcp, page)
}

/// As `client → server`.
fn ends(flow: &FlowAnalysis, page: &Page<'_>) -> String {
    let direction = flow.id.direction();
    format!("{} {} {}", direction.sender().name(), page.arrow(), direction.receiver().name())
}

/// The amount and rate of the data of one direction.
pub(super) fn write_traffic(
    analysis: &ConnectionAnalysis,
    flow: &FlowAnalysis,
    page: &mut Page<'_>,
) -> io::Result<()> {
    let text = traffic(analysis, flow, &ends(flow, page));
    page.wrapped(&format!("flow {}: ", flow.id), INDENT, &text, Tone::Strong)
}

/// The way of a mean byte as a bar, with its stages below, the longest first. Nothing where no byte was
/// seen at both ends.
fn write_delay(flow: &FlowAnalysis, is_udp: bool, page: &mut Page<'_>) -> io::Result<()> {
    let parts = bar::of_delays(&flow.stages, flow.dropped_byte_delay_ns, is_udp);
    if parts.is_empty() {
        return Ok(());
    }
    page.line(&format!("delay   {}", bar::bar(&parts, bar::BAR_WIDTH, page)))?;
    let text = bar::in_words(&parts, &flow.stages, page);
    page.wrapped(&" ".repeat(INDENT), INDENT, &text, Tone::Plain)
}

/// As `client → server, 78.1 KiB in 400 segments, 9.07 KiB/s (74.3 kbit/s)`.
fn traffic(analysis: &ConnectionAnalysis, flow: &FlowAnalysis, ends: &str) -> String {
    let at_least = &flow.at_least;
    let throughput = match flow.throughput_bytes_per_s {
        Some(rate_) => bound(format!("{} ({})", rate(rate_), bit_rate(rate_)), at_least.throughput),
        None => "throughput ?".to_owned(),
    };
    let pieces = match (analysis.connection.protocol, flow.segments) {
        (Protocol::Udp, 1) => "datagram",
        (Protocol::Udp, _) => "datagrams",
        (Protocol::Tcp, 1) => "segment",
        (Protocol::Tcp, _) => "segments",
        (Protocol::Unix, 1) => "send",
        (Protocol::Unix, _) => "sends",
        (Protocol::UnixDatagram | Protocol::UnixSeqpacket, 1) => "message",
        (Protocol::UnixDatagram | Protocol::UnixSeqpacket, _) => "messages",
    };
    let mut text = format!("{ends}, {}", bound(size(flow.bytes), at_least.bytes));
    // A capture does not record segments as TCP makes them.
    if flow.segments > 0 {
        text += &format!(" in {} {pieces}", bound(count(flow.segments), at_least.segments));
    }
    text += &format!(", {throughput}");
    if flow.retransmitted_bytes > 0 {
        text += &format!(
            ", {} sent again",
            bound(size(flow.retransmitted_bytes), at_least.retransmitted)
        );
    }
    text
}
