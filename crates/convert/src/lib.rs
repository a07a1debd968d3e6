//! Traces of other tools as records, so that the same analysis, report and figures serve them; and records in forms of
//! other tools.
//!
//! - [`capture_file`]: pcap and pcapng files;
//! - [`perfetto`]: tracks of slices and counters;
//! - [`pcapng`]: records as capture files, headers made anew;
//! - [`tcpdump`]: the text that tcpdump prints, in the form of 1990 and in that of today;
//! - [`netmon`]: the text of the NETMON (iptrace) kernel monitor, as printed in "Experimental Evaluation of SunOS IPC
//!   and TCP/IP Protocol Implementation", §3.2.
//!
//! A reader of text takes the whole text and gives a [`Capture`]: records in time order, and unreadable lines, with their
//! number, as [`Problem`]s. Times are nanoseconds since midnight of the day on which the text begins, or since the
//! start of its clock. A capture sees packets where it stands: each reader's documentation names its points.

mod capture;
pub mod capture_file;
mod names;
pub mod netmon;
pub mod pcapng;
pub mod perfetto;
pub mod tcpdump;
mod time;

pub use capture::{Capture, Problem};
