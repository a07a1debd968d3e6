//! One remote call in two forms: through layers, and by one integrated path.
//!
//! "Is Layering Harmful?" ends with the advice of Clark and Tennenhouse (SIGCOMM 1990): layers for
//! the model, not for the code; functions that touch the data go over it once, and buffers follow
//! the application's data unit. Here both are one program:
//!
//! - [`Layered`]: the stub encodes into XDR's buffer of 4,000 octets, `write()` copies each into the
//!   socket's queue, TCP copies segments out of it and then sums them; the receiver sums, copies to
//!   its queue, to the stub's buffer, to the application.
//! - [`Integrated`]: for each segment one loop reads the application's data, writes the segment and
//!   sums; the receiver's loop reads the segment, writes the application's data and sums.
//!
//! Both carry the same call: the ten header words of an RPC (RFC 5531 §9), a length and the data.
//! What an octet costs is counted as [`Touches`] of memory: the form says how often each octet of the
//! data is read and written, whatever the machine; a machine says what a touch costs. [`compare`] measures on this machine,
//! [`model()`] charges the counted passes to a machine of the papers.

mod chart;
mod form;
mod measure;
mod model;
mod pass;
mod work;
mod write;
mod write_model;

pub use chart::{chart, model_chart};
pub use form::{Damage, Form, Integrated, Layered, SEGMENT_BYTES, Touches, Wire};
pub(crate) use measure::cpu_time;
pub use measure::{Comparison, Plan, Row, compare};
pub use model::{ModelPlan, ModelRow, Modelled, model};
pub use work::{Pass, PassCount, Work};
pub use write::{write_csv, write_json, write_text};
pub use write_model::{write_model_csv, write_model_json, write_model_text};

/// The id under which this comparison is listed and run.
pub const ID: &str = "integrated-path";
