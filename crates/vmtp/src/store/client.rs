//! A client of a store.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use super::request_codec::{
    Answer, Creation, Operation, PAGE_BYTES, PAGES_MAX, Refusal, StoreRequest,
};
use crate::Options;
use crate::driver::{CallError, Caller};
use crate::observe::Seen;
use crate::wire::{Entity, code};

/// A local file that is not whole has this and a number of its own behind its name.
const PART_ENDING: &str = ".sockscope-part";
/// Names that are tried for it. That one is taken is next to impossible, with 64 random bits.
const PART_TRIES: u32 = 8;
/// Rights of a part that is to replace a file, which no other user may read, until it is whole.
const REPLACING_MODE: u32 = 0o600;
/// Rights of a new file before the umask, as [`File::create`] gives.
const NEW_MODE: u32 = 0o666;

/// Something could not be done.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No answer, in all the time that was given.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The store refuses.
    #[error("{what}: {refusal}")]
    Refused {
        /// The request.
        what: String,
        /// Why not.
        refusal: Refusal,
    },
    /// A file of this machine.
    #[error("{name}: {source}")]
    Local {
        /// Its name.
        name: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A file that is longer than the store takes.
    #[error("{0}: longer than a store's file, which is at most 1 TiB")]
    TooLong(String),
    /// The data read back differs from the data written.
    #[error("{0}: the store has something else than was sent, or somebody else writes")]
    Differs(String),
}

/// A file of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileInfo {
    /// Its number.
    pub file: u16,
    /// Changes made to it, ever.
    pub version: u64,
    /// Its octets.
    pub length: u64,
}

/// A session with a store. Each call waits for its answer, and asks again while the store is away.
#[derive(Debug)]
pub struct StoreClient {
    caller: Caller,
    server: Entity,
    to: SocketAddr,
    patience: Duration,
    session: u32,
    sequence: u32,
    seen: Option<Sender<Seen<SocketAddr>>>,
}

impl StoreClient {
    /// Begins a session by `caller`, whose entity no other client uses, with the store `server` at `to`.
    /// Each call gives up when `patience` has passed.
    ///
    /// # Errors
    ///
    /// When there is no answer, or the store has no room.
    pub fn connect(
        caller: Caller,
        server: Entity,
        to: SocketAddr,
        patience: Duration,
    ) -> Result<Self, ClientError> {
        let mut client = Self { caller, server, to, patience, session: 0, sequence: 0, seen: None };
        client.session = client.request("a session", Operation::Hello)?.number;
        Ok(client)
    }

    /// Sends the engine's observations to `to` from now on, after each call; also earlier ones, if the
    /// caller was made to observe before. A closed channel gets nothing.
    pub fn tell(&mut self, to: Sender<Seen<SocketAddr>>) {
        self.caller.log().begin();
        self.seen = Some(to);
        self.tell_seen();
    }

    /// Passages that were not reported, because one call had too many.
    pub fn unseen(&mut self) -> u64 {
        self.caller.log().lost()
    }

    fn tell_seen(&mut self) {
        let Some(to) = &self.seen else { return };
        while let Some(seen) = self.caller.log().poll() {
            // The receiver is gone: the observation is dropped.
            let _ = to.send(seen);
        }
    }

    fn request(&mut self, what: &str, operation: Operation) -> Result<Answer, ClientError> {
        self.sequence += u32::from(operation.is_change());
        let request = StoreRequest { session: self.session, sequence: self.sequence, operation };
        let refused = |refusal| ClientError::Refused { what: what.to_owned(), refusal };
        let response = self.call(&request);
        self.tell_seen();
        let response = response?;
        Answer::decode(response.code, &response.user, response.segment).map_err(refused)
    }

    /// Repeats the request until it is answered: harmless, as it keeps its number.
    fn call(&mut self, request: &StoreRequest) -> Result<crate::Response<SocketAddr>, ClientError> {
        let begun = Instant::now();
        loop {
            let encoded = request.encode();
            match self.caller.call(self.server, self.to, encoded, Options::default()) {
                Ok(response) => return Ok(response),
                Err(error) if is_passing(&error) && begun.elapsed() < self.patience => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Opens a file, or makes it.
    ///
    /// # Errors
    ///
    /// When there is no answer, or the store refuses the name.
    pub fn open(&mut self, name: &str, creation: Creation) -> Result<FileInfo, ClientError> {
        let open = Operation::Open { name: name.to_owned(), creation };
        let number = self.request(name, open)?.number;
        // A store's numbers of files have 16 bits.
        self.stat(number as u16)
    }

    /// Asks for version and length.
    ///
    /// # Errors
    ///
    /// When there is no answer or no such file.
    pub fn stat(&mut self, file: u16) -> Result<FileInfo, ClientError> {
        let answer = self.request("a file", Operation::Stat { file })?;
        Ok(FileInfo { file, version: answer.version, length: answer.length })
    }

    /// Reads a page, shorter at the end of the file.
    ///
    /// # Errors
    ///
    /// When there is no answer or no such file, or it cannot be read.
    pub fn read(&mut self, file: u16, page: u32) -> Result<Vec<u8>, ClientError> {
        Ok(self.request("a page", Operation::Read { file, page })?.data)
    }

    /// Writes the first octets of a page, durably or not; gives the file's version.
    ///
    /// # Errors
    ///
    /// When there is no answer, no such file or no room.
    pub fn write(
        &mut self,
        file: u16,
        page: u32,
        data: Vec<u8>,
        durable: bool,
    ) -> Result<u64, ClientError> {
        Ok(self.request("a page", Operation::Write { file, page, data, durable })?.version)
    }

    /// Cuts or lengthens a file durably; gives its version.
    ///
    /// # Errors
    ///
    /// When there is no answer, no such file or no room.
    pub fn set_length(&mut self, file: u16, length: u64) -> Result<u64, ClientError> {
        Ok(self.request("a length", Operation::SetLength { file, length })?.version)
    }

    /// Makes all that was answered durable.
    ///
    /// # Errors
    ///
    /// When there is no answer.
    pub fn sync(&mut self) -> Result<(), ClientError> {
        self.request("a sync", Operation::Sync).map(|_| ())
    }

    /// Names of all files.
    ///
    /// # Errors
    ///
    /// When there is no answer, or the folder cannot be read.
    pub fn list(&mut self) -> Result<Vec<String>, ClientError> {
        let (mut names, mut from) = (Vec::new(), 0);
        loop {
            let answer = self.request("the names", Operation::List { from })?;
            let text = String::from_utf8_lossy(&answer.data);
            names.extend(text.lines().map(str::to_owned));
            // A store that does not go on would be asked for ever.
            if answer.number <= from {
                return Ok(names);
            }
            from = answer.number;
        }
    }

    /// Copies a local file to `name`, durably, and reads it back to compare.
    ///
    /// # Errors
    ///
    /// When a step fails, or the data read back differs.
    pub fn put(&mut self, local: &Path, name: &str) -> Result<u64, ClientError> {
        let mut from = File::open(local).map_err(of_local(local))?;
        let file = self.open(name, Creation::IfAbsent)?.file;
        self.set_length(file, 0)?;
        let mut length = 0;
        let mut page = 0;
        while let Some(data) = next_page(&mut from).map_err(of_local(local))? {
            if page >= PAGES_MAX {
                return Err(ClientError::TooLong(local.display().to_string()));
            }
            length += data.len() as u64;
            self.write(file, page, data, false)?;
            page += 1;
        }
        self.sync()?;
        self.compare(local, name, file, length)?;
        Ok(length)
    }

    fn compare(
        &mut self,
        local: &Path,
        name: &str,
        file: u16,
        length: u64,
    ) -> Result<(), ClientError> {
        let differs = || ClientError::Differs(name.to_owned());
        let mut from = File::open(local).map_err(of_local(local))?;
        let mut page = 0;
        while let Some(data) = next_page(&mut from).map_err(of_local(local))? {
            if self.read(file, page)? != data {
                return Err(differs());
            }
            page += 1;
        }
        if self.stat(file)?.length == length { Ok(()) } else { Err(differs()) }
    }

    /// Copies `name` to a local file, and checks that no client changed it meanwhile. The local file is forced
    /// to disk and replaces the old one when it is whole. A pipe or a terminal gets the octets as they are
    /// received.
    ///
    /// # Errors
    ///
    /// When a step fails, or the file changed.
    pub fn get(&mut self, name: &str, local: &Path) -> Result<u64, ClientError> {
        let info = self.open(name, Creation::Never)?;
        if local.metadata().is_ok_and(|metadata| !metadata.is_file()) {
            let mut to = File::create(local).map_err(of_local(local))?;
            self.copy_to(name, info, &mut to, local)?;
        } else {
            replace(local, |to| self.copy_to(name, info, to, local))?;
        }
        Ok(info.length)
    }

    /// Copies `name` to a writer, which the messages call `place`, and checks that no client changed it
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// When a step fails, or the file changed: then part of it was written.
    pub fn copy_out(
        &mut self,
        name: &str,
        to: &mut dyn Write,
        place: &Path,
    ) -> Result<u64, ClientError> {
        let info = self.open(name, Creation::Never)?;
        self.copy_to(name, info, to, place)?;
        to.flush().map_err(of_local(place))?;
        Ok(info.length)
    }

    fn copy_to(
        &mut self,
        name: &str,
        info: FileInfo,
        to: &mut dyn Write,
        local: &Path,
    ) -> Result<(), ClientError> {
        let differs = || ClientError::Differs(name.to_owned());
        let mut left = info.length;
        let mut page = 0;
        while left > 0 {
            let data = self.read(info.file, page)?;
            if data.len() as u64 != left.min(PAGE_BYTES as u64) {
                return Err(differs());
            }
            to.write_all(&data).map_err(of_local(local))?;
            left -= data.len() as u64;
            page += 1;
        }
        if self.stat(info.file)? == info { Ok(()) } else { Err(differs()) }
    }
}

/// Lets `write` make a file and puts it in the place of `local`, durably; if it fails, nothing changes.
fn replace(
    local: &Path,
    write: impl FnOnce(&mut File) -> Result<(), ClientError>,
) -> Result<(), ClientError> {
    // The target of a link is replaced, not the link.
    let local = local.canonicalize().unwrap_or_else(|_| local.to_owned());
    let (part, mut to) = new_part(&local)?;
    let made = (|| {
        write(&mut to)?;
        if let Ok(before) = local.metadata() {
            to.set_permissions(before.permissions()).map_err(of_local(&part))?;
        }
        to.sync_all().map_err(of_local(&part))?;
        std::fs::rename(&part, &local).map_err(of_local(&local))
    })();
    if made.is_err() {
        // The file belongs to this call. A failure here leaves only a part of a file.
        let _ = std::fs::remove_file(&part);
    }
    made
}

/// A new file next to `local`: no file or link of its name was there.
fn new_part(local: &Path) -> Result<(PathBuf, File), ClientError> {
    let mode = if local.exists() { REPLACING_MODE } else { NEW_MODE };
    let mut tries = 0;
    loop {
        let mut part = local.to_owned().into_os_string();
        part.push(format!("{PART_ENDING}-{:016x}", RandomState::new().hash_one(tries)));
        let part = PathBuf::from(part);
        let made = OpenOptions::new().write(true).create_new(true).mode(mode).open(&part);
        tries += 1;
        match made {
            Ok(to) => return Ok((part, to)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < PART_TRIES => {}
            Err(error) => return Err(of_local(&part)(error)),
        }
    }
}

/// Whether the store may answer when it is asked again: it is away, or was and knows nothing of the
/// transaction.
fn is_passing(error: &CallError) -> bool {
    let passing =
        [code::RETRANS_TIMEOUT, code::BAD_REPLY_SEGMENT, code::RESPONSE_DISCARDED, code::BUSY];
    matches!(error, CallError::Failed(code) if passing.contains(code))
}

fn of_local(path: &Path) -> impl FnOnce(io::Error) -> ClientError {
    let name = path.display().to_string();
    move |source| ClientError::Local { name, source }
}

/// The next page of a file; `None` at its end.
fn next_page(from: &mut File) -> io::Result<Option<Vec<u8>>> {
    let mut data = Vec::with_capacity(PAGE_BYTES);
    from.take(PAGE_BYTES as u64).read_to_end(&mut data)?;
    Ok(if data.is_empty() { None } else { Some(data) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_file_is_replaced_whole_or_not_at_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let local = folder.path().join("file");
        std::fs::write(&local, "before").expect("a file");
        let half = |to: &mut File| to.write_all(b"hal").map_err(of_local(Path::new("part")));
        let failed = replace(&local, |to| {
            half(to)?;
            Err(ClientError::Differs("file".to_owned()))
        });
        assert!(matches!(failed, Err(ClientError::Differs(_))));
        assert_eq!(std::fs::read(&local).expect("a file"), b"before");
        replace(&local, half).expect("a file");
        assert_eq!(std::fs::read(&local).expect("a file"), b"hal");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn parts_at_once_are_two_and_others_files_and_rights_stay() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let folder = tempfile::tempdir().expect("a folder");
        let [local, foreign] = ["file", "foreign"].map(|name| folder.path().join(name));
        std::fs::write(&local, "before").expect("a file");
        std::fs::write(&foreign, "foreign").expect("a file");
        symlink(&foreign, folder.path().join(format!("file{PART_ENDING}"))).expect("a link");
        std::fs::set_permissions(&local, PermissionsExt::from_mode(0o640)).expect("rights");
        let mode = |at: &File| at.metadata().expect("a file").permissions().mode() & 0o777;
        let say = |to: &mut File, what: &str| {
            assert_eq!(mode(to), REPLACING_MODE, "{what}");
            to.write_all(what.as_bytes()).map_err(of_local(Path::new("part")))
        };
        let outer = replace(&local, |to| {
            say(to, "out")?;
            replace(&local, |to| say(to, "inner"))?;
            assert_eq!(std::fs::read(&local).expect("a file"), b"inner");
            say(to, "er")
        });
        outer.expect("a file");
        assert_eq!(std::fs::read(&local).expect("a file"), b"outer");
        assert_eq!(mode(&File::open(&local).expect("a file")), 0o640);
        assert_eq!(std::fs::read(&foreign).expect("a file"), b"foreign");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 3);
    }
}
