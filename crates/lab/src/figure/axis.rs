//! Axes of a chart.

use sockscope_experiment::Scale;
use sockscope_render::chart::{ChartAxis, Spread};
use sockscope_render::units::Quantity;

/// An axis with equal steps.
pub(super) fn linear_axis(name: &str, quantity: Quantity) -> ChartAxis {
    ChartAxis { name: name.to_owned(), quantity, spread: Spread::Linear }
}

pub(super) fn axis(name: String, quantity: Quantity, scale: Scale) -> ChartAxis {
    let spread = match scale {
        Scale::Linear => Spread::Linear,
        Scale::Log => Spread::Log,
        Scale::Doubling => Spread::Doubling,
        Scale::Places => Spread::Places,
    };
    ChartAxis { name, quantity, spread }
}
