//! The real program on real traffic: each test starts servers and clients of its own, records them
//! and compares the report with what the programs say of themselves.
//!
//! Every test needs root and BPF, so its name begins with `root_`. No test asserts a duration or a
//! rate: only order, cause, counts, bytes, residue and loss. They take turns, because probes see
//! the whole machine and two recordings at once disturb each other.

mod background;
mod bundle;
#[path = "../../../lab/tests/halves/mod.rs"]
mod halves;
mod hosts;
mod link;
mod replays;
mod report;
#[path = "../schema/mod.rs"]
mod schema;
mod servers;
mod turn;

mod ack_storm;
mod asked;
mod blackhole;
mod bounds;
mod churn;
mod connections;
mod datagrams;
mod endings;
mod faces;
mod fast_open;
mod hops;
mod identity;
mod inherited;
mod keeps_up;
mod kernels_own;
mod killed;
mod lab_link;
mod last_trace;
mod low_mark;
mod missed;
mod named;
mod nested;
mod network_queue;
mod one_connection;
mod pacing;
mod programs;
mod readers;
mod refused;
mod remainders;
mod resent;
mod run_as;
mod silly_window;
mod situations;
mod small_reads;
mod soak;
mod socket_buffers;
mod socket_layers;
mod split;
mod stall;
mod three_hosts;
mod trial;
mod trial_link;
mod tun;
mod turned_away;
mod two_clocks;
mod two_hosts;
mod unix_sockets;
mod uring;
mod vmtp;
mod window_scaling;
mod with_hosts;
