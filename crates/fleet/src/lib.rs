//! Segments of many hosts in a spool, and the analysis of all of them together.
//!
//! A spool is a folder of Parquet files ([spool](../../../docs/reference/spool.md)). Each host writes its own segments
//! with [`write_segment`]. The key of a connection chooses its bucket, so that both hosts put their records of it into
//! the same one.
//!
//! [`Plan::of`] divides the work into one [`Task`] for each bucket. [`analyse`] makes a [`Summary`] of a task, in any
//! process of any machine that has the spool. [`write_summaries`] adds them up. Its files have the same bytes, whatever
//! the order in which the tasks were done.

mod analyse;
mod bucket;
mod clock_bounds;
mod clocks;
mod described;
mod error;
mod histogram;
mod hour;
mod measure;
mod page;
mod pairs;
mod plan;
mod problem;
mod recorded;
mod segment;
mod summary;
mod tables;
mod write;

pub use analyse::analyse;
pub use bucket::{BUCKETS, bucket};
pub use error::Error;
pub use plan::{Head, Plan, Recording, Run, Task};
pub use problem::{Problem, Trouble};
pub use segment::{BucketFile, Missed, SEGMENTS, Segment};
pub use summary::Summary;
pub use tables::{Written, write_summaries};
pub use write::{Part, write_segment};
