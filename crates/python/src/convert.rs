//! `sockscope.convert`: a capture file as a trace bundle.

use std::net::IpAddr;
use std::path::PathBuf;

use pyo3::prelude::*;
use sockscope_convert_cli::args::Convert;
use sockscope_convert_cli::convert::write;

use crate::bundle::{self, Bundle};
use crate::error::Problem;

/// Addresses of the host that captured.
#[derive(FromPyObject)]
pub(crate) enum Host {
    One(String),
    Many(Vec<String>),
}

/// Makes a trace bundle of a capture file (pcap or pcapng, also by gzip), and opens it. `host` has addresses of the
/// host that captured, where the file does not say which packets it sent.
#[pyfunction]
#[pyo3(signature = (capture, out, *, host=None))]
pub(crate) fn convert(
    py: Python<'_>,
    capture: PathBuf,
    out: PathBuf,
    host: Option<Host>,
) -> PyResult<Py<Bundle>> {
    let host = match host {
        None => Vec::new(),
        Some(Host::One(address)) => vec![address],
        Some(Host::Many(addresses)) => addresses,
    };
    let host: Result<Vec<IpAddr>, Problem> = host.iter().map(|text| address(text)).collect();
    std::fs::metadata(&capture).map_err(|error| Problem::file("cannot read", &capture, &error))?;
    let arguments = Convert { file: capture, host: host?, output: out.clone() };
    // The bundle has the notes: `Bundle.notes`.
    py.detach(|| write(&arguments, |_| ()).map_err(Problem::from))?;
    bundle::open(py, out)
}

fn address(text: &str) -> Result<IpAddr, Problem> {
    let expected =
        || Problem::new(format!("host: expected an address as 10.0.0.1, found {text:?}"));
    text.parse().map_err(|_| expected())
}
