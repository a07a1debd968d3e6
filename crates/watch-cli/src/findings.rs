//! Findings as lines of JSON.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;
use sockscope_analysis::Analysis;
use sockscope_program::failure::Failure;
use sockscope_record::Side;
use sockscope_trace::ClockSnapshot;

/// The file that takes the lines. Where it was renamed or removed, as by a rotation of logs, a new one is begun.
pub enum Lines {
    Stdout,
    File { path: PathBuf, file: File },
}

/// A finding of one connection since the last refresh.
#[derive(Debug, Serialize)]
struct Line<'a> {
    schema: &'static str,
    /// Nanoseconds since 1970, at the end of the refresh.
    at_ns: i128,
    finding: &'static str,
    connection: u32,
    client: String,
    server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_network_namespace_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_network_namespace_name: Option<&'a str>,
    processes: Vec<&'a str>,
    side: &'static str,
    count: u64,
    cost_ns: u64,
    summary: &'a str,
    fix: &'a str,
}

impl Lines {
    /// Opens the file; `-` is standard output.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        let file = open(path).map_err(|error| Failure::file("cannot write", path, &error))?;
        Ok(Self::File { path: path.to_owned(), file })
    }

    /// Writes the findings of this analysis, which ends at `until_ns` of its clock.
    pub fn write(
        &mut self,
        analysis: &Analysis,
        until_ns: u64,
        clock: ClockSnapshot,
    ) -> io::Result<()> {
        let mut text = Vec::new();
        for one in &analysis.connections {
            for finding in &one.findings {
                let line = Line {
                    schema: "sockscope.finding/1",
                    at_ns: i128::from(until_ns) + clock.offset_ns(),
                    finding: finding.id.name(),
                    connection: one.connection.id.0,
                    client: one.connection.end(Side::Client).to_string(),
                    server: one.connection.end(Side::Server).to_string(),
                    client_network_namespace_name: one.namespace_name(Side::Client),
                    server_network_namespace_name: one.namespace_name(Side::Server),
                    processes: one.connection.processes.iter().map(|it| it.comm.as_str()).collect(),
                    side: finding.side.name(),
                    count: finding.count,
                    cost_ns: finding.cost_ns,
                    summary: &finding.summary,
                    fix: &finding.fix,
                };
                serde_json::to_writer(&mut text, &line)?;
                text.push(b'\n');
            }
        }
        if text.is_empty() {
            return Ok(());
        }
        match self {
            Self::Stdout => io::stdout().lock().write_all(&text),
            Self::File { path, file } => {
                let own = file.metadata()?;
                let is_there =
                    path.metadata().is_ok_and(|it| (it.dev(), it.ino()) == (own.dev(), own.ino()));
                if !is_there {
                    *file = open(path)?;
                }
                file.write_all(&text)
            }
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}
