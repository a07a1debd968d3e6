//! Output of a bundle's rows: into its files at once, or by a thread that may wait for the disk.
//!
//! A write waits where the disk is slow, and where the system has too much to write already: a recorder
//! that waits meanwhile misses records of its probes. With a thread, rows wait in memory instead.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use sockscope_record::Record;

use crate::columns::RecordColumns;
use crate::error::Error;
use crate::files::{Files, Rows};
use crate::folder::Folder;
use crate::format::{BATCH_RECORDS, Part};

/// Memory of a full batch of records.
const BATCH_BYTES: u64 = (BATCH_RECORDS * size_of::<Record>()) as u64;

/// Memory that batches take at most while they wait for the disk. Twelve callers on two CPUs fill it in
/// 10 s; a disk that several machines share was seen to write nothing for 6 s.
const WAITING_BYTES_MAX: u64 = 1 << 30;

/// They take no more than this part of the machine's memory,
const MEMORY_PART: u64 = 16;

/// except that this number of batches may always wait.
const WAITING_BATCHES_MIN: u64 = 32;

/// Memory of written batches that is kept to be filled again.
const SPARE_MAX: usize = 1;

/// The files, and the thread that writes them if there is one.
pub(crate) struct Output {
    files: Arc<Mutex<Files>>,
    handles: [(Part, Arc<File>); 2],
    thread: Option<FileThread>,
}

impl Output {
    pub(crate) fn new(files: Files) -> Self {
        Self { handles: files.handles(), files: Arc::new(Mutex::new(files)), thread: None }
    }

    /// From here on a thread writes, with the priority of the calling one. At most
    /// [`waiting_batches_max`] batches wait for it.
    pub(crate) fn start_thread(&mut self) -> std::io::Result<()> {
        self.start_thread_behind(waiting_batches_max(memory_bytes()))
    }

    /// The thread, for which at most `waiting_max` batches wait.
    fn start_thread_behind(&mut self, waiting_max: usize) -> std::io::Result<()> {
        if self.thread.is_none() {
            self.thread = Some(FileThread::start(&self.files, waiting_max)?);
        }
        Ok(())
    }

    /// From here on records are written in pieces.
    pub(crate) fn write_in_pieces(&mut self) {
        self.files().write_in_pieces();
    }

    /// Writes a batch or hands it over; where as many wait already as may, it waits for the disk. Returns
    /// memory for the next records.
    ///
    /// An error may be that of an earlier batch. Rows handed over after it are not written.
    pub(crate) fn write(&mut self, rows: Rows) -> Result<RecordColumns, Error> {
        let Some(thread) = &mut self.thread else { return self.files().write(rows) };
        match thread.send(rows) {
            Some(columns) => Ok(columns),
            // A thread without an error takes rows until it is ended.
            None => self.end_thread().map(|()| RecordColumns::default()),
        }
    }

    /// Whether a batch can be handed over without a wait.
    pub(crate) fn has_room(&self) -> bool {
        self.thread.as_ref().is_none_or(FileThread::has_room)
    }

    /// Writes the rows handed over, and the end marks.
    pub(crate) fn finish(&mut self) -> Result<u64, Error> {
        self.end_thread()?;
        let mut files = self.files();
        files.finish()?;
        Ok(files.rows())
    }

    /// Records in the file, and in the queue to it.
    pub(crate) fn rows(&self) -> u64 {
        self.thread.as_ref().map_or_else(|| self.files().rows(), |thread| thread.sent_rows)
    }

    /// Records in the file.
    pub(crate) fn rows_written(&self) -> u64 {
        let done = self.thread.as_ref().map(|thread| &thread.done);
        done.map_or_else(|| self.files().rows(), |done| done.rows.load(Ordering::Acquire))
    }

    /// Bytes in both files, including the rows queued for them, at most.
    pub(crate) fn bytes_at_most(&self) -> u64 {
        self.thread.as_ref().map_or_else(|| self.files().bytes(), FileThread::bytes_at_most)
    }

    /// Whether both files still have their names in the folder.
    pub(crate) fn is_in_place(&self, folder: &Folder) -> bool {
        self.handles.iter().all(|(part, file)| folder.has(part.file_name(), file))
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        // If the thread panicked, this one has panicked too, when it ended the thread.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end_thread(&mut self) -> Result<(), Error> {
        self.thread.take().map_or(Ok(()), FileThread::end)
    }
}

impl Drop for Output {
    /// The rows handed over are written, unless that fails.
    fn drop(&mut self) {
        let _ = self.end_thread();
    }
}

/// Batches that may wait for the disk on a machine with this memory.
fn waiting_batches_max(memory_bytes: u64) -> usize {
    let bytes = (memory_bytes / MEMORY_PART).min(WAITING_BYTES_MAX);
    (bytes / BATCH_BYTES).max(WAITING_BATCHES_MIN) as usize
}

/// Memory of this machine in bytes: sysinfo(2).
fn memory_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    system.totalram.saturating_mul(u64::from(system.mem_unit))
}

/// The thread, and the rows queued for it.
struct FileThread {
    waiting_max: usize,
    rows: SyncSender<Rows>,
    spare: Receiver<RecordColumns>,
    sent_batches: u64,
    sent_rows: u64,
    sent_bytes_max: u64,
    done: Arc<Done>,
    thread: JoinHandle<Result<(), Error>>,
}

/// Counts of the thread's writes.
#[derive(Default)]
struct Done {
    rows: AtomicU64,
    /// Bytes of both files.
    bytes: AtomicU64,
    /// The most that those batches could have had which the thread wrote.
    bytes_max: AtomicU64,
    batches: AtomicU64,
}

impl FileThread {
    fn start(files: &Arc<Mutex<Files>>, waiting_max: usize) -> std::io::Result<Self> {
        let (rows, taken) = sync_channel::<Rows>(waiting_max);
        let (given, spare) = sync_channel::<RecordColumns>(SPARE_MAX);
        let done = Arc::new(Done::default());
        let (files, written) = (Arc::clone(files), Arc::clone(&done));
        let sent_rows = {
            let files = files.lock().unwrap_or_else(PoisonError::into_inner);
            done.rows.store(files.rows(), Ordering::Release);
            done.bytes.store(files.bytes(), Ordering::Release);
            files.rows()
        };
        let work = move || {
            let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
            files.leave_cache();
            taken.iter().try_for_each(|rows| {
                let bytes_max = rows.bytes_max();
                let columns = files.write(rows)?;
                written.note(&files, bytes_max);
                // Of more than are needed the memory goes back to the system.
                let _ = given.try_send(columns);
                Ok(())
            })
        };
        let thread = std::thread::Builder::new().name("sockscope-files".to_owned()).spawn(work)?;
        let (sent_batches, sent_bytes_max) = (0, 0);
        Ok(Self { waiting_max, rows, spare, sent_batches, sent_rows, sent_bytes_max, done, thread })
    }

    /// `None` where the thread has ended.
    fn send(&mut self, rows: Rows) -> Option<RecordColumns> {
        let (records, bytes_max) = (rows.records(), rows.bytes_max());
        self.rows.send(rows).ok()?;
        self.sent_batches += 1;
        self.sent_rows += records;
        self.sent_bytes_max += bytes_max;
        Some(self.spare.try_recv().unwrap_or_default())
    }

    fn has_room(&self) -> bool {
        debug_assert!(self.done.batches.load(Ordering::Acquire) <= self.sent_batches);
        // The next batch gets the error of a thread that has ended.
        self.thread.is_finished()
            || self.sent_batches - self.done.batches.load(Ordering::Acquire)
                < self.waiting_max as u64
    }

    fn bytes_at_most(&self) -> u64 {
        // In this order: rows that are not counted as queued are in the bytes that are read then.
        debug_assert!(self.done.bytes_max.load(Ordering::Acquire) <= self.sent_bytes_max);
        let on_its_way = self.sent_bytes_max - self.done.bytes_max.load(Ordering::Acquire);
        self.done.bytes.load(Ordering::Acquire) + on_its_way
    }

    fn end(self) -> Result<(), Error> {
        drop(self.rows);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Done {
    fn note(&self, files: &Files, bytes_max: u64) {
        self.rows.store(files.rows(), Ordering::Release);
        self.bytes.store(files.bytes(), Ordering::Release);
        self.bytes_max.fetch_add(bytes_max, Ordering::Release);
        self.batches.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::OwnedFd;

    use super::*;

    const WAITING_MAX: usize = 8;

    fn files(folder: &Folder) -> Files {
        Files::create(folder).unwrap()
    }

    fn records(at_ns: u64, count: usize) -> Rows {
        let mut columns = RecordColumns::default();
        columns.fill(&vec![Record { at_ns, ..Record::default() }; count]);
        Rows::Records(Box::new(columns))
    }

    /// A temporary folder, open.
    fn folder(temporary: &tempfile::TempDir) -> Folder {
        Folder::own(temporary.path()).unwrap()
    }

    /// Content of the records' file after these batches, written at once or by the thread.
    fn written(by_thread: bool) -> Vec<u8> {
        let temporary = tempfile::tempdir().unwrap();
        let mut output = Output::new(files(&folder(&temporary)));
        if by_thread {
            output.start_thread().unwrap();
        }
        for (at_ns, count) in [(1, 10), (2, 70_000), (3, 1), (4, 65_536)] {
            output.write(records(at_ns, count)).unwrap();
        }
        assert_eq!(output.finish().unwrap(), output.rows());
        std::fs::read(temporary.path().join(Part::Records.file_name())).unwrap()
    }

    #[test]
    fn the_thread_writes_the_same_bytes() {
        assert_eq!(written(true), written(false));
    }

    #[test]
    fn while_the_disk_takes_nothing_batches_wait_in_memory() {
        let temporary = tempfile::tempdir().unwrap();
        let mut files = files(&folder(&temporary));
        // A pipe without a reader takes 64 KiB, less than one of these batches.
        let (mut taken, disk) = std::io::pipe().unwrap();
        files.exchange_records(OwnedFd::from(disk).into());
        let written_before = files.bytes();
        let mut output = Output::new(files);
        output.start_thread_behind(WAITING_MAX).unwrap();
        for at_ns in 0..WAITING_MAX as u64 {
            assert!(output.has_room(), "{at_ns}");
            output.write(records(at_ns, 10_000)).unwrap();
        }
        assert!(!output.has_room());
        assert_eq!((output.rows(), output.rows_written()), (10_000 * WAITING_MAX as u64, 0));
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            taken.read_to_end(&mut bytes).map(|_| bytes)
        });
        let expected_at_most = output.bytes_at_most();
        assert_eq!(output.finish().unwrap(), 10_000 * WAITING_MAX as u64);
        let written = output.bytes_at_most() - written_before;
        drop(output);
        let bytes = reader.join().unwrap().unwrap();
        // The records' end is in the pipe, that of the connections is not.
        assert!(bytes.len() as u64 <= written, "{} of {written}", bytes.len());
        assert!(bytes.len() as u64 + written_before <= expected_at_most + 4096);
    }

    #[test]
    fn what_the_disk_refuses_is_the_error_of_a_later_call_and_ends_the_file() {
        let temporary = tempfile::tempdir().unwrap();
        let mut files = files(&folder(&temporary));
        files.exchange_records(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
        let mut output = Output::new(files);
        output.start_thread().unwrap();
        let error = (0..1_000_000).find_map(|at_ns| output.write(records(at_ns, 1)).err());
        let error = error.expect("an error").to_string();
        assert!(error.ends_with("No space left on device (os error 28)"), "{error}");
        assert_eq!((output.rows(), output.rows_written()), (0, 0));
        assert_eq!(output.write(records(0, 1)).err().map(|it| it.to_string()), Some(error.clone()));
        assert_eq!(output.finish().err().map(|it| it.to_string()), Some(error));
    }

    #[test]
    fn what_was_handed_over_is_written_also_where_the_end_is_not() {
        let temporary = tempfile::tempdir().unwrap();
        let mut output = Output::new(files(&folder(&temporary)));
        output.start_thread().unwrap();
        output.write(records(1, 50_000)).unwrap();
        let bytes_max = output.bytes_at_most();
        drop(output);
        let file = temporary.path().join(Part::Records.file_name());
        let bytes = std::fs::metadata(file).unwrap().len();
        assert!((50_000 * 40..=bytes_max).contains(&bytes), "{bytes} of {bytes_max}");
    }

    #[test]
    fn batches_that_wait_take_a_part_of_the_memory_and_one_gib_at_most() {
        let waiting_bytes = |memory_bytes| waiting_batches_max(memory_bytes) as u64 * BATCH_BYTES;
        assert_eq!(waiting_bytes(24 << 30), (1 << 30) / BATCH_BYTES * BATCH_BYTES);
        assert_eq!(waiting_bytes(8 << 30), (512 << 20) / BATCH_BYTES * BATCH_BYTES);
        assert_eq!(waiting_bytes(1 << 30), WAITING_BATCHES_MIN * BATCH_BYTES);
        assert!(memory_bytes() > 64 << 20, "{}", memory_bytes());
    }
}
