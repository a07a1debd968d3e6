//! Runs side by side: two bundles, or the rounds without a change and the rounds with it.
//!
//! Connections are matched by their role, those of one role are compared as a group. A [`Comparison`] is made once, and
//! written as text, JSON, CSV or a figure.

mod change;
mod comparison;
mod csv;
mod figure;
mod group;
mod json;
mod matching;
mod role;
mod text;

#[cfg(test)]
mod tests;

pub use comparison::{Compared, Comparison};
pub use csv::write_compare_csv;
pub use figure::draw_compare;
pub use group::exchange_times_ns;
pub use json::write_compare_json;
pub use text::write_compare;
