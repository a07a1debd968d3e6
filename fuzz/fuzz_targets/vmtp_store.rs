//! A store under a list of operations, compared with a model of it: clients send and repeat requests,
//! hostile requests arrive, the store is committed, or killed and opened again. A kill may take away
//! changes from the end of the journal that no answer called durable: the rest is the model's state at
//! one moment since the last commit. Each change is done once, and a repeated request has the same
//! answer.
//!
//! An operation is 4 octets. Corpus: none needed.

#![no_main]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use libfuzzer_sys::fuzz_target;
use sockscope_vmtp::Host;
use sockscope_vmtp::store::{
    Answer, Creation, Operation, PAGE_BYTES, Refusal, Reply, Store, StoreRequest,
};
use sockscope_vmtp::wire::Entity;

const CLIENTS: usize = 3;
const OPERATIONS_MAX: usize = 64;
const PAGES: u8 = 3;
const NAMES: [&str; 3] = ["a", "b", "c"];

/// The answer to a client: number or version of a change.
type Outcome = Result<Answer, Refusal>;

/// The state of a store at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
struct State {
    files: Vec<Content>,
    sessions: BTreeMap<u32, Session>,
}

#[derive(Debug, Clone, PartialEq)]
struct Content {
    name: &'static str,
    version: u64,
    octets: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq)]
struct Session {
    client: usize,
    sequence: u32,
    outcome: Outcome,
}

struct Pair {
    folder: PathBuf,
    store: Option<Store>,
    /// The model after each change since the last commit, and before the first of them.
    states: Vec<State>,
    /// Octets of the journal at the last commit.
    journal_bytes: u64,
    /// Session and last change of each client.
    clients: [(u32, Option<StoreRequest>); CLIENTS],
    sequence: u32,
}

fuzz_target!(|octets: &[u8]| {
    let root = Path::new("/dev/shm");
    let root = if root.is_dir() { root.to_owned() } else { std::env::temp_dir() };
    let folder = root.join(format!("sockscope-fuzz-store-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).expect("a folder");
    let mut pair = Pair::new(folder.clone());
    for &operation in octets.as_chunks::<4>().0.iter().take(OPERATIONS_MAX) {
        pair.operate(operation);
    }
    pair.kill(0, 0);
    drop(pair);
    std::fs::remove_dir_all(folder).expect("the folder goes");
});

impl Pair {
    fn new(folder: PathBuf) -> Self {
        let store = Some(Store::open(&folder).expect("an empty folder"));
        let states = vec![State::default()];
        let clients = std::array::from_fn(|_| (0, None));
        let mut pair = Self { folder, store, states, journal_bytes: 0, clients, sequence: 0 };
        pair.journal_bytes = pair.journal().len() as u64;
        pair
    }

    fn journal(&self) -> Vec<u8> {
        std::fs::read(self.folder.join(".sockscope-store.journal")).expect("a journal")
    }

    fn store(&mut self) -> &mut Store {
        self.store.as_mut().expect("open but while it is killed")
    }

    fn state(&self) -> &State {
        self.states.last().expect("one at least")
    }

    fn operate(&mut self, [which, a, b, c]: [u8; 4]) {
        let client = usize::from(a) % CLIENTS;
        let file = u16::from(b % 4);
        match which % 8 {
            0 => self.hello(client),
            1 => {
                let creation =
                    [Creation::Never, Creation::IfAbsent, Creation::New][usize::from(c) % 3];
                let name = NAMES[usize::from(b) % NAMES.len()].to_owned();
                self.change(client, Operation::Open { name, creation });
            }
            2 | 3 => {
                let data = vec![which ^ c; usize::from(c) * 64 % (PAGE_BYTES / 2)];
                let (page, durable) = (u32::from(b / 4 % PAGES), which & 8 != 0);
                self.change(client, Operation::Write { file, page, data, durable });
            }
            4 => {
                let length = u64::from(c) * 200;
                self.change(client, Operation::SetLength { file, length });
            }
            5 => self.repeat(client),
            6 if which & 8 != 0 => self.commit(),
            6 => self.hostile([which, a, b, c]),
            _ => self.kill(u16::from_be_bytes([a, b]), c),
        }
    }

    fn hello(&mut self, client: usize) {
        let request = StoreRequest { session: 0, sequence: 0, operation: Operation::Hello };
        let reply = self.execute(client, &request);
        let mut state = self.state().clone();
        let Reply { answer: Ok(answer), waits: true, .. } = reply else { panic!("{reply:?}") };
        let number = answer.number;
        assert!(number != 0 && !state.sessions.contains_key(&number), "a number of its own");
        assert_eq!(answer, Answer { number, ..Answer::default() });
        let session = Session { client, sequence: 0, outcome: Ok(Answer::default()) };
        state.sessions.insert(number, session);
        self.clients[client] = (number, None);
        self.states.push(state);
        // A waiting request is answered after a commit.
        self.commit();
    }

    fn change(&mut self, client: usize, operation: Operation) {
        // Numbers only grow, for all clients together.
        self.sequence += 1;
        let request =
            StoreRequest { session: self.clients[client].0, sequence: self.sequence, operation };
        self.clients[client].1 = Some(request);
        self.repeat(client);
    }

    /// Asks for a client's last change, for the first time or once more.
    fn repeat(&mut self, client: usize) {
        let Some(request) = self.clients[client].1.clone() else { return };
        let reply = self.execute(client, &request);
        let mut state = self.state().clone();
        let expected = state.change(client, &request);
        assert_eq!(reply.answer, expected, "{request:?}");
        self.states.push(state);
        // A refusal leaves no mark on a file that could show a lost moment.
        if reply.waits || reply.answer.is_err() {
            self.commit();
        }
        self.compare();
    }

    fn execute(&mut self, client: usize, request: &StoreRequest) -> Reply {
        let encoded = request.encode();
        let client = Entity(client as u64 + 1);
        self.store()
            .execute(client, Host(9), encoded.code, &encoded.user, &encoded.segment)
            .expect("goes on")
    }

    /// A request of another's session, or no request at all: it changes nothing.
    fn hostile(&mut self, [which, a, b, c]: [u8; 4]) {
        let code = u32::from(which / 16) << 16 | u32::from(c);
        // Hello would begin a session, which is its right.
        if code >> 16 == 1 {
            return;
        }
        let mut user = [0; 12];
        user[3] = a;
        user[7..].fill(b);
        let reply = self.store().execute(Entity(99), Host(9), code, &user, &[a, b, c]);
        let reply = reply.expect("goes on");
        let changes = [2, 4, 5, 6].contains(&(code >> 16));
        assert!(!changes || reply.answer.is_err(), "{reply:?}");
        self.compare();
    }

    fn commit(&mut self) {
        self.store().commit().expect("a commit");
        self.states.drain(..self.states.len() - 1);
        self.journal_bytes = self.journal().len() as u64;
    }

    /// Kills the store; the system loses `lost` of the octets without a report that they are durable, and damages
    /// one that is left. The remaining state is that of one moment.
    fn kill(&mut self, lost: u16, flip: u8) {
        self.store = None;
        let mut journal = self.journal();
        let durable = self.journal_bytes as usize;
        let loose = journal.len() - durable;
        journal.truncate(durable + loose - usize::from(lost) % (loose + 1));
        if let Some(last) = journal[durable..].last_mut() {
            *last ^= flip;
        }
        std::fs::write(self.folder.join(".sockscope-store.journal"), journal).expect("written");
        self.store = Some(Store::open(&self.folder).expect("it opens again"));
        let there = self.contents();
        let at = self.states.iter().rposition(|state| state.files == there);
        let at = at.unwrap_or_else(|| panic!("{there:?} was never there: {:?}", self.states));
        self.states = vec![self.states.swap_remove(at)];
        self.journal_bytes = self.journal().len() as u64;
    }

    fn compare(&mut self) {
        let there = self.contents();
        assert_eq!(there, self.state().files);
    }

    /// Every file that has a number, as the store gives it.
    fn contents(&mut self) -> Vec<Content> {
        let names: Vec<_> = self.state().files.iter().map(|file| file.name).collect();
        let mut contents = Vec::new();
        for (number, name) in names.into_iter().enumerate() {
            // Three names at most.
            let file = number as u16;
            let stat = self.execute(
                0,
                &StoreRequest { session: 0, sequence: 0, operation: Operation::Stat { file } },
            );
            let Ok(Answer { version, length, .. }) = stat.answer else { continue };
            let mut octets = Vec::new();
            for page in 0..u32::from(PAGES) + 1 {
                let read = Operation::Read { file, page };
                let read =
                    self.execute(0, &StoreRequest { session: 0, sequence: 0, operation: read });
                octets.extend(read.answer.expect("a page").data);
            }
            assert_eq!(octets.len() as u64, length);
            contents.push(Content { name, version, octets });
        }
        contents
    }
}

impl State {
    /// Applies a change and returns its answer, the first time and later.
    fn change(&mut self, client: usize, request: &StoreRequest) -> Outcome {
        let StoreRequest { session, sequence, ref operation } = *request;
        let known = self.sessions.get(&session).filter(|known| known.client == client);
        let known = known.ok_or(Refusal::NoSession)?;
        if known.sequence == sequence {
            return known.outcome.clone();
        }
        let outcome = self.carry_out(operation);
        let session = self.sessions.get_mut(&session).expect("looked at above");
        (session.sequence, session.outcome) = (sequence, outcome.clone());
        outcome
    }

    fn carry_out(&mut self, operation: &Operation) -> Outcome {
        match operation {
            Operation::Open { name, creation } => self.open(name, *creation),
            Operation::Write { file, page, data, .. } => self.touch(*file, |octets| {
                let begin = *page as usize * PAGE_BYTES;
                if !data.is_empty() {
                    octets.resize(octets.len().max(begin + data.len()), 0);
                    octets[begin..begin + data.len()].copy_from_slice(data);
                }
            }),
            Operation::SetLength { file, length } => {
                self.touch(*file, |octets| octets.resize(*length as usize, 0))
            }
            _ => unreachable!("no change"),
        }
    }

    fn open(&mut self, name: &str, creation: Creation) -> Outcome {
        let at = self.files.iter().position(|file| file.name == name);
        match (at, creation) {
            (None, Creation::Never) => Err(Refusal::NoFile),
            (Some(_), Creation::New) => Err(Refusal::Exists),
            (Some(at), _) => Ok(Answer {
                number: at as u32,
                version: self.files[at].version,
                ..Answer::default()
            }),
            (None, _) => {
                let name = NAMES.into_iter().find(|it| *it == name).expect("one of ours");
                self.files.push(Content { name, version: 0, octets: Vec::new() });
                Ok(Answer { number: self.files.len() as u32 - 1, ..Answer::default() })
            }
        }
    }

    fn touch(&mut self, file: u16, change: impl FnOnce(&mut Vec<u8>)) -> Outcome {
        let content = self.files.get_mut(usize::from(file)).ok_or(Refusal::NoFile)?;
        change(&mut content.octets);
        content.version += 1;
        Ok(Answer { number: u32::from(file), version: content.version, ..Answer::default() })
    }
}
