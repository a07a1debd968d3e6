//! `--record`: what a VMTP engine sees of its own queues, into a bundle of its own.
//!
//! `sockscope merge` joins it with what the kernel's probes recorded of the same sockets.

use std::net::SocketAddr;
use std::path::Path;

use sockscope_record::{Process, Side};
use sockscope_trace::{BundleWriter, Hook, HookState, Meta, Source};
use sockscope_vmtp::driver::Trace;
use sockscope_vmtp::observe::Seen;

use crate::failure::Failure;
use crate::machine;

/// Records that are held back, to be put in order of time.
const HELD_BACK: usize = 16_384;

/// A bundle being written.
pub struct Recording {
    trace: Trace,
    writer: BundleWriter,
    meta: Meta,
}

impl Recording {
    /// Into folder `dir`, for the socket at `local`.
    pub fn create(dir: &Path, local: SocketAddr, side: Side) -> Result<Self, Failure> {
        let comm = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
        let process = Process { pid: std::process::id(), comm: comm.trim().to_owned(), side };
        let meta = meta(side);
        let writer = BundleWriter::create(dir, meta.clone())?;
        Ok(Self { trace: Trace::new(local, side, process), writer, meta })
    }

    /// Takes what an engine has seen.
    pub fn take(&mut self, seen: impl FnMut() -> Option<Seen<SocketAddr>>) -> Result<(), Failure> {
        std::iter::from_fn(seen).for_each(|seen| self.trace.add(&seen));
        if self.trace.waiting() > 2 * HELD_BACK {
            self.write(HELD_BACK)?;
        }
        Ok(())
    }

    fn write(&mut self, kept: usize) -> Result<(), Failure> {
        for connection in self.trace.take_connections() {
            self.writer.connection(&connection)?;
        }
        Ok(self.writer.append(&self.trace.take_records(kept))?)
    }

    /// Ends the bundle; `unseen` passages did not fit.
    pub fn finish(mut self, unseen: u64) -> Result<(), Failure> {
        self.write(0)?;
        self.meta.clock.push(machine::clock());
        self.meta.loss.events = unseen;
        Ok(self.writer.finish(self.meta)?)
    }
}

fn meta(side: Side) -> Meta {
    let hook = |point: &str| Hook {
        point: point.to_owned(),
        hook: format!("VMTP {} engine", side.name()),
        state: HookState::Used,
        note: String::new(),
    };
    Meta {
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        source: Source::Engine,
        host: machine::host(),
        kernel: machine::kernel(),
        machine: machine::machine(),
        clock: vec![machine::clock()],
        command: std::env::args().collect(),
        pick: format!("VMTP {} engine", side.name()),
        hooks: vec![hook("SendEnqueue+SendDequeue"), hook("ReceiveEnqueue+ReceiveDequeue")],
        ..Meta::default()
    }
}
