//! Sealed segments written into the spool of a fleet, in a thread of its own: the recorder never waits for it.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;

use sockscope_fleet::{Part, write_segment};
use sockscope_program::failure::Failure;
use sockscope_program::machine;
use sockscope_trace::Bundle;

use crate::segments::Sealed;

/// Segments that wait at most. With more the disk or a CPU is too slow, and later ones are left out.
const WAITING_MAX: usize = 8;

/// Writes segments into a spool.
pub struct Spool {
    sender: SyncSender<(Sealed, bool)>,
    done: Receiver<(u64, Result<(), String>)>,
    thread: JoinHandle<()>,
    counts: Counts,
}

/// Segments that are in the spool, and those that are left out.
#[derive(Clone, Copy, Default)]
struct Counts {
    written: u64,
    left_out: u64,
}

impl Spool {
    /// Starts the thread. The recording has the time of this moment as its name.
    pub fn start(folder: PathBuf) -> Result<Self, Failure> {
        let run = format!("{:016x}", machine::clock().realtime_ns);
        let (sender, segments) = sync_channel::<(Sealed, bool)>(WAITING_MAX);
        let (finished, done) = channel();
        let thread = std::thread::Builder::new().name("spool".to_owned());
        let thread = thread.spawn(move || {
            for (segment, is_last) in segments {
                let written = write(&folder, &run, &segment, is_last);
                let _ = finished.send((segment.number, written));
            }
        });
        let thread = thread.map_err(|error| {
            Failure::new(format!("no thread can be started for --spool: {error}"))
        })?;
        Ok(Self { sender, done, thread, counts: Counts::default() })
    }

    /// Takes a sealed segment. Gives its number back where it cannot.
    pub fn add(&mut self, segment: Sealed) -> Result<(), u64> {
        match self.sender.try_send((segment, false)) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full((segment, _)) | TrySendError::Disconnected((segment, _))) => {
                stderr!(
                    "sockscope: a segment is left out of the spool, which is written too slowly"
                );
                self.counts.left_out += 1;
                Err(segment.number)
            }
        }
    }

    /// Numbers of segments that are needed no more.
    pub fn take_done(&mut self) -> Vec<u64> {
        let done = self.done.try_iter();
        done.map(|(number, written)| {
            self.counts.add(&written);
            number
        })
        .collect()
    }

    /// Waits for all segments and the last one; the numbers of those written and of those left out.
    pub fn end(self, last: Option<Sealed>) -> [u64; 2] {
        if let Some(last) = last {
            let _ = self.sender.send((last, true));
        }
        drop(self.sender);
        if self.thread.join().is_err() {
            stderr!("sockscope: segments are left out of the spool: its thread failed");
        }
        let mut counts = self.counts;
        self.done.try_iter().for_each(|(_, written)| counts.add(&written));
        [counts.written, counts.left_out]
    }
}

impl Counts {
    fn add(&mut self, written: &Result<(), String>) {
        match written {
            Ok(()) => self.written += 1,
            Err(error) => {
                stderr!("sockscope: a segment is left out of the spool: {error}");
                self.left_out += 1;
            }
        }
    }
}

fn write(folder: &Path, run: &str, segment: &Sealed, is_last: bool) -> Result<(), String> {
    let bundle = Bundle::open(&segment.folder).map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    let mut records = bundle.records().map_err(|error| error.to_string())?;
    while let Some(batch) = records.next_batch().map_err(|error| error.to_string())? {
        all.extend_from_slice(batch);
    }
    let part = Part {
        meta: bundle.meta(),
        run,
        sequence: segment.number,
        is_last,
        times_ns: segment.times_ns,
        connections: bundle.connections(),
    };
    write_segment(folder, &part, all).map(drop).map_err(|error| error.to_string())
}
