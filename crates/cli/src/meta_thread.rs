//! The thread that brings `meta.json` up to date while a recording goes on.
//!
//! To replace a file the file system gives up the old one, and may wait for the disk to do so: seconds on
//! a busy one. The recorder must not wait meanwhile, as the lists of the probes fill up.

use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use sockscope_program::failure::Failure;
use sockscope_trace::{Error, MetaUpdate};

/// The thread, which has the priority of the one that starts it.
pub struct MetaThread {
    updates: SyncSender<MetaUpdate>,
    thread: JoinHandle<Result<(), Error>>,
}

impl MetaThread {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// When the system has no room for another thread.
    pub fn start() -> Result<Self, Failure> {
        // Without room: an update is taken only by a thread that waits for one.
        let (updates, taken) = sync_channel::<MetaUpdate>(0);
        let work = move || taken.iter().try_for_each(MetaUpdate::write);
        let thread = std::thread::Builder::new().name("sockscope-meta".to_owned()).spawn(work)?;
        Ok(Self { updates, thread })
    }

    /// Hands over an update, unless the last one is still being written: then the next one has it all.
    ///
    /// # Errors
    ///
    /// When an update before could not be written.
    pub fn offer(&mut self, update: MetaUpdate) -> Result<(), Failure> {
        match self.updates.try_send(update) {
            Ok(()) | Err(TrySendError::Full(_)) => Ok(()),
            // Says why it ended, in place of a thread that is ready for the next.
            Err(TrySendError::Disconnected(_)) => std::mem::replace(self, Self::start()?).end(),
        }
    }

    /// Waits until the last update is written.
    ///
    /// # Errors
    ///
    /// When an update could not be written.
    pub fn end(self) -> Result<(), Failure> {
        drop(self.updates);
        match self.thread.join() {
            Ok(written) => Ok(written?),
            Err(_) => Err(Failure::new("the thread that writes meta.json panicked")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use sockscope_trace::{BundleWriter, Meta, Part};

    use super::*;

    /// A bundle, the name of its meta.json, and an update of it that names this host.
    fn bundle(
        folder: &tempfile::TempDir,
    ) -> (BundleWriter, impl Fn(&BundleWriter, &str) -> MetaUpdate) {
        let dir = folder.path().join("b.sockscope");
        let writer = BundleWriter::create(dir, Meta::default()).unwrap();
        let update = |writer: &BundleWriter, host: &str| {
            writer.meta_update(&Meta { host: host.to_owned(), ..Meta::default() }).unwrap()
        };
        (writer, update)
    }

    /// Offers until it is taken; a thread that writes needs a moment to be ready again.
    fn offered(
        thread: &mut MetaThread,
        update: impl Fn() -> MetaUpdate,
        is_there: impl Fn() -> bool,
    ) {
        while !is_there() {
            thread.offer(update()).unwrap();
        }
    }

    #[test]
    fn an_update_reaches_the_file_and_the_last_one_before_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let (writer, update) = bundle(&folder);
        let file = writer.dir().join(Part::Meta.file_name());
        let mut thread = MetaThread::start().unwrap();
        for host in ["first", "second"] {
            let is_there = || fs::read_to_string(&file).unwrap().contains(host);
            offered(&mut thread, || update(&writer, host), is_there);
        }
        thread.end().unwrap();
        assert!(fs::read_to_string(&file).unwrap().contains("second"));
    }

    #[test]
    fn what_could_not_be_written_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let (writer, update) = bundle(&folder);
        let update = update(&writer, "x");
        fs::remove_dir_all(writer.dir()).unwrap();
        let thread = MetaThread::start().unwrap();
        // Waits for the thread, as an offer does not.
        thread.updates.send(update).unwrap();
        let said = thread.end().unwrap_err().to_string();
        assert!(said.contains("No such file"), "{said}");
    }

    #[test]
    fn an_offer_after_a_failure_says_why_it_failed() {
        let folder = tempfile::tempdir().unwrap();
        let (writer, update) = bundle(&folder);
        let [failing, next] = [update(&writer, "x"), update(&writer, "x")];
        fs::remove_dir_all(writer.dir()).unwrap();
        let mut thread = MetaThread::start().unwrap();
        thread.updates.send(failing).unwrap();
        while !thread.thread.is_finished() {
            std::thread::yield_now();
        }
        let said = thread.offer(next).unwrap_err().to_string();
        assert!(said.contains("No such file"), "{said}");
    }
}
