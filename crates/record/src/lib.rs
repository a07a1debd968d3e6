//! The model of one observation.
//!
//! A *connection* has two *flows*, one for each direction. A [`Record`] is one event at one time,
//! on one CPU: bytes `[offset, offset + len)` of one flow passed one of the eight [points](Point),
//! or an event of no point happened (see [`Kind`]). Offsets are 64-bit positions in the stream of
//! the flow, 0 being its first byte; for datagrams they are the running byte count.
//!
//! Times are nanoseconds of `CLOCK_MONOTONIC` of the host that made the record (live), or of the
//! simulation's clock (model). Nothing here reads a clock, a file or a socket, and nothing here
//! serializes: `trace` writes records, `report` prints them.

#[macro_use]
mod named;

mod clock_bounds;
mod connection;
mod control_group;
mod hold;
mod kind;
mod loss;
pub mod marks;
mod packed;
mod plural;
mod record;
mod sequence;
pub mod statistics;
pub mod tcp_flags;
pub mod tcp_states;
mod unix_name;

pub use clock_bounds::{ClockBounds, ClockLine, ClockPairs};
pub use connection::{
    Connection, ConnectionId, Direction, FlowId, Process, ProcessKey, Protocol, Side,
};
pub use control_group::{Container, ControlGroup, Pod};
pub use hold::Hold;
pub use kind::{Kind, Point, RetransmitClass, Stage};
pub use loss::{LossCounts, PointCost};
pub use packed::{
    BufferSize, Congestion, Conversion, DevicePlace, Hop, InterfacePart, Loss, PacketDrop,
    ReaderTimes, Retransmission, SegmentHeader, SendWindow, SocketBuffers, SocketLayer,
    SocketOption, StateChange, Transaction, WindowScale,
};
pub use plural::counted;
pub use record::Record;
pub use sequence::Unwrapper;
pub use unix_name::{End, UnixName, UnixNames, unix_ends};
