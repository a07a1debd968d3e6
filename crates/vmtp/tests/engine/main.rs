//! Tests of the engines without I/O, in one program: it compiles their generic code once.
//!
//! Tests with real sockets, files or processes are programs of their own: they limit, kill or load processes.

#[path = "../common/mod.rs"]
mod common;

mod bits;
mod exchange;
mod faults;
mod many;
mod observe;
mod orphans;
mod rate;
mod strangers;
mod timers;
mod vectors;
