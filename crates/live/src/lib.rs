//! Experiments on this machine: the questions of the papers, asked of today's kernel.
//!
//! [`protocols`] compares the cost of a call over TCP, UDP, Unix sockets, VMTP, QUIC and shared memory;
//! [`integrated`] compares a call through layers with a call by one path, and [`composed`] functions in one loop with
//! separate passes, over a socket. [`profile`] shows which functions of the
//! kernel have the CPU time of a command. Times are nanoseconds of the
//! monotonic clock. [`kernel`] runs the experiments of the papers. Each result has
//! the [`conditions`] of its runs. [`levels`] has the cost of each service level of the network library. [`host`] runs a stack of the 1980s as a host that this kernel talks with.

mod collector;
pub mod composed;
pub mod conditions;
pub mod host;
pub mod integrated;
pub mod kernel;
pub mod levels;
mod parse;
pub mod profile;
pub mod protocols;
