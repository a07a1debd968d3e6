//! Figures of a trace, and of an experiment, as notebooks show them.

use std::path::PathBuf;
use std::str::FromStr;

use pyo3::prelude::*;
use sockscope_analysis::ConnectionAnalysis;
use sockscope_record::FlowId;
use sockscope_report::plot::{self, Picture, PlotOptions, draw_requests};
use sockscope_report::{Filter, check_flow};

use crate::analysed::Analysed;
use crate::error::Problem;

/// A drawing as SVG.
#[pyclass(frozen, module = "sockscope")]
pub(crate) struct Figure {
    name: String,
    svg: String,
}

impl Figure {
    pub(crate) fn new(name: &str, svg: String) -> Self {
        Self { name: name.to_owned(), svg }
    }
}

#[pymethods]
impl Figure {
    /// The name of the figure, as `queue-length`.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The document.
    #[getter]
    fn svg(&self) -> &str {
        &self.svg
    }

    fn _repr_svg_(&self) -> &str {
        &self.svg
    }

    /// Writes the document into a file. Its name ends in `.svg`.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        if path.extension().is_none_or(|it| !it.eq_ignore_ascii_case("svg")) {
            let line = format!(
                "{}: expected a name that ends in .svg; `sockscope lab png` draws SVG as pixels",
                path.display()
            );
            return Err(Problem::new(line).into());
        }
        let written = py.detach(|| std::fs::write(&path, &self.svg));
        Ok(written.map_err(|error| Problem::file("cannot write", &path, &error))?)
    }

    fn __repr__(&self) -> String {
        format!("<sockscope.Figure {}: {} bytes of SVG>", self.name, self.svg.len())
    }
}

/// The figure to draw, and the part of the trace.
pub(crate) struct Wish {
    pub(crate) figure: String,
    /// `None`: the flow that carried most bytes.
    pub(crate) flow: Option<u32>,
    /// Nanoseconds after the trace's first record.
    pub(crate) from_ns: Option<u64>,
    pub(crate) to_ns: Option<u64>,
    pub(crate) size: (u32, u32),
}

/// Draws a figure of a trace.
pub(crate) fn draw(analysed: &Analysed, wish: &Wish) -> Result<Figure, Problem> {
    let picture = Picture::from_str(&wish.figure)?;
    let (stores, analysis) = (analysed.tables.stores(), analysed.tables.analysis());
    let filter = Filter { from_ns: wish.from_ns, to_ns: wish.to_ns, ..Filter::default() };
    let window_ns = filter.interval_ns(stores.start_ns)?;
    let options = PlotOptions {
        from_ns: wish.from_ns.map(|_| *window_ns.start()),
        to_ns: wish.to_ns.map(|_| *window_ns.end()),
        zero_ns: Some(stores.start_ns),
        width: wish.size.0,
        height: wish.size.1,
        ..PlotOptions::default()
    };
    let figure = match picture {
        Picture::Requests => {
            let svg = draw_requests(analysis, &options)?;
            return Ok(Figure::new(picture.name(), svg));
        }
        Picture::Flow(figure) => figure,
    };
    let asked = wish.flow.map(FlowId);
    let flows = stores.connections.iter().flat_map(|store| &store.flows);
    check_flow(asked, flows.map(|flow| flow.id))?;
    let nothing = || Problem::new("no flow to draw: the trace has no connection");
    let flow = asked.or_else(|| stores.largest_flow()).ok_or_else(nothing)?;
    let mut connections = stores.connections.iter();
    let store = connections.find(|it| it.connection.id == flow.connection()).ok_or_else(nothing)?;
    if let Some((first_ns, last_ns)) = store.span_ns()
        && (first_ns > *window_ns.end() || *window_ns.start() > last_ns)
    {
        let after_ns = |at_ns: u64| at_ns.saturating_sub(stores.start_ns);
        return Err(filter.nothing_then((after_ns(first_ns), after_ns(last_ns))).into());
    }
    let findings = analysis.connection(flow.connection());
    let options = PlotOptions {
        direction: flow.direction(),
        losses: &stores.losses_of(flow.connection()),
        drop_reasons: &stores.drop_reasons,
        uncertainty: findings.and_then(ConnectionAnalysis::uncertainty),
        network_namespaces: &stores.network_namespaces,
        findings: findings.map(|one| one.findings.as_slice()).unwrap_or_default(),
        ..options
    };
    Ok(Figure::new(picture.name(), plot::draw(figure, store, &options)?))
}
