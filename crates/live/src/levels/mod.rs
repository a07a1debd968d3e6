//! The service levels of the network library, and the cost of each.
//!
//! "The Influence of Protocol Choice on Network Performance", chapter 5, puts a simple network below a range of
//! libraries, from which an application takes the service that it needs. Here an application sends the same messages
//! at each [`Level`], over datagrams between two namespaces. A level is a part of `sockscope_channel::library`, or none.
//! [`measure`] counts delivered messages and their order, packets, octets and CPU time.
//!
//! Times are nanoseconds of the monotonic clock.

mod figures;
mod level;
mod message;
mod network;
mod plan;
mod reception;
mod repeater;
mod run;
mod transmission;
mod write;

pub use figures::{Figures, Measured, Row};
pub use level::Level;
pub use plan::{Plan, redundancy};
pub use run::measure;
pub use write::{write_json, write_text};
