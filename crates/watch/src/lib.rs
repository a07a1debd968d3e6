//! The rules of the flight recorder `sockscope watch`, without a clock, a file or a socket.
//!
//! A [`Condition`] says when the last seconds are worth keeping, [`Recent`] has the figures that it looks at. A [`Ring`]
//! knows the segments of the recording on the disk: those that are surplus, and those that a bundle needs. A [`Quota`] bounds
//! the bundles of an hour, and a [`Budget`] the cost. [`Metrics`] sums up what was seen since the start, and [`Sender`] makes messages of it.
//!
//! Times are nanoseconds of the clock of the records (`CLOCK_MONOTONIC`), so that a step of the wall clock changes
//! nothing.

mod budget;
mod condition;
mod exponential;
mod exposition;
mod labels;
mod metrics;
mod otlp;
mod quota;
mod recent;
mod ring;
#[cfg(test)]
mod testing;

pub use budget::{Budget, Change};
pub use condition::{Condition, Subject};
pub use metrics::{Counted, Metrics};
pub use otlp::Sender;
pub use quota::Quota;
pub use recent::{Recent, Watched, Worst};
pub use ring::{Ring, Segment};
