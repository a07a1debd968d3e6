//! Figures as SVG text.
//!
//! Each [`Figure`] looks at one direction of a connection over a span of time; [`draw_requests`] looks at
//! all connections, and [`draw_clocks`] at the clocks of several hosts. Drawing is pure: the same store and options give the same text, with no clock, no file
//! and no hash order. Figures of long traces keep to pixel resolution (an envelope of extremes for each
//! pixel column, with a note in the figure), so their size does not follow the number of records.
//!
//! Content of each figure and the way to read it: `docs/reference/plots.md`.

mod acks;
mod clocks;
mod curves;
mod error_band;
mod figure_page;
mod ladder;
mod layers;
mod ledger;
mod marks;
mod options;
mod overlay;
mod packet_trace;
mod places;
mod protocol_delay;
mod queue_delay;
mod queue_length;
mod requests;
mod scene;
mod sequence;
mod spans;
mod step_line;
mod time_sequence;
mod unix;

#[cfg(test)]
mod tests;

use sockscope_analysis::ConnectionStore;

pub use clocks::{HostBand, draw_clocks};
pub use options::{Figure, Picture, PlotError, PlotOptions};
pub use overlay::{Overlay, Run, overlay};
pub use requests::draw_requests;
use scene::Scene;

/// Draws `figure` of one connection as an SVG document.
///
/// Where the store holds nothing to draw, the figure names the missing records. Fails only on options
/// that no figure can be drawn with.
pub fn draw(
    figure: Figure,
    store: &ConnectionStore,
    options: &PlotOptions<'_>,
) -> Result<String, PlotError> {
    let scene = Scene::new(store, options, figure)?;
    if scene.is_unix()
        && let Some(without) = unix::without(figure)
    {
        return Ok(unix::draw(&scene, without));
    }
    Ok(match figure {
        Figure::PacketTrace => packet_trace::draw(&scene),
        Figure::QueueLength => queue_length::draw(&scene),
        Figure::QueueDelay => queue_delay::draw(&scene),
        Figure::ProtocolDelay => protocol_delay::draw(&scene),
        Figure::Acks => acks::draw(&scene),
        Figure::TimeSequence => time_sequence::draw(&scene),
        Figure::Sequence => sequence::draw(&scene),
        Figure::Layers => layers::draw(&scene),
        Figure::Ledger => ledger::draw(&scene),
    })
}
