//! What the programs `sockscope` and `sockscope-lab` share: their errors, messages, exit status, and the
//! files that they read and write.
//!
//! Results go to standard output, messages to standard error ([`talk`]). Whatever ends a program with
//! status 2 is a [`Failure`](failure::Failure) of one line.

// Where nobody listens any more it would panic: see `talk`.
#![deny(clippy::print_stderr)]

#[macro_use]
pub mod talk;

pub mod failure;
pub mod loaded;
pub mod machine;
mod memory;
pub mod outcome;
pub mod output;
pub mod place;
pub mod signals;
pub mod suggest;
pub mod usage;
