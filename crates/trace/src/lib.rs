//! The trace bundle: a folder with the records, and the facts of the recording.
//!
//! `records.arrows` and `flows.arrows` are Arrow IPC *streams*: they only grow, whole batch by
//! whole batch, so that a bundle whose writer was killed opens to its last whole batch. `meta.json`
//! has host, kernel, clock, hooks, loss and cost. `docs/reference/bundle.md` describes the format.
//!
//! [`BundleWriter`] writes a bundle, [`Bundle`] opens one and gives its whole parts with a list of
//! [`Problem`]s; [`Follower`] reads one that still grows, [`check()`] holds one against itself, and
//! [`merge()`] makes one of two hosts' bundles, or of a kernel's and a protocol engine's.
//!
//! Times are those of the records: nanoseconds of `CLOCK_MONOTONIC` of the recorded host, which
//! [`Meta::clock`] relates to the time since 1970. Nothing here reads a clock or sleeps, and no
//! input is trusted: hostile bytes give problems, not panics.

mod append;
mod bundle;
mod by_mark;
mod check;
mod clock_band;
mod columns;
mod compat;
mod crossings;
mod damage;
mod error;
mod files;
mod flows;
mod folder;
mod follow;
mod format;
mod groups;
mod join;
mod layout;
mod limit;
mod merge;
mod merge_counts;
mod merge_meta;
mod merge_plan;
mod merged;
mod meta;
mod meta_json;
#[cfg(test)]
mod meta_schema;
mod meta_seal;
mod openings;
mod output;
mod point_tables;
mod records;
mod seal;
mod stream;
mod texts;
mod writer;

pub use bundle::{Bundle, is_bundle};
pub use check::{CheckReport, Checker, check};
pub use clock_band::{ClockBand, ClockEdge};
pub use error::{Error, Problem};
pub use flows::ConnectionReader;
pub use folder::Folder;
pub use follow::Follower;
pub use format::{BATCH_RECORDS, FORMAT_VERSION, META_UNFINISHED, Part, TIME_STEP_BACK_NS_MAX};
pub use limit::{RECORD_BYTES_MAX, SizeLimit, connection_bytes_max};
pub use merge::{merge, merge_into};
pub use merged::Merged;
pub use meta::{ClockSnapshot, Hook, HookState, Interface, Machine, Meta, Ring, Source};
pub use records::RecordReader;
pub use writer::{BundleWriter, MetaUpdate};
