//! Tests of whole runs, in one program: it links the model and compiles its generic code once.

#[path = "../common/mod.rs"]
mod common;

mod buffers;
mod capture;
mod contention;
mod datagrams;
mod faults;
mod interface;
mod model;
mod options;
mod personality;
mod probes;
mod processes;
mod timers;
