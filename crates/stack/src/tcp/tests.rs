//! TCP as traces: see [`testing`](super::testing) for how they are written.

mod faults;
mod papers;
