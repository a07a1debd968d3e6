//! `--record`: what a VMTP engine sees of its own queues, into a bundle of its own.
//!
//! `sockscope merge` joins it with what the kernel's probes recorded of the same sockets.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use sockscope_program::failure::Failure;
use sockscope_program::machine;
use sockscope_program::output_dir::{DirLock, OutputDir};
use sockscope_record::{Process, Side};
use sockscope_trace::{BundleWriter, Hook, HookState, Meta, Source};
use sockscope_vmtp::driver::{Trace, Transport};
use sockscope_vmtp::observe::Seen;

/// Records that are held back, to be put in order of time.
const HELD_BACK: usize = 16_384;

/// What a reader of raw IP's flows must know.
const RAW_NOTE: &str = "packets of IP protocol 81, which has no ports: shown as udp at port 81, and \
                        all clients of an address as one; only engines see them";
/// Stands where flows of raw IP have no port.
const RAW_PORT: u16 = 81;

/// A bundle being written.
pub struct Recording {
    dir: PathBuf,
    transport: Transport,
    trace: Trace,
    writer: BundleWriter,
    /// No other thread writes there meanwhile.
    _lock: DirLock,
    meta: Meta,
}

impl Recording {
    /// Into folder `dir`, for the socket at `local`.
    pub fn create(
        dir: &Path,
        transport: Transport,
        local: SocketAddr,
        side: Side,
    ) -> Result<Self, Failure> {
        let comm = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
        let process = Process::new(std::process::id(), comm.trim(), side);
        let mut meta = meta(side);
        meta.notes.extend((transport == Transport::Raw).then(|| RAW_NOTE.to_owned()));
        let (writer, lock) = OutputDir::find(dir, &[])?.create(meta.clone())?;
        let trace = Trace::new(shown(transport, local), side, process);
        Ok(Self { dir: dir.to_owned(), transport, trace, writer, _lock: lock, meta })
    }

    /// Takes what an engine has seen.
    pub fn take(&mut self, seen: impl FnMut() -> Option<Seen<SocketAddr>>) -> Result<(), Failure> {
        for seen in std::iter::from_fn(seen) {
            self.trace.add(&Seen { peer: shown(self.transport, seen.peer), ..seen });
        }
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
        self.meta.clock.push(machine::reading());
        self.meta.loss.events = unseen;
        self.writer.finish(self.meta)?;
        let dir = self.dir.display();
        stderr!("sockscope: what the engine saw is in {dir}; see it: sockscope report {dir}");
        Ok(())
    }
}

/// The place that stands for a socket's.
fn shown(transport: Transport, at: SocketAddr) -> SocketAddr {
    match transport {
        Transport::Udp => at,
        Transport::Raw => SocketAddr::new(at.ip(), RAW_PORT),
    }
}

/// A recording on a thread of its own, for a client that makes many calls at once.
pub struct Background {
    worker: JoinHandle<Result<Recording, Failure>>,
}

impl Background {
    /// Records what is sent to the channel, until all of its senders are dropped.
    pub fn start(mut recording: Recording) -> (Self, Sender<Seen<SocketAddr>>) {
        let (to, from): (_, Receiver<Seen<SocketAddr>>) = channel();
        let worker = thread::spawn(move || {
            for seen in from {
                let mut seen = Some(seen);
                recording.take(|| seen.take())?;
            }
            Ok(recording)
        });
        (Self { worker }, to)
    }

    /// Ends the bundle; `unseen` passages did not fit.
    pub fn finish(self, unseen: u64) -> Result<(), Failure> {
        let recording = self.worker.join().map_err(|_| Failure::new("the recording panicked"))?;
        recording?.finish(unseen)
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
        clock: vec![machine::reading()],
        command: std::env::args().collect(),
        pick: format!("VMTP {} engine", side.name()),
        hooks: vec![hook("SendEnqueue+SendDequeue"), hook("ReceiveEnqueue+ReceiveDequeue")],
        ..Meta::default()
    }
}
