//! Shared parts of the programs `sockscope`, `sockscope-lab` and `sockscope-view`: their errors, messages, exit status, and the
//! files that they read and write.
//!
//! Results go to standard output, messages to standard error ([`stderr!`]). Any error that ends a program with
//! status 2 is a [`Failure`](failure::Failure) of one line.

// It panics on a write error: use `stderr!`.
#![deny(clippy::print_stderr)]

#[macro_use]
pub mod stderr;

mod cut;
pub mod failure;
pub mod filter_args;
pub mod give_way;
pub mod hand_over;
pub mod last_trace;
pub mod loaded;
pub mod machine;
mod memory;
pub mod outcome;
pub mod output;
pub mod output_dir;
pub mod pick;
pub mod pick_name;
pub mod progress;
pub mod recorded;
pub mod recorder_thread;
pub mod shell;
pub mod signals;
pub mod suggest;
pub mod temporary;
pub mod times;
pub mod usage_error;
pub mod user_terminal;
