//! `sockscope plot`: a figure of one flow or of all connections, or all figures.

use std::ffi::OsString;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use sockscope_analysis::{Analysis, ConnectionStore, Finding, Stores, Uncertainty};
use sockscope_program::failure::Failure;
use sockscope_program::hand_over::hand_over_text;
use sockscope_program::last_trace::or_last;
use sockscope_program::loaded::{analyze_keeping, analyze_part, chosen};
use sockscope_program::output::write_to;
use sockscope_program::suggest::did_you_mean;
use sockscope_record::FlowId;
use sockscope_report::plot::{
    Figure, HostBand, Picture, PlotOptions, draw, draw_clocks, draw_requests,
};
use sockscope_report::{Filter, check_flow};
use sockscope_trace::Bundle;

use crate::args;

/// The word that asks for every picture.
const ALL: &str = "all";
/// The word that asks for how well the clocks of several hosts are known.
const CLOCKS: &str = "clocks";

/// `sockscope plot`.
pub fn plot(arguments: &args::Plot) -> Result<(), Failure> {
    if arguments.figure == ALL {
        return plot_all(arguments);
    }
    let svg = if arguments.figure == CLOCKS { clocks(arguments)? } else { picture(arguments)? };
    if is_of_pixels(&arguments.output) {
        let mut output = OsString::from("--output=");
        output.push(&arguments.output);
        let words = ["lab", "png", "-"].map(OsString::from).into_iter().chain([output]);
        return Err(hand_over_text("plot -o NAME.png", words, &svg));
    }
    write_to(&arguments.output, |out| out.write_all(svg.as_bytes()))
}

fn picture(arguments: &args::Plot) -> Result<String, Failure> {
    let picture = Picture::from_str(&arguments.figure).map_err(|error| {
        let names = Picture::all().map(Picture::name).chain([CLOCKS, ALL]);
        Failure::new(format!("{error}{}", did_you_mean(&arguments.figure, names)))
    })?;
    match picture {
        Picture::Requests => Requests::read(arguments)?.draw(arguments),
        Picture::Flow(figure) => OneFlow::read(arguments)?.draw(figure, arguments),
    }
}

/// The bands of a merged bundle's clocks.
fn clocks(arguments: &args::Plot) -> Result<String, Failure> {
    let dir = or_last(arguments.dir.as_deref())?;
    let bundle = Bundle::open(&dir)?;
    let bands = bundle.meta().clock_bands.iter().map(|band| HostBand {
        host: &band.host,
        base: &band.base,
        segments: band.segments,
        edges_ns: band.edges.iter().map(|it| [it.at_ns, it.early_ns, it.late_ns]).collect(),
    });
    let bands: Vec<HostBand<'_>> = bands.collect();
    let firsts = bands.iter().filter_map(|band| Some(band.edges_ns.first()?[0]));
    let options = PlotOptions {
        zero_ns: firsts.min(),
        width: arguments.width,
        height: arguments.height,
        ..PlotOptions::default()
    };
    draw_clocks(&bands, &options).map_err(|error| Failure::new(error.to_string()))
}

/// Whether the file is to be PNG, by its name.
fn is_of_pixels(output: &Path) -> bool {
    output.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png"))
}

/// Every picture, as a file of its own in the folder.
fn plot_all(arguments: &args::Plot) -> Result<(), Failure> {
    let folder = &arguments.output;
    if folder.as_os_str() == "-" {
        return Err(Failure::new(
            "--figure all draws several files: name a folder for them with -o DIR",
        ));
    }
    let clocks = clocks(arguments)?;
    let (requests, flow) = (Requests::read(arguments)?, OneFlow::read(arguments)?);
    let cannot = |error| Failure::new(format!("cannot create {}: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(cannot)?;
    write_to(&folder.join(CLOCKS).with_extension("svg"), |out| out.write_all(clocks.as_bytes()))?;
    for picture in Picture::all() {
        let svg = match picture {
            Picture::Requests => requests.draw(arguments)?,
            Picture::Flow(figure) => flow.draw(figure, arguments)?,
        };
        let path = folder.join(picture.name()).with_extension("svg");
        write_to(&path, |out| out.write_all(svg.as_bytes()))?;
    }
    Ok(())
}

/// The requests of all connections, and the interval to draw.
struct Requests {
    analysis: Analysis,
    interval: Interval,
}

impl Requests {
    fn read(arguments: &args::Plot) -> Result<Self, Failure> {
        let dir = or_last(arguments.dir.as_deref())?;
        let filter = chosen(&dir, &arguments.filter.filter())?;
        let analysis = analyze_part(&dir, &filter.without_interval())?.0;
        let interval = Interval::of(&filter, analysis.start_ns)?;
        Ok(Self { analysis, interval })
    }

    fn draw(&self, arguments: &args::Plot) -> Result<String, Failure> {
        let options = self.interval.options(arguments);
        draw_requests(&self.analysis, &options).map_err(|error| Failure::new(error.to_string()))
    }
}

/// The records of one flow, and the interval to draw.
struct OneFlow {
    stores: Stores,
    /// Those of its connection.
    findings: Vec<Finding>,
    uncertainty: Option<Uncertainty>,
    flow: FlowId,
    interval: Interval,
}

impl OneFlow {
    fn read(arguments: &args::Plot) -> Result<Self, Failure> {
        let dir = or_last(arguments.dir.as_deref())?;
        let filter = chosen(&dir, &arguments.filter.filter())?;
        // A figure draws an interval of curves that begin before it.
        let (analysis, mut stores) = analyze_keeping(&dir, &filter.without_interval())?;
        let interval = Interval::of(&filter, stores.start_ns)?;
        let asked = arguments.flow.map(FlowId);
        let flows = stores.connections.iter().flat_map(|store| &store.flows);
        check_flow(asked, flows.map(|flow| flow.id))?;
        if asked.is_none() {
            keep_active(&mut stores, &filter, &interval.window_ns)?;
        }
        let nothing = || Failure::new(format!("{}: no flow to draw", dir.display()));
        let flow = asked.or_else(|| stores.largest_flow()).ok_or_else(nothing)?;
        let mut connections = stores.connections.iter();
        let store =
            connections.find(|it| it.connection.id == flow.connection()).ok_or_else(nothing)?;
        check_window(store, stores.start_ns, &interval.window_ns)?;
        stores.connections.retain(|store| store.connection.id == flow.connection());
        let mut analyses = analysis.connections.into_iter();
        let of_flow = analyses.find(|one| one.connection.id == flow.connection());
        let uncertainty = of_flow.as_ref().and_then(|one| one.uncertainty());
        let findings = of_flow.map(|one| one.findings).unwrap_or_default();
        Ok(Self { stores, findings, uncertainty, flow, interval })
    }

    fn draw(&self, figure: Figure, arguments: &args::Plot) -> Result<String, Failure> {
        let Self { stores, findings, uncertainty, flow, interval } = self;
        let options = PlotOptions {
            direction: flow.direction(),
            losses: &stores.losses_of(flow.connection()),
            drop_reasons: &stores.drop_reasons,
            uncertainty: *uncertainty,
            network_namespaces: &stores.network_namespaces,
            findings,
            ..interval.options(arguments)
        };
        let svg = stores.connections.iter().map(|store| draw(figure, store, &options)).next();
        let svg = svg.ok_or_else(|| Failure::new(format!("flow {flow}: no connection has it")))?;
        svg.map_err(|error| Failure::new(error.to_string()))
    }
}

/// The time that is asked for, and the zero of all times.
struct Interval {
    start_ns: u64,
    window_ns: RangeInclusive<u64>,
    has_from: bool,
    has_to: bool,
}

impl Interval {
    fn of(filter: &Filter, start_ns: u64) -> Result<Self, Failure> {
        let window_ns = filter.interval_ns(start_ns)?;
        let (has_from, has_to) = (filter.from_ns.is_some(), filter.to_ns.is_some());
        Ok(Self { start_ns, window_ns, has_from, has_to })
    }

    fn options(&self, arguments: &args::Plot) -> PlotOptions<'static> {
        PlotOptions {
            from_ns: self.has_from.then_some(*self.window_ns.start()),
            to_ns: self.has_to.then_some(*self.window_ns.end()),
            zero_ns: Some(self.start_ns),
            width: arguments.width,
            height: arguments.height,
            ..PlotOptions::default()
        }
    }
}

/// Leaves the connections that have records in the window.
fn keep_active(
    stores: &mut Stores,
    filter: &Filter,
    window_ns: &RangeInclusive<u64>,
) -> Result<(), Failure> {
    let spans: Vec<_> = stores.connections.iter().filter_map(ConnectionStore::span_ns).collect();
    stores.connections.retain(|store| store.span_ns().is_none_or(|span| meet(span, window_ns)));
    if !stores.connections.is_empty() || spans.is_empty() {
        return Ok(());
    }
    let first_ns = spans.iter().map(|span| span.0).min().unwrap_or_default();
    let last_ns = spans.iter().map(|span| span.1).max().unwrap_or_default();
    let after_ns = |at_ns: u64| at_ns.saturating_sub(stores.start_ns);
    Err(filter.nothing_then((after_ns(first_ns), after_ns(last_ns))).into())
}

/// Refuses a window in which the connection has no record, and says where it has some.
fn check_window(
    store: &ConnectionStore,
    start_ns: u64,
    window_ns: &RangeInclusive<u64>,
) -> Result<(), Failure> {
    let Some(span_ns) = store.span_ns().filter(|span_ns| !meet(*span_ns, window_ns)) else {
        return Ok(());
    };
    let second = |at_ns: u64| Duration::from_nanos(at_ns.saturating_sub(start_ns)).as_secs_f64();
    Err(Failure::new(format!(
        "nothing to show: connection {} lasts from {:.6} s to {:.6} s after the trace's first record, from \
         which --from and --to count",
        store.connection.id.0,
        second(span_ns.0),
        second(span_ns.1)
    )))
}

fn meet((first_ns, last_ns): (u64, u64), window_ns: &RangeInclusive<u64>) -> bool {
    first_ns <= *window_ns.end() && *window_ns.start() <= last_ns
}
