//! A store carries requests out; a service receives them and sends the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use super::StoreError;
use super::dedup_state::{Change, DedupState, Entry, Standing};
use super::folder::{Folder, position, read_page, reserve, takes_length};
use super::journal::{self, Journal};
use super::request_codec::{Answer, Creation, Operation, PAGE_BYTES, Refusal, StoreRequest};
use crate::address::{Address, Host};
use crate::driver::Service;
use crate::server::RespondError;
use crate::wire::Entity;
use crate::{Outcome, Token};

/// Pages that wait in memory until the journal is synced: 16 MiB.
const PENDING_MAX: usize = 1024;
/// A longer journal is begun anew.
const JOURNAL_BYTES_MAX: u64 = 64 << 20;
/// Asks that one sync of the journal is for.
const BATCH_MAX: usize = 1024;
/// Octets of names in one answer.
const LIST_BYTES_MAX: usize = PAGE_BYTES;
/// The longest wait for a packet, and so the longest delay of the end.
const WAIT_MAX: Duration = Duration::from_millis(10);

/// A folder and its journal. One server at a time has it.
///
/// Changes are durable when [`Store::commit`] has returned: answers that wait for it must not be sent
/// before. Files are written from the durable journal, in its order; until then reads use the data in
/// memory. After an error the store must be opened again.
#[derive(Debug)]
pub struct Store {
    folder: Folder,
    journal: Journal,
    dedup: DedupState,
    /// First octets of pages that the journal has and the files do not.
    pending: BTreeMap<(u16, u32), Vec<u8>>,
    /// Files that changed since the journal was begun.
    dirty: BTreeSet<u16>,
}

/// A reply to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The answer, or why it is missing.
    pub answer: Result<Answer, Refusal>,
    /// It must not be given before [`Store::commit`].
    pub waits: bool,
    /// The client has named a session that began at its address: it receives packets there.
    pub proves_address: bool,
}

impl Reply {
    /// As a server responds.
    pub fn outcome(self) -> Outcome {
        match self.answer {
            Ok(answer) => answer.encode(),
            Err(refusal) => Outcome { code: refusal.code(), ..Outcome::default() },
        }
    }
}

impl Store {
    /// The store in the folder at `path`, in the state of its journal.
    ///
    /// # Errors
    ///
    /// When the folder or its journal cannot be used, or another server has it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let mut folder = Folder::new(path)?;
        let (mut dedup, mut dirty) = (DedupState::default(), BTreeSet::new());
        for payload in journal::read(folder.fd())? {
            let Some(entry) = Entry::decode(&payload) else { continue };
            let entry = possible(&mut folder, &dedup, entry);
            let _ = dedup.apply(&entry);
            redo(&mut folder, &dedup, &mut dirty, &entry)?;
        }
        sync_files(&mut folder, &dedup, &mut dirty)?;
        let journal = Journal::replace(folder.fd(), &dedup.known())?;
        Ok(Self { folder, journal, dedup, pending: BTreeMap::new(), dirty })
    }

    /// Carries out the request of a client at `host`: a Request's code, user data and segment.
    ///
    /// # Errors
    ///
    /// When the store cannot go on.
    pub fn execute(
        &mut self,
        client: Entity,
        host: Host,
        code: u32,
        user: &[u8; 12],
        segment: &[u8],
    ) -> Result<Reply, StoreError> {
        let request = match StoreRequest::decode(code, user, segment) {
            Ok(request) => request,
            Err(refusal) => return Ok(now(Err(refusal))),
        };
        let proves_address = self.dedup.is_proof(client, host, request.session);
        let reply = self.carry_out(client, host, request)?;
        Ok(Reply { proves_address, ..reply })
    }

    fn carry_out(
        &mut self,
        client: Entity,
        host: Host,
        request: StoreRequest,
    ) -> Result<Reply, StoreError> {
        match request.operation {
            Operation::Hello => {
                let (_, entry) = self.dedup.new_session(client, host);
                if self.journal.append(&entry.encode())? {
                    return Ok(durable(self.dedup.apply(&entry)));
                }
                Ok(now(Err(Refusal::NoRoom)))
            }
            Operation::Read { file, page } => Ok(now(self.read(file, page))),
            Operation::Stat { file } => Ok(now(self.stat(file))),
            Operation::Sync => Ok(durable(Ok(Answer::default()))),
            Operation::List { from } => Ok(now(self.list(from))),
            ref change if change.is_change() => self.change(client, request),
            _ => Ok(now(Err(Refusal::BadRequest))),
        }
    }

    fn change(&mut self, client: Entity, request: StoreRequest) -> Result<Reply, StoreError> {
        let StoreRequest { session, sequence, operation } = request;
        match self.dedup.standing(client, session, sequence) {
            Err(refusal) => return Ok(now(Err(refusal))),
            Ok(Standing::Done(answer)) => return Ok(durable(answer)),
            Ok(Standing::New) => {}
        }
        let waits = !matches!(operation, Operation::Write { durable: false, .. });
        let prepared = self.prepare(session, sequence, operation)?;
        let change = prepared.unwrap_or_else(Change::Refused);
        let entry = Entry::Change { session, sequence, change };
        if !self.journal.append(&entry.encode())? {
            return Ok(now(Err(Refusal::NoRoom)));
        }
        let answer = self.dedup.apply(&entry);
        self.take(entry)?;
        Ok(Reply { waits, ..now(answer) })
    }

    /// Makes sure that a change can be done; only creating a file is done here already.
    fn prepare(
        &mut self,
        session: u32,
        sequence: u32,
        operation: Operation,
    ) -> Result<Result<Change, Refusal>, StoreError> {
        Ok(match operation {
            Operation::Open { name, creation } => {
                let creation = self.intend(session, sequence, &name, creation)?;
                self.look_up(name, creation)
            }
            Operation::Write { file, page, data, .. } => {
                let room = self.file(file).and_then(|it| reserve(it, page, data.len()));
                room.map(|()| Change::Written { file, page, data })
            }
            Operation::SetLength { file, length } => {
                let room = self.file(file).and_then(|it| takes_length(it, length));
                room.map(|()| Change::Length { file, length })
            }
            _ => Err(Refusal::BadRequest),
        })
    }

    /// A file that must be new is announced durably: after an interruption, the same request finds it.
    fn intend(
        &mut self,
        session: u32,
        sequence: u32,
        name: &str,
        creation: Creation,
    ) -> Result<Creation, StoreError> {
        let is_there = self.folder.look_up(name, Creation::Never).is_ok();
        if creation != Creation::New {
            return Ok(creation);
        }
        if self.dedup.intended(session, sequence) {
            return Ok(Creation::IfAbsent);
        }
        let entry = Entry::Intent { session, sequence };
        if !is_there && self.journal.append(&entry.encode())? {
            let _ = self.dedup.apply(&entry);
            self.commit()?;
        }
        Ok(creation)
    }

    fn look_up(&mut self, name: String, creation: Creation) -> Result<Change, Refusal> {
        let file = self.dedup.number_for(&name)?;
        self.folder.look_up(&name, creation)?;
        Ok(Change::Opened { file, name })
    }

    /// Applies a change to files.
    fn take(&mut self, entry: Entry) -> Result<(), StoreError> {
        match entry {
            Entry::Change { change: Change::Written { file, page, data }, .. } => {
                if !data.is_empty() {
                    let known = self.pending.entry((file, page)).or_default();
                    let rest = known.get(data.len()..).unwrap_or_default().to_vec();
                    *known = data;
                    known.extend_from_slice(&rest);
                }
                let is_full =
                    self.pending.len() >= PENDING_MAX || self.journal.bytes() >= JOURNAL_BYTES_MAX;
                if is_full { self.commit() } else { Ok(()) }
            }
            entry => {
                self.commit()?;
                redo(&mut self.folder, &self.dedup, &mut self.dirty, &entry)
            }
        }
    }

    /// Makes all changes durable.
    ///
    /// # Errors
    ///
    /// When the system fails: then the durable part is unknown, and the store must be opened again.
    pub fn commit(&mut self) -> Result<(), StoreError> {
        self.journal.sync()?;
        for ((file, page), data) in std::mem::take(&mut self.pending) {
            write(&mut self.folder, &self.dedup, file, page, &data)?;
            self.dirty.insert(file);
        }
        if self.journal.bytes() >= JOURNAL_BYTES_MAX {
            sync_files(&mut self.folder, &self.dedup, &mut self.dirty)?;
            self.journal = Journal::replace(self.folder.fd(), &self.dedup.known())?;
        }
        Ok(())
    }

    fn file(&mut self, file: u16) -> Result<&std::fs::File, Refusal> {
        let name = self.dedup.name(file)?;
        self.folder.file(file, name)
    }

    fn length(&mut self, file: u16) -> Result<u64, Refusal> {
        let pending = self.pending.range((file, 0)..=(file, u32::MAX)).next_back();
        let end = pending.map_or(0, |(&(_, page), data)| position(page) + data.len() as u64);
        let metadata = self.file(file)?.metadata().map_err(|_| Refusal::System)?;
        Ok(metadata.len().max(end))
    }

    fn stat(&mut self, file: u16) -> Result<Answer, Refusal> {
        let length = self.length(file)?;
        let version = self.dedup.version(file);
        Ok(Answer { number: u32::from(file), version, length, data: Vec::new() })
    }

    fn read(&mut self, file: u16, page: u32) -> Result<Answer, Refusal> {
        let answer = self.stat(file)?;
        let here = answer.length.saturating_sub(position(page)).min(PAGE_BYTES as u64);
        // A page at most.
        let mut data = vec![0; here as usize];
        read_page(self.file(file)?, page, &mut data).map_err(|_| Refusal::System)?;
        if let Some(known) = self.pending.get(&(file, page)) {
            data[..known.len()].copy_from_slice(known);
        }
        Ok(Answer { data, ..answer })
    }

    fn list(&self, from: u32) -> Result<Answer, Refusal> {
        let names = self.folder.names().map_err(|_| Refusal::System)?;
        let (mut data, mut next) = (Vec::new(), from);
        for name in names.iter().skip(from as usize) {
            if data.len() + name.len() >= LIST_BYTES_MAX {
                return Ok(Answer { number: next, data, ..Answer::default() });
            }
            data.extend_from_slice(name.as_bytes());
            data.push(b'\n');
            next += 1;
        }
        Ok(Answer { data, ..Answer::default() })
    }
}

fn now(answer: Result<Answer, Refusal>) -> Reply {
    Reply { answer, waits: false, proves_address: false }
}

/// An answer that waits for a commit.
fn durable(answer: Result<Answer, Refusal>) -> Reply {
    Reply { waits: true, ..now(answer) }
}

/// The entry, or a refusal in its place when the file is shorter and cannot be made so long: the journal of
/// an earlier version may have such an entry. That version ended before it answered.
fn possible(folder: &mut Folder, dedup: &DedupState, entry: Entry) -> Entry {
    let Entry::Change { session, sequence, change } = entry else { return entry };
    let end = match &change {
        Change::Written { file, page, data } => Some((*file, position(*page) + data.len() as u64)),
        Change::Length { file, length } => Some((*file, *length)),
        Change::Refused(_) | Change::Opened { .. } => None,
    };
    let is_too_long = end.is_some_and(|(file, end)| {
        let Ok(file) = dedup.name(file).and_then(|name| folder.file(file, name)) else {
            return false;
        };
        let is_done = file.metadata().is_ok_and(|metadata| metadata.len() >= end);
        !is_done && takes_length(file, end) == Err(Refusal::NoRoom)
    });
    let change = if is_too_long { Change::Refused(Refusal::NoRoom) } else { change };
    Entry::Change { session, sequence, change }
}

/// Carries out an entry on files, or repeats it.
fn redo(
    folder: &mut Folder,
    dedup: &DedupState,
    dirty: &mut BTreeSet<u16>,
    entry: &Entry,
) -> Result<(), StoreError> {
    let Entry::Change { change, .. } = entry else { return Ok(()) };
    let file = match change {
        Change::Refused(_) => return Ok(()),
        Change::Opened { file, .. } => *file,
        Change::Written { file, page, data } => {
            write(folder, dedup, *file, *page, data)?;
            *file
        }
        Change::Length { file, length } => {
            let name = dedup.name(*file).map_err(|refusal| failed("", refusal))?;
            let it = folder.file(*file, name).map_err(|refusal| failed(name, refusal))?;
            it.set_len(*length)
                .map_err(StoreError::system(format!("cannot set the length of {name}")))?;
            *file
        }
    };
    dirty.insert(file);
    Ok(())
}

fn write(
    folder: &mut Folder,
    dedup: &DedupState,
    file: u16,
    page: u32,
    data: &[u8],
) -> Result<(), StoreError> {
    let name = dedup.name(file).map_err(|refusal| failed("", refusal))?;
    let it = folder.file(file, name).map_err(|refusal| failed(name, refusal))?;
    let written = it.write_all_at(data, position(page));
    written.map_err(StoreError::system(format!("cannot write {name}")))
}

fn sync_files(
    folder: &mut Folder,
    dedup: &DedupState,
    dirty: &mut BTreeSet<u16>,
) -> Result<(), StoreError> {
    for file in std::mem::take(dirty) {
        let name = dedup.name(file).map_err(|refusal| failed("", refusal))?;
        folder.sync(file, name).map_err(StoreError::system(format!("cannot sync {name}")))?;
    }
    Ok(())
}

fn failed(name: &str, refusal: Refusal) -> StoreError {
    StoreError::system(format!("cannot use {name}"))(io::Error::other(refusal.to_string()))
}

/// Answers requests at `service` from `store`, until `ends` returns true, and then sends the queued
/// packets. `ends` is called before each turn, and may take the engine's observations. Requests
/// that arrive during a sync of the journal share the next sync.
///
/// # Errors
///
/// When the store or the network fails.
pub fn serve(
    service: &mut Service,
    store: &mut Store,
    mut ends: impl FnMut(&mut Service) -> bool,
) -> Result<(), StoreError> {
    let mut waiting = Vec::new();
    while !ends(service) {
        service.advance(WAIT_MAX).map_err(network())?;
        answer_all(service, store, &mut waiting)?;
        if waiting.is_empty() {
            continue;
        }
        store.commit()?;
        for (token, outcome) in waiting.drain(..) {
            respond(service, token, outcome)?;
        }
    }
    store.commit()?;
    service.finish().map_err(network())
}

/// Carries out all waiting requests; those that need a commit go to `waiting`.
fn answer_all(
    service: &mut Service,
    store: &mut Store,
    waiting: &mut Vec<(Token, Outcome)>,
) -> Result<(), StoreError> {
    for _ in 0..BATCH_MAX {
        let Some(request) = service.poll_request() else { return Ok(()) };
        let (client, host) = (request.token.client, request.from.host());
        let reply = store.execute(client, host, request.code, &request.user, &request.segment)?;
        if reply.proves_address {
            service.prove_address(request.token);
        }
        if reply.waits {
            waiting.push((request.token, reply.outcome()));
        } else {
            respond(service, request.token, reply.outcome())?;
        }
        service.advance(Duration::ZERO).map_err(network())?;
    }
    Ok(())
}

fn respond(service: &mut Service, token: Token, outcome: Outcome) -> Result<(), StoreError> {
    let answered = service.respond(token, outcome).map_err(network())?;
    if matches!(answered, Err(RespondError::Unproved { .. })) {
        // The answer asks a stranger to begin a session, in a packet no longer than its own.
        let refused = now(Err(Refusal::NoSession)).outcome();
        let _ = service.respond(token, refused).map_err(network())?;
    }
    // A client that has gone on needs no answer any more.
    Ok(())
}

fn network() -> impl FnOnce(io::Error) -> StoreError {
    StoreError::system("the network failed")
}
