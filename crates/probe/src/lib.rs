//! The kernel probes: BPF programs, their loader, activation and doctor.
//!
//! [`Recorder`] loads the programs of `src/bpf`, attaches them by the table of [`HOOKS`], and
//! hands [`Record`](sockscope_record::Record)s to a [`Sink`]. Times are nanoseconds of
//! `CLOCK_MONOTONIC`. Only header fields, lengths and times are read, never payload. Programs,
//! maps and links belong to this process and go with it, also when it is killed.

// Maps, mmap and system calls; every block explains why it is sound.
#![allow(unsafe_code)]

mod backlog;
#[cfg(feature = "bench")]
pub mod bench;
mod capabilities;
mod cgroup;
mod change_watch;
mod control_groups;
mod decode;
mod doctor;
mod error;
mod force;
mod hooks;
mod input_devices;
mod layout;
mod lists;
mod mapped;
mod names;
mod object;
mod pick;
mod priority;
mod programs;
mod recorder;
mod rights;
mod sample;
mod spawn;

pub use backlog::Backlog;
pub use cgroup::Cgroup;
pub use control_groups::{ControlGroups, GroupFolder};
pub use doctor::{HitCost, drop_reasons, measure, probe_hooks};
pub use error::Error;
pub use force::{Fix, FixKind, Force, ForcedPeer, Outcome, Scope, Sides, supported_fixes};
pub use hooks::{HOOKS, HookEntry, When};
pub use names::folders_of_names;
pub use pick::{Pick, SoLog};
pub use priority::{Class, Priority, Thread};
pub use programs::{HookReport, Statistics};
pub use recorder::{Options, Recorder, Sink, Summary, monotonic_ns};
pub use rights::{Right, missing as missing_right, rights};
pub use sample::{Openings, Share, sample_hash};
pub use spawn::{RunAs, spawn};
