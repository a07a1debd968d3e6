//! tcpdump, to compare with: headers of the same connection to a file.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::Failure;

/// Ethernet, IPv6 and TCP headers with options fit.
const SNAPSHOT_BYTES: u32 = 96;

/// A running tcpdump, on the CPU of this thread.
pub struct Tcpdump {
    child: Child,
    file: PathBuf,
}

impl Tcpdump {
    /// `None` when it is not installed.
    pub fn start(file: PathBuf, port: u16) -> Result<Option<Self>, Failure> {
        let child = Command::new("tcpdump")
            .args(["-i", "lo", "-n", "-Z", "root", "-s", &SNAPSHOT_BYTES.to_string(), "-w"])
            .arg(&file)
            .args(["tcp", "port", &port.to_string()])
            .stderr(Stdio::piped())
            .spawn();
        let mut child = match child {
            Ok(child) => child,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let talk = child.stderr.take().ok_or("no standard error")?;
        let mut lines = BufReader::new(talk).lines();
        if !lines.any(|line| line.is_ok_and(|line| line.contains("listening on"))) {
            return Err("tcpdump ended instead of listening".into());
        }
        Ok(Some(Self { child, file }))
    }

    /// Ends it; fails when it captured nothing.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.child.kill()?;
        self.child.wait()?;
        let bytes = std::fs::metadata(&self.file)?.len();
        std::fs::remove_file(&self.file)?;
        if bytes < 4096 { Err("tcpdump captured nothing".into()) } else { Ok(()) }
    }
}
