//! State by which a store carries each change out once: sessions, sequence numbers, file versions.
//!
//! Each entry of the journal changes this state. A store that reads its journal gets the same state
//! again.

use std::collections::{BTreeMap, BTreeSet};

use super::request_codec::{Answer, Refusal};
use super::sessions::{Session, Sessions};
use crate::address::Host;
use crate::wire::Entity;

/// Files that have numbers.
const FILES_MAX: usize = 65_535;

/// One record of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    /// Known: the next session's number.
    NextSession(u32),
    /// Known: a session in its current state.
    Session(u32, Session),
    /// Known: a file.
    File { number: u16, version: u64, name: String },
    /// A client began a session with the next number: in journals of earlier versions.
    Hello(Entity),
    /// A file is about to be made that must not be there before.
    Intent { session: u32, sequence: u32 },
    /// A numbered change.
    Change { session: u32, sequence: u32, change: Change },
}

/// The outcome of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    Refused(Refusal),
    Opened { file: u16, name: String },
    Written { file: u16, page: u32, data: Vec<u8> },
    Length { file: u16, length: u64 },
}

/// Sessions with the outcome of their last change, numbers and versions of files.
#[derive(Debug, Default)]
pub(super) struct DedupState {
    next_session: u32,
    sessions: Sessions,
    files: BTreeMap<u16, (String, u64)>,
    numbers: BTreeMap<String, u16>,
    intents: BTreeSet<(u32, u32)>,
}

/// The state of a numbered change.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    New,
    /// Done before, with this answer.
    Done(Result<Answer, Refusal>),
}

impl DedupState {
    /// A session that `client` begins at `host`, with a random number.
    pub(super) fn new_session(&self, client: Entity, host: Host) -> (u32, Entry) {
        let number = self.sessions.free_number();
        let session = Session { client, host: Some(host), sequence: 0, answer: Ok((0, 0)) };
        (number, Entry::Session(number, session))
    }

    /// A client names its session: whether that proves its address, which the number was sent to.
    pub(super) fn is_proof(&mut self, client: Entity, host: Host, session: u32) -> bool {
        let known = self.sessions.get(session);
        let is_proof = known.is_some_and(|it| it.client == client && it.host == Some(host));
        if is_proof {
            self.sessions.touch(session);
        }
        is_proof
    }

    /// Whether a change is to be done, was done, or can never be.
    pub(super) fn standing(
        &self,
        client: Entity,
        session: u32,
        sequence: u32,
    ) -> Result<Standing, Refusal> {
        let known = self.sessions.get(session).filter(|known| known.client == client);
        let known = known.ok_or(Refusal::NoSession)?;
        if sequence > known.sequence {
            return Ok(Standing::New);
        }
        if sequence < known.sequence || sequence == 0 {
            return Err(Refusal::Old);
        }
        let answer = known.answer.map(|(number, version)| answer(number, version));
        Ok(Standing::Done(answer))
    }

    pub(super) fn name(&self, file: u16) -> Result<&str, Refusal> {
        self.files.get(&file).map(|(name, _)| name.as_str()).ok_or(Refusal::NoFile)
    }

    pub(super) fn version(&self, file: u16) -> u64 {
        self.files.get(&file).map_or(0, |&(_, version)| version)
    }

    /// The number that a name has or would get.
    pub(super) fn number_for(&self, name: &str) -> Result<u16, Refusal> {
        match self.numbers.get(name) {
            Some(&number) => Ok(number),
            None if self.files.len() >= FILES_MAX => Err(Refusal::NoRoom),
            // Below 65,535, as checked.
            None => Ok(self.files.len() as u16),
        }
    }

    /// Whether this change began to make its file before the store was interrupted.
    pub(super) fn intended(&self, session: u32, sequence: u32) -> bool {
        self.intents.contains(&(session, sequence))
    }

    /// Applies an entry, and returns the answer for its client.
    pub(super) fn apply(&mut self, entry: &Entry) -> Result<Answer, Refusal> {
        match entry {
            Entry::NextSession(number) => self.next_session = *number,
            Entry::Session(number, session) => {
                self.sessions.insert(*number, session.clone());
                return Ok(answer(*number, 0));
            }
            Entry::File { number, version, name } => self.set_file(*number, name, *version),
            Entry::Hello(client) => return Ok(answer(self.begin(*client), 0)),
            Entry::Intent { session, sequence } => {
                self.intents.insert((*session, *sequence));
            }
            Entry::Change { session, sequence, change } => {
                self.intents.retain(|&(of, _)| of != *session);
                let outcome = self.change(change);
                self.sessions.set_outcome(*session, *sequence, outcome);
                return outcome.map(|(number, version)| answer(number, version));
            }
        }
        Ok(Answer::default())
    }

    fn begin(&mut self, client: Entity) -> u32 {
        // 0 is no session.
        self.next_session = self.next_session.wrapping_add(1).max(1);
        let session = Session { client, host: None, sequence: 0, answer: Ok((0, 0)) };
        self.sessions.insert(self.next_session, session);
        self.next_session
    }

    fn change(&mut self, change: &Change) -> Result<(u32, u64), Refusal> {
        let file = match change {
            Change::Refused(refusal) => return Err(*refusal),
            Change::Opened { file, name } => {
                self.set_file(*file, name, self.version(*file));
                return Ok((u32::from(*file), self.version(*file)));
            }
            Change::Written { file, .. } | Change::Length { file, .. } => *file,
        };
        let (_, version) = self.files.get_mut(&file).ok_or(Refusal::NoFile)?;
        *version += 1;
        Ok((u32::from(file), *version))
    }

    fn set_file(&mut self, number: u16, name: &str, version: u64) {
        self.files.insert(number, (name.to_owned(), version));
        self.numbers.insert(name.to_owned(), number);
    }

    /// The whole state, as entries that begin a new journal.
    pub(super) fn known(&self) -> Vec<Vec<u8>> {
        let next = [Entry::NextSession(self.next_session)].into_iter();
        let sessions =
            self.sessions.iter().map(|(number, session)| Entry::Session(number, session.clone()));
        let files = self.files.iter().map(|(&number, (name, version))| Entry::File {
            number,
            version: *version,
            name: name.clone(),
        });
        let intents =
            self.intents.iter().map(|&(session, sequence)| Entry::Intent { session, sequence });
        next.chain(sessions).chain(files).chain(intents).map(|entry| entry.encode()).collect()
    }
}

fn answer(number: u32, version: u64) -> Answer {
    Answer { number, version, ..Answer::default() }
}

const NEXT_SESSION: u8 = 1;
const SESSION: u8 = 2;
const FILE: u8 = 3;
const HELLO: u8 = 4;
const INTENT: u8 = 5;
const REFUSED: u8 = 6;
const OPENED: u8 = 7;
const WRITTEN: u8 = 8;
const LENGTH: u8 = 9;

impl Entry {
    /// Kind and fields, big-endian; a name or data is last.
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::NextSession(number) => join(NEXT_SESSION, &[&number.to_be_bytes()]),
            Self::Session(number, session) => {
                let (code, (of, version)) = match session.answer {
                    Ok(answer) => (0, answer),
                    Err(refusal) => (refusal.code(), (0, 0)),
                };
                let words = [*number, session.sequence, code, of].map(u32::to_be_bytes);
                let [client, version] = [session.client.0, version].map(u64::to_be_bytes);
                let host = session.host.map(|host| host.0.to_be_bytes());
                let host = host.as_ref().map_or(&[][..], |host| host);
                join(SESSION, &[words.as_flattened(), &client, &version, host])
            }
            Self::File { number, version, name } => {
                join(FILE, &[&number.to_be_bytes(), &version.to_be_bytes(), name.as_bytes()])
            }
            Self::Hello(client) => join(HELLO, &[&client.0.to_be_bytes()]),
            Self::Intent { session, sequence } => {
                join(INTENT, &[&session.to_be_bytes(), &sequence.to_be_bytes()])
            }
            Self::Change { session, sequence, change } => {
                let head = [*session, *sequence].map(u32::to_be_bytes);
                change.encode(head.as_flattened())
            }
        }
    }

    /// `None` for a payload that no store writes.
    pub(super) fn decode(payload: &[u8]) -> Option<Self> {
        let (&kind, rest) = payload.split_first()?;
        let mut rest = Fields(rest);
        Some(match kind {
            NEXT_SESSION => Self::NextSession(rest.word()?),
            SESSION => {
                let [number, sequence, code, of] =
                    [rest.word()?, rest.word()?, rest.word()?, rest.word()?];
                let (client, version) = (Entity(rest.long()?), rest.long()?);
                let answer = Refusal::of_code(code).map_or(Ok((of, version)), Err);
                // Earlier versions wrote no host, and do not look for one.
                let host = rest.take().map(|octets| Host(u128::from_be_bytes(octets)));
                Self::Session(number, Session { client, host, sequence, answer })
            }
            FILE => Self::File { number: rest.half()?, version: rest.long()?, name: rest.text()? },
            HELLO => Self::Hello(Entity(rest.long()?)),
            INTENT => Self::Intent { session: rest.word()?, sequence: rest.word()? },
            _ => Self::Change {
                session: rest.word()?,
                sequence: rest.word()?,
                change: Change::decode(kind, rest)?,
            },
        })
    }
}

impl Change {
    fn encode(&self, head: &[u8]) -> Vec<u8> {
        match self {
            Self::Refused(refusal) => join(REFUSED, &[head, &refusal.code().to_be_bytes()]),
            Self::Opened { file, name } => {
                join(OPENED, &[head, &file.to_be_bytes(), name.as_bytes()])
            }
            Self::Written { file, page, data } => {
                join(WRITTEN, &[head, &file.to_be_bytes(), &page.to_be_bytes(), data])
            }
            Self::Length { file, length } => {
                join(LENGTH, &[head, &file.to_be_bytes(), &length.to_be_bytes()])
            }
        }
    }

    fn decode(kind: u8, mut rest: Fields<'_>) -> Option<Self> {
        Some(match kind {
            REFUSED => Self::Refused(Refusal::of_code(rest.word()?)?),
            OPENED => Self::Opened { file: rest.half()?, name: rest.text()? },
            WRITTEN => {
                Self::Written { file: rest.half()?, page: rest.word()?, data: rest.0.to_vec() }
            }
            LENGTH => Self::Length { file: rest.half()?, length: rest.long()? },
            _ => return None,
        })
    }
}

fn join(kind: u8, fields: &[&[u8]]) -> Vec<u8> {
    let mut payload = vec![kind];
    fields.iter().for_each(|field| payload.extend_from_slice(field));
    payload
}

/// Fields yet to be read.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn half(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    fn text(&self) -> Option<String> {
        super::request_codec::name(self.0).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: Entity = Entity(7);

    fn change(sequence: u32, change: Change) -> Entry {
        Entry::Change { session: 1, sequence, change }
    }

    fn history() -> Vec<Entry> {
        let session =
            Session { client: CLIENT, host: Some(Host(9)), sequence: 0, answer: Ok((0, 0)) };
        vec![
            Entry::Session(1, session),
            Entry::Intent { session: 1, sequence: 1 },
            change(1, Change::Opened { file: 0, name: "a/b".into() }),
            change(2, Change::Written { file: 0, page: 3, data: vec![1, 2, 3] }),
            change(3, Change::Length { file: 0, length: 70_000 }),
            change(5, Change::Refused(Refusal::Exists)),
            Entry::Intent { session: 1, sequence: 6 },
        ]
    }

    #[test]
    fn entries_come_back_and_hostile_ones_do_not() {
        for entry in history() {
            let payload = entry.encode();
            assert_eq!(Entry::decode(&payload).as_ref(), Some(&entry));
            for end in 0..payload.len() {
                // A shorter payload never decodes to this entry.
                assert_ne!(Entry::decode(&payload[..end]).as_ref(), Some(&entry));
            }
        }
    }

    #[test]
    fn a_change_is_done_once_and_answered_alike() {
        let mut dedup = DedupState::default();
        for entry in &history()[..4] {
            dedup.apply(entry).expect("done");
        }
        let done = answer(0, 1);
        assert_eq!(dedup.standing(CLIENT, 1, 1), Err(Refusal::Old));
        assert_eq!(dedup.standing(CLIENT, 1, 2), Ok(Standing::Done(Ok(done))));
        assert_eq!(dedup.standing(CLIENT, 1, 3), Ok(Standing::New));
        assert_eq!(dedup.standing(Entity(8), 1, 3), Err(Refusal::NoSession));
        assert_eq!(dedup.standing(CLIENT, 2, 1), Err(Refusal::NoSession));
    }

    #[test]
    fn a_session_proves_the_address_that_its_number_was_sent_to() {
        let mut dedup = DedupState::default();
        let (number, entry) = dedup.new_session(CLIENT, Host(9));
        assert_eq!(dedup.apply(&entry), Ok(answer(number, 0)));
        assert!(dedup.is_proof(CLIENT, Host(9), number));
        assert!(!dedup.is_proof(CLIENT, Host(10), number), "sent from elsewhere");
        assert!(!dedup.is_proof(Entity(8), Host(9), number), "another client's");
        assert!(!dedup.is_proof(CLIENT, Host(9), number.wrapping_add(1)), "guessed");
    }

    #[test]
    fn sessions_of_an_earlier_version_go_on_and_prove_nothing() {
        let mut dedup = DedupState::default();
        assert_eq!(dedup.apply(&Entry::Hello(CLIENT)), Ok(answer(1, 0)));
        assert_eq!(dedup.standing(CLIENT, 1, 1), Ok(Standing::New));
        assert!(!dedup.is_proof(CLIENT, Host(9), 1));
        let known = dedup.known();
        let entries: Vec<_> = known.iter().map(|payload| Entry::decode(payload)).collect();
        let session = Session { client: CLIENT, host: None, sequence: 0, answer: Ok((0, 0)) };
        assert_eq!(entries, [Some(Entry::NextSession(1)), Some(Entry::Session(1, session))]);
    }

    #[test]
    fn what_is_known_is_all_that_counts() {
        let mut dedup = DedupState::default();
        for entry in &history() {
            let _ = dedup.apply(entry);
        }
        let known = dedup.known();
        let mut again = DedupState::default();
        for payload in &known {
            again.apply(&Entry::decode(payload).expect("ours")).expect("known");
        }
        assert_eq!(again.known(), known);
        assert_eq!(again.standing(CLIENT, 1, 5), Ok(Standing::Done(Err(Refusal::Exists))));
        assert!(again.intended(1, 6) && !again.intended(1, 1));
        assert_eq!((again.name(0), again.version(0)), (Ok("a/b"), 2));
    }
}
