//! A store whose server and clients are killed by SIGKILL while they work: no answered change is
//! lost, and no change is done twice.
//!
//! `cargo test -p sockscope-vmtp --test kills` makes some thousand changes; for a million:
//! `STORE_CHANGES=1000000 cargo test --release -p sockscope-vmtp --test kills`.
//!
//! The program runs itself as `server FOLDER PORT` and `client NUMBER PORT CHANGES`. A client has one
//! file. Its change number k follows from k alone, and the store counts changes. So the count gives
//! the next change to a client that begins where the one before was killed. A change done twice or
//! lost shows in the count of the next answer, and in the octets.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use sockscope_vmtp::driver::{Caller, Link, Service, Transport};
use sockscope_vmtp::store::{
    Creation, Operation, PAGE_BYTES, Store, StoreClient, StoreRequest, serve,
};
use sockscope_vmtp::wire::Entity;
use sockscope_vmtp::{Config, Host};

const CLIENTS: usize = 4;
const PAGES: u64 = 24;
const SERVER: Entity = Entity(0x0000_004d_7f00_0001);
const PATIENCE: Duration = Duration::from_secs(300);
/// A kill after so many changes, and at least so many.
const CHANGES_A_KILL: u64 = 5000;
const KILLS_MIN: u64 = 24;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| arguments[at].parse().expect("a number");
    match arguments.get(1).map(String::as_str) {
        Some("server") => server(Path::new(&arguments[2]), number(3)),
        Some("client") => client(number(2), number(3), number(4)),
        // The standard harness is asked so by tools.
        Some("--list") => println!("kills: test"),
        _ => supervise(),
    }
}

fn config() -> Config {
    Config { round_trip_ns: 20_000_000, service_ns: 30_000_000, ..Config::for_payload(65_507) }
}

fn address(port: u64) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port as u16)
}

fn server(folder: &Path, port: u64) {
    let mut store = Store::open(folder).expect("a folder");
    let link = Link::bind(Transport::Udp, address(port)).expect("a socket");
    let mut service = Service::new(link, SERVER, config());
    serve(&mut service, &mut store, |_| false).expect("a network and a disk");
}

/// The effect of a change.
enum Change {
    Write { page: u32, data: Vec<u8>, durable: bool },
    SetLength(u64),
}

/// SplitMix64.
fn mix(seed: u64) -> u64 {
    let mut word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// Change `k` of a client.
fn change(client: u64, k: u64) -> Change {
    let seed = client << 48 | k;
    let word = mix(seed);
    if word.is_multiple_of(200) {
        return Change::SetLength(mix(word) % (PAGES * PAGE_BYTES as u64));
    }
    let bytes = match word >> 8 & 15 {
        0 => PAGE_BYTES,
        1..4 => 1 + (word >> 16) as usize % PAGE_BYTES,
        _ => 1 + (word >> 16) as usize % 400,
    };
    let data = (0..bytes).map(|at| (word >> 24) as u8 ^ at as u8).collect();
    let page = (mix(word) % PAGES) as u32;
    Change::Write { page, data, durable: (word >> 32).is_multiple_of(32) }
}

fn apply(model: &mut Vec<u8>, change: &Change) {
    match change {
        Change::SetLength(length) => model.resize(*length as usize, 0),
        Change::Write { page, data, .. } => {
            let from = *page as usize * PAGE_BYTES;
            model.resize(model.len().max(from + data.len()), 0);
            model[from..from + data.len()].copy_from_slice(data);
        }
    }
}

fn model(client: u64, changes: u64) -> Vec<u8> {
    let mut model = Vec::new();
    (0..changes).for_each(|k| apply(&mut model, &change(client, k)));
    model
}

fn page(model: &[u8], page: u64) -> &[u8] {
    let from = (page as usize * PAGE_BYTES).min(model.len());
    &model[from..(from + PAGE_BYTES).min(model.len())]
}

fn client(number: u64, port: u64, changes: u64) {
    let link = Link::bind(Transport::Udp, address(0)).expect("a socket");
    // No other process of the run has the number of this one.
    let entity = Entity::new(std::process::id() << 2 & 0x0fff_ffff, Ipv4Addr::LOCALHOST);
    let caller = Caller::new(link, entity, 1, config());
    let mut store = StoreClient::connect(caller, SERVER, address(port), PATIENCE).expect("a store");
    let info = store.open(&format!("client-{number}"), Creation::IfAbsent).expect("a file");
    let mut model = model(number, info.version);
    assert_eq!(info.length, model.len() as u64, "client {number} at {}", info.version);
    say(info.version);
    for k in info.version..changes {
        let change = change(number, k);
        apply(&mut model, &change);
        let version = match change {
            Change::SetLength(length) => store.set_length(info.file, length),
            Change::Write { page, data, durable } => store.write(info.file, page, data, durable),
        };
        assert_eq!(version.expect("an answer"), k + 1, "client {number}: changes done");
        say(k + 1);
        if k % 8 == 0 {
            check(&mut store, info.file, &model, mix(k) % PAGES);
        }
    }
    (0..PAGES).for_each(|at| check(&mut store, info.file, &model, at));
}

fn say(changes: u64) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{changes}").and_then(|()| out.flush()).expect("somebody listens");
}

fn check(store: &mut StoreClient, file: u16, model: &[u8], at: u64) {
    let read = store.read(file, at as u32).expect("an answer");
    assert!(read == page(model, at), "page {at} is another");
}

/// A process that ends with this one.
struct Process {
    child: Child,
    /// Reads its output.
    listener: Option<thread::JoinHandle<()>>,
}

/// A line of a client's process: the number of answered changes, or its end.
struct Said {
    client: usize,
    process: u32,
    changes: Option<u64>,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Process {
    fn start(arguments: &[String]) -> Self {
        let program = std::env::current_exe().expect("a path");
        let child = Command::new(program).args(arguments).stdout(Stdio::piped()).spawn();
        Self { child: child.expect("a process"), listener: None }
    }

    fn server(folder: &Path, port: u16) -> Self {
        Self::start(&["server".into(), folder.display().to_string(), port.to_string()])
    }

    fn client(client: usize, port: u16, changes: u64, to: &Sender<Said>) -> Self {
        let numbers = [client as u64, u64::from(port), changes].map(|it| it.to_string());
        let mut process = Self::start(&[&["client".into()], &numbers[..]].concat());
        let lines = BufReader::new(process.child.stdout.take().expect("a pipe")).lines();
        let (to, process_id) = (to.clone(), process.child.id());
        process.listener = Some(thread::spawn(move || {
            let said = |changes| Said { client, process: process_id, changes };
            for line in lines.map_while(Result::ok) {
                let _ = to.send(said(Some(line.parse().expect("a number"))));
            }
            let _ = to.send(said(None));
        }));
        process
    }

    /// SIGKILL; all its earlier output has been read.
    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(listener) = self.listener.take() {
            listener.join().expect("numbers");
        }
    }
}

/// The known progress of a client.
#[derive(Clone, Copy, Default)]
struct Progress {
    process: u32,
    answered: u64,
}

impl Progress {
    fn take(&mut self, said: &Said, changes: u64) {
        // One that was killed may have been answered without telling us.
        let is_first = said.process != self.process;
        let most = self.answered + 1;
        let least = if is_first { self.answered } else { most };
        let client = said.client;
        assert!(changes >= least, "client {client}: {least} answered, {changes} done: one is lost");
        assert!(changes <= most, "client {client}: {most} asked for, {changes} done: one twice");
        *self = Self { process: said.process, answered: changes };
    }
}

fn supervise() {
    let total: u64 =
        std::env::var("STORE_CHANGES").map_or(4000, |text| text.parse().expect("a number"));
    let each = total / CLIENTS as u64;
    let planned = KILLS_MIN.max(total / CHANGES_A_KILL);
    let folder = tempfile::tempdir().expect("a folder");
    let port = {
        let socket = UdpSocket::bind(address(0)).expect("a socket");
        socket.local_addr().expect("it is bound").port()
    };
    let mut server = Process::server(folder.path(), port);
    let (to, from) = channel();
    let start = |client| Process::client(client, port, each, &to);
    let mut clients: Vec<Process> = (0..CLIENTS).map(start).collect();
    let mut progress = [Progress::default(); CLIENTS];
    let (mut ended, mut kills) = (0, 0);
    while ended < CLIENTS {
        let said = from.recv().expect("this end of it is kept");
        let process = &mut clients[said.client];
        let Some(changes) = said.changes else {
            if said.process == process.child.id() {
                let status = process.child.wait().expect("it ended");
                assert!(status.success(), "client {}: {status}", said.client);
                ended += 1;
            }
            continue;
        };
        progress[said.client].take(&said, changes);
        let answered: u64 = progress.iter().map(|progress| progress.answered).sum();
        if answered * planned / total <= kills {
            continue;
        }
        kills += 1;
        // In turn the server, and the client that was heard just now.
        if kills % 2 == 1 {
            server.kill();
            server = Process::server(folder.path(), port);
        } else if changes < each {
            process.kill();
            *process = start(said.client);
        }
    }
    server.kill();
    let mut store = Store::open(folder.path()).expect("its journal");
    (0..CLIENTS as u64).for_each(|client| check_at_rest(&mut store, folder.path(), client, each));
    println!("store: {total} changes, {kills} kills: nothing lost, nothing done twice");
}

/// Checks the answers of a store that is opened again, and the contents of the folder.
fn check_at_rest(store: &mut Store, folder: &Path, client: u64, changes: u64) {
    let (name, model) = (format!("client-{client}"), model(client, changes));
    let mut execute = |session, sequence, operation| {
        let request = StoreRequest { session, sequence, operation }.encode();
        let reply =
            store.execute(Entity(9), Host(9), request.code, &request.user, &request.segment);
        reply.expect("a disk").answer.expect("no refusal")
    };
    let session = execute(0, 0, Operation::Hello).number;
    let open = Operation::Open { name: name.clone(), creation: Creation::Never };
    let opened = execute(session, 1, open);
    assert_eq!(opened.version, changes);
    let stat = execute(session, 0, Operation::Stat { file: opened.number as u16 });
    assert_eq!(stat.length, model.len() as u64);
    assert!(std::fs::read(folder.join(&name)).expect("a file") == model, "{name} is another");
}
