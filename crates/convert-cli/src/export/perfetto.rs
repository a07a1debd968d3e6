//! A bundle as tracks: a connection has its two flows, a flow its ledger, queues, calls, and findings.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

use sockscope_analysis::{
    ConnectionAnalysis, ConnectionStore, Detail, Finding, FlowCurve, FlowCurves, FlowStore,
    LedgerSpan, LossInterval, Stores, edges, ledger_spans,
};
use sockscope_convert::perfetto::{Event, Note, Track, TrackId, Writer};
use sockscope_program::failure::Failure;
use sockscope_program::loaded::Loaded;
use sockscope_program::output_dir::create_output;
use sockscope_program::stderr;
use sockscope_record::{Direction, Kind, Point, Process, Side, Stage, counted};
use sockscope_report::place_name;
use sockscope_trace::Bundle;

/// Points of counters in all at most. Above, viewers become slow: a point has some 28 octets.
const COUNTER_POINTS_MAX: usize = 2_000_000;
/// Arrows of a finding at most, as its evidence has.
const ARROWS_MAX: usize = 8;

/// Names of a flow's tracks besides its queues, and their ranks.
const LEDGER: (&str, i32) = ("ledger", 0);
const CALLS: [(&str, i32); 2] = [("write calls", 10), ("read calls", 11)];
const EVIDENCE: [(&str, i32); 3] = [("written", 20), ("taken by TCP", 21), ("read", 22)];
const FINDINGS: (&str, i32) = ("findings", 2);

type Out = Writer<BufWriter<File>>;

/// Writes the file.
pub fn export(dir: &Path, output: &Path) -> Result<(), Failure> {
    let clock = Bundle::open(dir)?.meta().clock.first().copied();
    let (analysis, stores) = Loaded::read(dir)?.finish_keeping();
    let cannot = |error: io::Error| Failure::file("cannot write", output, &error);
    let start = (stores.start_ns, stores.start_ns);
    let (monotonic_ns, realtime_ns) =
        clock.map_or(start, |clock| (clock.monotonic_ns, clock.realtime_ns));
    let file = BufWriter::with_capacity(1 << 18, create_output(output)?);
    let mut out = Writer::new(file, monotonic_ns, realtime_ns).map_err(cannot)?;
    let queues = analysis.connections.len() * 2 * (Stage::ALL.len() - 1);
    let mut exported =
        Exported { out: &mut out, points: COUNTER_POINTS_MAX / queues.max(1), arrows: 0 };
    for one in &analysis.connections {
        let at = stores.connections.binary_search_by_key(&one.connection.id, |it| it.connection.id);
        if let Ok(at) = at {
            exported.connection(one, &stores.connections[at], &stores).map_err(cannot)?;
        }
    }
    let events = out.finish().map_err(cannot)?;
    stderr!("sockscope: {} in {}", counted(events, "event"), output.display());
    Ok(())
}

struct Exported<'a> {
    out: &'a mut Out,
    /// Points of a queue's counter at most.
    points: usize,
    /// Arrows so far.
    arrows: u64,
}

impl Exported<'_> {
    fn connection(
        &mut self,
        one: &ConnectionAnalysis,
        store: &ConnectionStore,
        stores: &Stores,
    ) -> io::Result<()> {
        let connection = &one.connection;
        let losses = stores.losses_of(connection.id);
        let [client, server] =
            [Side::Client, Side::Server].map(|side| program(&connection.processes, side));
        let name = format!("{}: {client} → {server}", connection.id.0);
        let ends = format!(
            "{} {} → {}",
            connection.protocol.name(),
            connection.end(Side::Client),
            connection.end(Side::Server)
        );
        let rank = connection.id.0.cast_signed();
        let track = Track { name: &name, description: &ends, rank, ..Track::default() };
        let top = self.out.track(&track)?;
        let mut ledgers = Vec::new();
        for (rank, direction) in
            [Direction::FromClient, Direction::FromServer].into_iter().enumerate()
        {
            let curves = FlowCurves::new(store, direction, &losses, &stores.drop_reasons);
            let spans = ledger_spans(store, direction, &curves);
            if spans.is_empty() {
                continue;
            }
            let name = format!("from the {}", direction.sender().name());
            let flow =
                Track { name: &name, parent: Some(top), rank: rank as i32, ..Track::default() };
            let flow = self.out.track(&flow)?;
            self.flow(store, direction, flow, &curves, &spans, &losses)?;
            ledgers.push((direction, flow, spans));
        }
        if one.findings.is_empty() {
            return Ok(());
        }
        let (name, rank) = FINDINGS;
        let list = self.out.track(&Track { name, parent: Some(top), rank, ..Track::default() })?;
        for (rank, finding) in one.findings.iter().enumerate() {
            let id = finding.id.name();
            let description = finding.summary.as_str();
            let track = Track {
                name: id,
                description,
                parent: Some(list),
                rank: rank as i32,
                ..Track::default()
            };
            let track = self.out.track(&track)?;
            self.finding(finding, track)?;
            let of = ledgers.iter().find(|(direction, ..)| *direction == finding.flow.direction());
            if let Some((direction, flow, spans)) = of {
                self.evidence(finding, store.flow(*direction), *flow, spans)?;
            }
        }
        Ok(())
    }

    fn flow(
        &mut self,
        store: &ConnectionStore,
        direction: Direction,
        top: TrackId,
        curves: &FlowCurves,
        spans: &[LedgerSpan],
        losses: &[LossInterval],
    ) -> io::Result<()> {
        let is_udp = store.connection.protocol == sockscope_record::Protocol::Udp;
        let (name, rank) = LEDGER;
        let description = "place of the oldest byte that is not yet read";
        let ledger = Track { name, description, parent: Some(top), rank, ..Track::default() };
        let ledger = self.out.track(&ledger)?;
        for span in spans {
            let notes = [Note::Number("oldest byte", span.offset)];
            let name = place_name(span.part.name(), is_udp);
            let event = Event { name, category: "ledger", notes: &notes, arrow: None };
            self.out.slice(ledger, (span.start_ns, span.end_ns), event)?;
        }
        let scale = format!("flow {}", store.flow(direction).id);
        for (rank, stage) in (1..).zip(Stage::ALL.into_iter().filter(|it| *it != Stage::Total)) {
            let detail = FlowCurve::Length(stage).detail(store, direction, curves);
            if detail.is_empty() {
                continue;
            }
            let name = place_name(stage.name(), is_udp);
            let track = Track {
                name,
                parent: Some(top),
                rank,
                bytes_on_scale: Some(&scale),
                description: "",
            };
            let track = self.out.track(&track)?;
            self.queue(&detail, spans, track)?;
        }
        self.calls(store.flow(direction), top)?;
        if !losses.is_empty() {
            let track =
                Track { name: "records missed", parent: Some(top), rank: 9, ..Track::default() };
            let track = self.out.track(&track)?;
            for (start_ns, end_ns, count) in joined(losses) {
                let notes = [Note::Number("records", count)];
                let event = Event { name: "missed", category: "loss", notes: &notes, arrow: None };
                self.out.slice(track, (start_ns, end_ns), event)?;
            }
        }
        Ok(())
    }

    /// A counter: each change, or where there are too many the extremes of columns. An unknown length is no value:
    /// the counter stays, and the ledger has the unknown time.
    fn queue(&mut self, detail: &Detail, spans: &[LedgerSpan], track: TrackId) -> io::Result<()> {
        let mut last = None;
        let end_ns = spans.last().map_or(0, |span| span.end_ns);
        let mut put = |out: &mut Out, at_ns: u64, value: f64| {
            if value.is_nan() || last == Some(value) {
                return Ok(());
            }
            last = Some(value);
            out.count(track, at_ns, value as i64)
        };
        if detail.len() <= self.points {
            for (at_ns, value) in detail.steps() {
                put(self.out, at_ns, value)?;
            }
        } else {
            let (from_ns, columns) =
                (spans.first().map_or(0, |span| span.start_ns), self.points / 3);
            let edges = edges(from_ns, end_ns, columns.max(1));
            let found = detail.columns(&edges);
            for (at, edge) in edges.iter().enumerate().take(found.max.len()) {
                let next = edges[at + 1];
                let third = |part: u64| edge + (next - edge) * part / 3;
                put(self.out, *edge, found.max[at])?;
                put(self.out, third(1), found.min[at])?;
                put(self.out, third(2), found.last[at])?;
            }
        }
        // Viewers draw the last value on for ever: the trace ends here.
        self.out.count(track, end_ns, last.unwrap_or(0.0) as i64)
    }

    /// Calls that were recorded with their ends: `record --calls`.
    fn calls(&mut self, flow: &FlowStore, top: TrackId) -> io::Result<()> {
        if flow.events_of(Kind::WriteReturn).next().is_some() {
            let (name, rank) = CALLS[0];
            let track =
                self.out.track(&Track { name, parent: Some(top), rank, ..Track::default() })?;
            let mut begun = None;
            for event in flow.events.iter() {
                match event.kind {
                    Kind::WriteCall => begun = Some(event.at_ns),
                    Kind::WriteReturn => {
                        let from_ns = begun.take().unwrap_or(event.at_ns);
                        let notes = [
                            Note::Number("octets", event.len.into()),
                            Note::Number("thread", event.thread.into()),
                            Note::Number("error", event.code.into()),
                        ];
                        let call =
                            Event { name: "write", category: "call", notes: &notes, arrow: None };
                        self.out.slice(track, (from_ns, event.at_ns), call)?;
                    }
                    _ => {}
                }
            }
        }
        if flow.events_of(Kind::ReadReturn).next().is_some() {
            let (name, rank) = CALLS[1];
            let track =
                self.out.track(&Track { name, parent: Some(top), rank, ..Track::default() })?;
            for event in flow.events_of(Kind::ReadReturn) {
                let notes = [
                    Note::Number("octets", event.len.into()),
                    Note::Number("thread", event.thread.into()),
                ];
                let call =
                    Event { name: "read returns", category: "call", notes: &notes, arrow: None };
                self.out.instant(track, event.at_ns, call)?;
            }
        }
        Ok(())
    }

    /// A slice for each time of the finding, and its evidence as instants.
    fn finding(&mut self, finding: &Finding, track: TrackId) -> io::Result<()> {
        let name = finding.id.name();
        let notes = [Note::Text("summary", &finding.summary), Note::Text("fix", &finding.fix)];
        let event = Event { name, category: "finding", notes: &notes, arrow: None };
        for (from_ns, to_ns) in &finding.times {
            self.out.slice(track, (*from_ns, *to_ns), event)?;
        }
        for evidence in &finding.evidence {
            let notes = [Note::Text("evidence", &evidence.text)];
            self.out.instant(track, evidence.at_ns, Event { notes: &notes, ..event })?;
        }
        Ok(())
    }

    /// Arrows from write to read of the oldest byte in the first times of a finding.
    fn evidence(
        &mut self,
        finding: &Finding,
        flow: &FlowStore,
        top: TrackId,
        spans: &[LedgerSpan],
    ) -> io::Result<()> {
        let oldest = |at_ns: u64| {
            let after = spans.partition_point(|span| span.start_ns <= at_ns);
            spans.get(after.checked_sub(1)?).map(|span| span.offset)
        };
        let offsets: Vec<u64> = finding
            .times
            .iter()
            .take(ARROWS_MAX)
            .filter_map(|(from_ns, _)| oldest(*from_ns))
            .collect();
        if offsets.is_empty() {
            return Ok(());
        }
        let mut tracks = Vec::new();
        for (name, rank) in EVIDENCE {
            let name = format!("{name} ({})", finding.id.name());
            let track = Track { name: &name, parent: Some(top), rank, ..Track::default() };
            tracks.push(self.out.track(&track)?);
        }
        for offset in offsets {
            self.arrows += 1;
            let points = [Point::SendEnqueue, Point::SendDequeue, Point::ReceiveDequeue];
            for (track, point) in tracks.iter().zip(points) {
                let passes = flow.at(point).iter();
                let with = passes.clone().find(|pass| (pass.offset..pass.end()).contains(&offset));
                let Some(pass) = with else { continue };
                let notes = [Note::Number("from", pass.offset), Note::Number("to", pass.end())];
                let event = Event {
                    name: point.name(),
                    category: "evidence",
                    notes: &notes,
                    arrow: Some(self.arrows),
                };
                self.out.instant(*track, pass.at_ns, event)?;
            }
        }
        Ok(())
    }
}

/// Losses without overlaps: slices of a track must not have any.
fn joined(losses: &[LossInterval]) -> Vec<(u64, u64, u64)> {
    let mut all: Vec<(u64, u64, u64)> = Vec::new();
    for loss in losses {
        match all.last_mut().filter(|(_, end_ns, _)| loss.start_ns <= *end_ns) {
            Some((_, end_ns, count)) => {
                *end_ns = loss.end_ns.max(*end_ns);
                *count += loss.count;
            }
            None => all.push((loss.start_ns, loss.end_ns, loss.count)),
        }
    }
    all
}

/// The program of a side, or a question mark.
fn program(processes: &[Process], side: Side) -> String {
    let process = processes.iter().find(|process| process.side == side);
    let Some(process) = process else { return "?".to_owned() };
    let group = process.named_group().map_or(String::new(), |group| format!(", {group}"));
    format!("{} ({}{group})", process.comm, process.pid)
}
