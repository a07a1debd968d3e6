//! The figures of one flow: a drawing that stands without a script, and the columns that a script draws for any zoom.

use maud::{Markup, PreEscaped, html};
use serde_json::{Value, json};
use sockscope_analysis::{
    ConnectionAnalysis, ConnectionStore, Detail, Finding, FlowAnalysis, FlowCurve, FlowCurves,
    LedgerDetail, LedgerPart, Stores, ledger_spans,
};
use sockscope_record::{Point, Protocol, Stage, marks};
use sockscope_render::number::counted;

use super::columns::{edges, sorted};
use super::{bars, findings, pack};
use crate::Report;
use crate::plot::{Figure, PlotOptions, draw};

/// How much of a figure a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Detailed {
    /// Columns at most.
    pub(super) columns: usize,
    /// Whether it has the positions at all points and marks of calls, or only the positions that matter most.
    pub(super) is_whole: bool,
    /// Columns of the bar over time without a script.
    pub(super) bar_columns: usize,
    /// Size of the drawings without a script, in pixels; `None` for no drawing but that of the ledger.
    pub(super) drawing_px: Option<(u32, u32)>,
}

/// Calls and retransmissions that have a mark.
const MARKS_MAX: usize = 400;

/// The figures of a flow.
pub(super) struct FlowFigures {
    /// In the page.
    pub(super) markup: Markup,
    /// For the script.
    pub(super) data: Value,
}

/// A flow with all that its figures need.
pub(super) struct Subject<'r, 'a> {
    pub(super) report: &'r Report<'a>,
    pub(super) stores: &'r Stores,
    pub(super) store: &'r ConnectionStore,
    pub(super) connection: &'a ConnectionAnalysis,
    pub(super) flow: &'a FlowAnalysis,
}

/// Whether a figure shows the curve at first.
fn is_first(curve: FlowCurve) -> bool {
    match curve {
        FlowCurve::Passed(point) => {
            matches!(point, Point::SendEnqueue | Point::SendDequeue | Point::ReceiveDequeue)
        }
        FlowCurve::Length(_) | FlowCurve::Acknowledged | FlowCurve::WindowEdge => true,
    }
}

/// The curves of a flow at any detail.
pub(super) struct Prepared<'r, 'a> {
    subject: Subject<'r, 'a>,
    curves: Vec<(FlowCurve, Detail)>,
    /// Steps of all curves.
    times_ns: Vec<u64>,
    ledger: LedgerDetail,
    span_ns: (u64, u64),
}

impl<'r, 'a> Prepared<'r, 'a> {
    pub(super) fn new(subject: Subject<'r, 'a>) -> Self {
        let (store, direction) = (subject.store, subject.flow.id.direction());
        let losses = subject.stores.losses_of(subject.connection.connection.id);
        let passed = FlowCurves::new(store, direction, &losses, &subject.stores.drop_reasons);
        let is_shown = |curve: &FlowCurve| *curve != FlowCurve::Length(Stage::Total);
        let curves: Vec<(FlowCurve, Detail)> = FlowCurve::all()
            .filter(is_shown)
            .map(|curve| (curve, curve.drawn(store, direction, &passed)))
            .collect();
        Self {
            times_ns: sorted(
                curves.iter().flat_map(|(_, detail)| detail.steps()).map(|(at_ns, _)| at_ns),
            ),
            ledger: LedgerDetail::new(ledger_spans(store, direction, &passed)),
            span_ns: store.span_ns().unwrap_or_default(),
            curves,
            subject,
        }
    }

    pub(super) fn flow(&self) -> &'a FlowAnalysis {
        self.subject.flow
    }

    pub(super) fn figures(&self, detailed: Detailed) -> FlowFigures {
        let edges = edges(&self.times_ns, self.span_ns, detailed.columns);
        let (mut queues, mut positions) = (json!({}), json!({}));
        for (curve, detail) in &self.curves {
            if !detailed.is_whole && !is_first(*curve) {
                continue;
            }
            let Some(text) = pack::curve(&detail.columns(&edges)) else { continue };
            let is_queue = matches!(curve, FlowCurve::Length(_));
            let group = if is_queue { &mut queues } else { &mut positions };
            group[curve.name()] = text.into();
        }
        let (marks, notes) = match detailed.is_whole {
            true => self.subject.marks(),
            false => (json!({}), vec!["calls have no marks here".to_owned()]),
        };
        let mut data = json!({
            "t": pack::times(&edges, self.subject.report.analysis.start_ns),
            "count": edges.len() - 1,
            "queues": queues,
            "positions": positions,
            "marks": marks,
            "notes": notes,
            "ledger": self.subject.ledger(&self.ledger, self.span_ns, detailed.columns),
            "findings": self.subject.findings(),
        });
        if let Some(error) = self.subject.connection.uncertainty() {
            data["error"] = error.at_most_ns().map(|ns| ns as f64 / 1e9).into();
        }
        let markup = self.subject.markup(&self.ledger, self.span_ns, detailed);
        FlowFigures { markup, data }
    }
}

impl Subject<'_, '_> {
    /// Calls and retransmissions, and a note on each kind that has too many of them.
    fn marks(&self) -> (Value, Vec<String>) {
        let flow = self.store.flow(self.flow.id.direction());
        let taken = [Point::SendDequeue, Point::InterfaceDequeue, Point::InputEnqueue];
        let taken = taken.into_iter().find(|point| !flow.at(*point).is_empty());
        let again = taken.map_or(&[][..], |point| flow.at(point)).iter();
        let again = again.filter(|pass| pass.marks & marks::RETRANSMITTED != 0);
        let calls = |point: Point| flow.at(point).iter().filter(|pass| pass.len > 0);
        let of = |pass: &sockscope_analysis::Passage| (pass.at_ns, pass.offset, pass.len);
        let kinds: [(&str, &str, Vec<_>); 3] = [
            ("written", "write", calls(Point::SendEnqueue).map(of).collect()),
            ("read", "read", calls(Point::ReceiveDequeue).map(of).collect()),
            ("retransmitted", "retransmission", again.map(of).collect()),
        ];
        let (mut marks, mut notes) = (json!({}), Vec::new());
        for (name, words, list) in kinds {
            if list.len() > MARKS_MAX {
                notes.push(format!("{} without a mark", counted(list.len() as u64, words)));
            } else if !list.is_empty() {
                marks[name] = pack::marks(&list, self.report.analysis.start_ns).into();
            }
        }
        (marks, notes)
    }

    fn ledger(&self, ledger: &LedgerDetail, span_ns: (u64, u64), columns: usize) -> Value {
        let times = sorted(ledger.spans().iter().flat_map(|span| [span.start_ns, span.end_ns]));
        let edges = edges(&times, span_ns, columns);
        json!({
            "t": pack::times(&edges, self.report.analysis.start_ns),
            "count": edges.len() - 1,
            "places": pack::ledger(&ledger.columns(&edges)),
        })
    }

    /// Times of the findings, each with the words of its mark and its anchor.
    fn findings(&self) -> Value {
        let all: Vec<&Finding> = self.report.findings(self.connection).collect();
        let mut list = Vec::new();
        for (index, finding) in all.into_iter().enumerate() {
            if finding.flow != self.flow.id {
                continue;
            }
            let anchor = findings::anchor(self.connection, index);
            for (from_ns, to_ns) in findings::marked(finding) {
                let start_ns = self.report.analysis.start_ns;
                let seconds = |at_ns: u64| at_ns.saturating_sub(start_ns) as f64 / 1e9;
                list.push(json!([seconds(from_ns), seconds(to_ns), finding.id.name(), anchor]));
            }
        }
        list.into()
    }

    fn markup(&self, ledger: &LedgerDetail, span_ns: (u64, u64), detailed: Detailed) -> Markup {
        let (flow, drawing_px) = (self.flow.id, detailed.drawing_px);
        let over_time = html! {
            (bars::over_time(ledger, span_ns, detailed.bar_columns))
            p class="ends" {
                span { (self.report.times().at(span_ns.0)) }
                span { (self.report.times().at(span_ns.1)) }
            }
        };
        html! {
            div class="figures" id={ "flow-" (flow) "-figures" } data-flow=(flow) {
                (figure("ledger", "Place of the oldest unread byte over time", &over_time))
                (figure("queues", "Bytes in each queue", &self.drawing(Figure::QueueLength, drawing_px)))
                (figure("positions", "Positions in the stream", &self.drawing(Figure::Sequence, drawing_px)))
            }
        }
    }

    fn drawing(&self, figure: Figure, size_px: Option<(u32, u32)>) -> Markup {
        let Some((width, height)) = size_px else { return self.command(figure) };
        let losses = self.stores.losses_of(self.connection.connection.id);
        let options = PlotOptions {
            direction: self.flow.id.direction(),
            zero_ns: Some(self.report.analysis.start_ns),
            width,
            height,
            losses: &losses,
            drop_reasons: &self.stores.drop_reasons,
            uncertainty: self.connection.uncertainty(),
            network_namespaces: &self.stores.network_namespaces,
            ..PlotOptions::default()
        };
        match draw(figure, self.store, &options) {
            Ok(svg) => PreEscaped(inline(&svg)),
            Err(error) => html! { p { (error.to_string()) } },
        }
    }

    /// In the place of a drawing that a small file has no room for.
    fn command(&self, figure: Figure) -> Markup {
        let command = self.report.command("plot").map(|command| {
            format!("{command} --figure {} --flow {} -o F.svg", figure.name(), self.flow.id)
        });
        html! {
            p class="small" {
                "Only a script draws this figure here, to keep the file small."
                @if let Some(command) = command { " As a drawing: " code class="command" { (command) } }
            }
        }
    }
}

fn figure(kind: &str, title: &str, drawing: &Markup) -> Markup {
    html! {
        figure data-kind=(kind) {
            figcaption { (title) }
            div class="figure-static" { (drawing) }
        }
    }
}

/// A document of its own as a part of a page: the page has its style and its hatch once. Texts of a drawing are escaped, so
/// that these tags are its own.
fn inline(svg: &str) -> String {
    let mut rest = svg.replacen(r#" xmlns="http://www.w3.org/2000/svg""#, "", 1);
    for (begin, end) in [("<style>", "</style>"), ("<defs>", "</defs>")] {
        if let Some((before, behind)) = rest.split_once(begin)
            && let Some((_, behind)) = behind.split_once(end)
        {
            rest = format!("{before}{behind}");
        }
    }
    // A name of a part is that of one drawing, and a page has several.
    rest.replace("<g id=", "<g data-part=").replace('\n', "")
}

/// The looks of places and stages: letter, words, and its name where that differs.
pub(super) fn looks() -> Value {
    let mut looks = json!({});
    for part in LedgerPart::ALL {
        let look = crate::palette::place(part);
        looks[part.name()] = json!({ "letter": look.letter, "words": look.meaning });
    }
    for stage in [Stage::SendQueue, Stage::ReceiveQueue] {
        let look = crate::palette::stage(stage);
        looks[stage.name()] = json!({ "letter": look.letter, "words": look.meaning });
    }
    looks
}

/// Whether a flow has anything to draw.
pub(super) fn is_drawn(flow: &FlowAnalysis) -> bool {
    flow.bytes > 0
}

/// Whether names of places are those of UDP.
pub(super) fn is_udp(connection: &ConnectionAnalysis) -> bool {
    connection.connection.protocol == Protocol::Udp
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_in_a_page_has_no_style_and_no_name_of_its_own() {
        let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1\">\n<title>a</title>\n<style>\n.a{}</style>\n\
                   <defs><pattern id=\"hatch\"/></defs>\n<g id=\"wire\"><text>&lt;style&gt;</text></g></svg>\n";
        assert_eq!(
            inline(svg),
            r#"<svg width="1"><title>a</title><g data-part="wire"><text>&lt;style&gt;</text></g></svg>"#
        );
    }
}
