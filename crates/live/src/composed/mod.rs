//! Functions over data that plug into one path, over a socket.
//!
//! "Is Layering Harmful?" recommends a single path from the application to the wire. Functions plug into it, each
//! octet passes one loop, and limits and needs are exchanged between the functions. Here:
//!
//! - A [`Function`] is one of [`Convert`], [`Encrypt`] and [`Sum`], or a [`Chain`] of two. All are composed at compile
//!   time: the loop of a path has their code and no call through a pointer.
//! - A function's [`Limits`] go up: the octets of a block, the alignment, the unit of a message's length. A [`Path`]
//!   adds those of the network, and the application asks for [`Path::data_bytes_max`].
//! - Its [`Needs`] go down: space in the header, a number for each message, a key.
//! - A path goes over the data once, in units. With a unit of [`WHOLE`] each function goes over the whole message
//!   before the next one begins, as separate layers do.
//!
//! [`measure`] compares both forms in memory and over sockets of this machine.

mod carrier;
mod case;
mod chart;
mod function;
mod functions;
mod measure;
mod path;
mod write;

pub use carrier::Carrier;
pub use case::Combination;
pub use chart::chart;
pub use function::{Chain, Function, Limits, Needs};
pub use functions::{CIPHER_KEY_BYTES, Convert, Encrypt, Sum};
pub use measure::{Measured, Plan, Row, measure};
pub use path::{Damage, LimitError, Path, WHOLE};
pub use write::{write_csv, write_json, write_text};

/// The id under which this comparison is listed and run.
pub const ID: &str = "integrated-socket";
