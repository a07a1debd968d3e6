//! The columns of a line.

use std::fmt::Write as _;
use std::io;

use sockscope_analysis::{ConnectionStore, DropReasons};
use sockscope_record::{Direction, Kind, Record, counted};
use sockscope_render::style::{Style, Tone};
use sockscope_render::wall_clock;

use super::event::write_details;
use crate::WallClock;

/// Connections that the head names one by one.
const NAMED_MAX: usize = 20;

/// Formats event after event into the same buffer.
pub(super) struct Line<'a> {
    start_ns: u64,
    wall_clock: Option<WallClock>,
    previous_ns: u64,
    range_width: usize,
    style: Style,
    drop_reasons: &'a DropReasons,
    text: String,
}

/// Columns of a range whose end is at most `furthest`: two such numbers and `[, )`.
pub(super) fn range_width(furthest: u64) -> usize {
    let digits = furthest.checked_ilog10().unwrap_or(0) as usize + 1;
    (2 * digits + 4).max(10)
}

impl<'a> Line<'a> {
    pub(super) fn new(
        start_ns: u64,
        wall_clock: Option<WallClock>,
        range_width: usize,
        style: Style,
        drop_reasons: &'a DropReasons,
    ) -> Self {
        let text = String::with_capacity(160);
        Self { start_ns, wall_clock, previous_ns: start_ns, range_width, style, drop_reasons, text }
    }

    /// The first line counts from this time as the time of the line before it.
    pub(super) fn after(self, previous_ns: u64) -> Self {
        Self { previous_ns, ..self }
    }

    /// The line of `event`, with its end.
    pub(super) fn of(&mut self, event: &Record) -> &str {
        self.text.clear();
        // Writing to a string does not fail.
        let _ = self.write(event);
        let end = self.text.trim_end().len();
        self.text.truncate(end);
        self.text.push('\n');
        &self.text
    }

    fn write(&mut self, event: &Record) -> std::fmt::Result {
        let since_ns = event.at_ns.saturating_sub(self.start_ns);
        let delta_ns = event.at_ns.saturating_sub(self.previous_ns);
        self.previous_ns = event.at_ns;
        let (seconds, nanos) = (since_ns / 1_000_000_000, since_ns % 1_000_000_000);
        let text = &mut self.text;
        if let Some(clock) = self.wall_clock {
            write!(text, "{} ", wall_clock::time(clock.at(event.at_ns)))?;
        }
        write!(text, "{seconds:>4}.{nanos:09} ")?;
        write!(text, "{:>7}.{:03} ", delta_ns / 1000, delta_ns % 1000)?;
        match (event.kind, event.flow.direction()) {
            (Kind::Loss, _) => text.push_str("   * * "),
            (_, Direction::FromClient) => write!(text, "{:>4} > ", event.flow.0)?,
            (_, Direction::FromServer) => write!(text, "{:>4} < ", event.flow.0)?,
        }
        match event.point() {
            Some(point) => write!(text, "{} ", point.number())?,
            None => text.push_str("- "),
        }
        write_name(event.kind, self.style, text)?;
        let padded_to = text.len() + self.range_width;
        if has_range(event.kind) {
            write!(text, "[{}, {})", event.offset, event.offset.saturating_add(event.len.into()))?;
        }
        pad(text, padded_to);
        match has_range(event.kind) {
            true => write!(text, " {:>6}  ", event.len)?,
            false => text.push_str("         "),
        }
        write_details(event, self.drop_reasons, text)
    }
}

/// The kind's name, 16 columns and a space.
fn write_name(kind: Kind, style: Style, text: &mut String) -> std::fmt::Result {
    let name = kind.name();
    match style.color {
        true => text.push_str(&style.paint(name, tone(kind))),
        false => text.push_str(name),
    }
    write!(text, "{:width$} ", "", width = 16usize.saturating_sub(name.len()))
}

fn pad(text: &mut String, to: usize) {
    let missing = to.saturating_sub(text.len());
    text.extend(std::iter::repeat_n(' ', missing));
}

/// Whether offset and length of this kind are bytes of the stream.
fn has_range(kind: Kind) -> bool {
    !matches!(
        kind,
        Kind::SynOptions
            | Kind::Interface
            | Kind::Accept
            | Kind::WindowScale
            | Kind::LeftOut
            | Kind::HopDevice
            | Kind::SocketLayer
            | Kind::TcpState
            | Kind::SendWindow
            | Kind::SocketBuffers
            | Kind::SocketOption
            | Kind::StateChange
            | Kind::Loss
            | Kind::Transaction
            | Kind::BlocksAgain
            | Kind::Wakeup
            | Kind::Run
    )
}

fn tone(kind: Kind) -> Tone {
    match kind {
        Kind::Retransmit | Kind::BlocksAgain | Kind::Drop | Kind::Loss => Tone::Bad,
        Kind::SendEnqueue | Kind::ReceiveDequeue => Tone::Strong,
        kind if kind.point().is_none() => Tone::Faint,
        _ => Tone::Plain,
    }
}

/// The connections shown and the meaning of the columns.
pub(super) fn write_head(
    stores: &[&ConnectionStore],
    range_width: usize,
    has_wall_clock: bool,
    style: Style,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    for store in stores.iter().take(NAMED_MAX) {
        write_connection(store, style, out)?;
    }
    if stores.len() > NAMED_MAX {
        let more = (stores.len() - NAMED_MAX) as u64;
        writeln!(out, "# and {} more", counted(more, "connection"))?;
    }
    // Records of Unix sockets have no acknowledgments.
    let has_acks = stores.iter().any(|store| !store.connection.protocol.is_unix());
    let acks = if has_acks { "; ack: of the other flow's" } else { "" };
    writeln!(out, "{LEGEND}{acks}")?;
    let wall_clock = if has_wall_clock { "wall clock      " } else { "" };
    writeln!(
        out,
        "#{wall_clock}{:>13} {:>11} {:>4}   p {:<16} {:<range_width$} {:>6}  details",
        "time s", "delta us", "flow", "event", "range", "bytes"
    )
}

const LEGEND: &str = "\
# time: seconds since the first event; delta: microseconds since the line above
# >: from the client, <: from the server, *: any flow; p: the point passed, 1 to 8
# range: bytes of the flow's stream, the last one excluded";

fn write_connection(
    store: &ConnectionStore,
    style: Style,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let connection = &store.connection;
    let [from_client, from_server] = store.flows.each_ref().map(|flow| flow.id);
    let (protocol, client, server) = (
        connection.protocol.name(),
        connection.end(sockscope_record::Side::Client),
        connection.end(sockscope_record::Side::Server),
    );
    writeln!(out, "# flows {from_client} >, {from_server} <: {protocol} {client} > {server}")?;
    for process in &connection.processes {
        let (side, comm) = (process.side.name(), style.clean(&process.comm));
        let group = process.named_group().map_or(String::new(), |group| format!(", {group}"));
        writeln!(out, "#   {side} {comm} (pid {}{})", process.pid, style.clean(&group))?;
    }
    Ok(())
}
