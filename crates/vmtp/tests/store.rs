//! A store's promises, request by request, without a network; and a client's copies over UDP.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use sockscope_vmtp::driver::{Caller, Link, Service, Transport};
use sockscope_vmtp::store::{
    Answer, ClientError, Creation, Operation, PAGE_BYTES, Refusal, Reply, Store, StoreClient,
    StoreError, StoreRequest, serve,
};
use sockscope_vmtp::wire::Entity;
use sockscope_vmtp::{Config, Host};

const CLIENT: Entity = Entity(0x0000_0100_7f00_0001);
const HOST: Host = Host(1);

fn request(store: &mut Store, session: u32, sequence: u32, operation: Operation) -> Reply {
    let encoded = StoreRequest { session, sequence, operation }.encode();
    store.execute(CLIENT, HOST, encoded.code, &encoded.user, &encoded.segment).expect("a disk")
}

fn hello(store: &mut Store) -> u32 {
    request(store, 0, 0, Operation::Hello).answer.expect("a session").number
}

fn open(name: &str, creation: Creation) -> Operation {
    Operation::Open { name: name.to_owned(), creation }
}

fn write(page: u32, octets: &[u8]) -> Operation {
    Operation::Write { file: 0, page, data: octets.to_vec(), durable: false }
}

fn read(store: &mut Store, page: u32) -> Vec<u8> {
    request(store, 0, 0, Operation::Read { file: 0, page }).answer.expect("a page").data
}

#[test]
fn nothing_leads_out_of_the_folder() {
    let (outside, inside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    let link = |from: &Path, name: &str| {
        std::os::unix::fs::symlink(from, inside.path().join(name)).unwrap();
    };
    link(outside.path(), "folder");
    link(&outside.path().join("secret"), "file");
    link(Path::new("/"), "root");
    std::fs::create_dir(inside.path().join("below")).unwrap();
    let mut store = Store::open(inside.path()).unwrap();
    let session = hello(&mut store);
    let names =
        ["file", "folder/secret", "folder/new", "root/etc/passwd", "../secret", "/etc/passwd"];
    let all = names.into_iter().flat_map(|name| {
        [Creation::Never, Creation::IfAbsent, Creation::New].map(|creation| (name, creation))
    });
    for (sequence, (name, creation)) in (1..).zip(all) {
        let reply = request(&mut store, session, sequence, open(name, creation));
        let is_refused = matches!(reply.answer, Err(Refusal::BadName | Refusal::Exists));
        assert!(is_refused, "{name}: {reply:?}");
    }
    let reply = request(&mut store, session, 99, open("below", Creation::Never));
    assert_eq!(reply.answer, Err(Refusal::BadName));
    assert!(request(&mut store, session, 100, open("below/a", Creation::New)).answer.is_ok());
    let names = request(&mut store, 0, 0, Operation::List { from: 0 }).answer.unwrap().data;
    assert_eq!(names, b"below/a\n");
    assert!(!outside.path().join("new").exists());
}

#[test]
fn a_folder_has_one_server() {
    let folder = tempfile::tempdir().unwrap();
    let first = Store::open(folder.path()).unwrap();
    assert!(matches!(Store::open(folder.path()), Err(StoreError::Locked(_))));
    drop(first);
    assert!(Store::open(folder.path()).is_ok());
}

#[test]
fn a_change_asked_for_again_after_a_restart_is_not_done_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let session = hello(&mut store);
    let made = request(&mut store, session, 1, open("a", Creation::New));
    let first = request(&mut store, session, 2, write(0, b"first"));
    let second = request(&mut store, session, 3, write(0, b"second"));
    assert_eq!(read(&mut store, 0), b"second", "from memory");
    // As by a kill: nothing was committed, nothing is in the file.
    drop(store);
    assert_eq!(std::fs::read(folder.path().join("a")).unwrap(), b"");
    let mut store = Store::open(folder.path()).unwrap();
    assert_eq!(std::fs::read(folder.path().join("a")).unwrap(), b"second");
    let again = request(&mut store, session, 3, write(0, b"second"));
    assert_eq!(again.answer, second.answer);
    // A packet that was long in transit.
    let late = request(&mut store, session, 2, write(0, b"first"));
    assert_eq!((late.answer, read(&mut store, 0)), (Err(Refusal::Old), b"second".to_vec()));
    assert_eq!(first.answer.map(|answer| answer.version), Ok(1));
    let later = request(&mut store, session, 4, open("a", Creation::New));
    assert_eq!((made.answer.is_ok(), later.answer), (true, Err(Refusal::Exists)));
}

#[test]
fn a_refusal_stays_one_when_it_is_asked_for_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let session = hello(&mut store);
    let refused = request(&mut store, session, 1, open("a", Creation::Never)).answer;
    assert_eq!(refused, Err(Refusal::NoFile));
    std::fs::write(folder.path().join("a"), "").unwrap();
    assert_eq!(request(&mut store, session, 1, open("a", Creation::Never)).answer, refused);
    assert!(request(&mut store, session, 2, open("a", Creation::Never)).answer.is_ok());
}

#[test]
fn a_journal_cut_anywhere_gives_a_prefix_of_the_changes() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let session = hello(&mut store);
    let _ = request(&mut store, session, 1, open("a", Creation::New));
    for number in 0..4u8 {
        let _ = request(&mut store, session, 2 + u32::from(number), write(0, &[number; 20]));
    }
    drop(store);
    let name = ".sockscope-store.journal";
    let journal = std::fs::read(folder.path().join(name)).unwrap();
    for end in journal.len() - 200..=journal.len() {
        let copy = tempfile::tempdir().unwrap();
        std::fs::write(copy.path().join(name), &journal[..end]).unwrap();
        let mut store = Store::open(copy.path()).unwrap();
        let stat = request(&mut store, 0, 0, Operation::Stat { file: 0 }).answer;
        let version = stat.map_or(0, |answer| answer.version);
        let expected = if version == 0 { Vec::new() } else { vec![version as u8 - 1; 20] };
        assert_eq!(std::fs::read(copy.path().join("a")).unwrap_or_default(), expected, "{end}");
    }
}

#[test]
fn pages_end_where_the_file_ends() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let session = hello(&mut store);
    let _ = request(&mut store, session, 1, open("a", Creation::IfAbsent));
    let _ = request(&mut store, session, 2, write(2, b"two"));
    let _ = request(&mut store, session, 3, write(2, b"T"));
    for is_committed in [false, true] {
        assert_eq!(read(&mut store, 0), vec![0; PAGE_BYTES], "{is_committed}");
        assert_eq!(read(&mut store, 2), b"Two");
        assert_eq!(read(&mut store, 3), b"");
        store.commit().unwrap();
    }
    let length = Operation::SetLength { file: 0, length: 5 };
    assert_eq!(request(&mut store, session, 4, length).answer.map(|answer| answer.version), Ok(3));
    assert_eq!(read(&mut store, 0), [0; 5]);
    let far = Operation::SetLength { file: 0, length: u64::MAX };
    assert_eq!(request(&mut store, session, 5, far).answer, Err(Refusal::NoRoom));
    assert_eq!(request(&mut store, session, 6, write(u32::MAX, b"x")).answer, Err(Refusal::NoRoom));
    let stat = request(&mut store, session, 0, Operation::Stat { file: 1 });
    assert_eq!(stat, Reply { answer: Err(Refusal::NoFile), waits: false, proves_address: true });
    assert_eq!(Answer::default().encode().code, 0);
}

/// Runs this test again in a process of its own, whose files have at most `blocks` of 1 KiB; `None` in that
/// process.
fn in_limited_process(test: &str, blocks: u32, folder: &Path) -> Option<std::process::Output> {
    if std::env::var_os(FOLDER).is_some() {
        return None;
    }
    let own = std::env::current_exe().unwrap();
    // POSIX's shells count blocks of 512 octets, bash those of 1024.
    let script = format!("ulimit -f {blocks} && exec \"$0\" --exact {test}");
    let mut command = std::process::Command::new("bash");
    let output = command.arg("-c").arg(script).arg(own).env(FOLDER, folder).output();
    Some(output.unwrap())
}

const FOLDER: &str = "SOCKSCOPE_TEST_FOLDER";

/// The length is one that this process cannot give a file, as with a file system of shorter files.
#[test]
fn a_length_that_the_system_refuses_is_an_error_of_that_request_alone() {
    const TEST: &str = "a_length_that_the_system_refuses_is_an_error_of_that_request_alone";
    let folder = tempfile::tempdir().unwrap();
    // Less than 1 TiB, and no octets that the journal has by chance.
    const FAR: u64 = 0xed_cba9_8765;
    if let Some(output) = in_limited_process(TEST, 1000, folder.path()) {
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let folder = std::path::PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let mut store = Store::open(&folder).unwrap();
    let session = hello(&mut store);
    let _ = request(&mut store, session, 1, open("a", Creation::IfAbsent));
    let journal = || std::fs::read(folder.join(".sockscope-store.journal")).unwrap();
    for (sequence, operation) in [
        (2, Operation::SetLength { file: 0, length: FAR }),
        (3, write(100, b"beyond")),
        (4, Operation::SetLength { file: 0, length: 1000 * 1024 + 1 }),
    ] {
        let reply = request(&mut store, session, sequence, operation.clone());
        assert_eq!(reply.answer, Err(Refusal::NoRoom), "{operation:?}");
        let again = request(&mut store, session, sequence, operation);
        assert_eq!(again.answer, Err(Refusal::NoRoom));
        store.commit().unwrap();
    }
    let refused = FAR.to_be_bytes();
    assert!(
        !journal().windows(8).any(|octets| octets == refused),
        "the journal has no such length"
    );
    let good = Operation::SetLength { file: 0, length: 1000 * 1024 };
    assert_eq!(request(&mut store, session, 5, good).answer.map(|answer| answer.version), Ok(1));
    assert_eq!(
        request(&mut store, session, 6, write(0, b"on")).answer.map(|answer| answer.version),
        Ok(2)
    );
    store.commit().unwrap();
    drop(store);
    let mut store = Store::open(&folder).unwrap();
    assert_eq!(read(&mut store, 0)[..2], *b"on");
}

/// A journal in which the change is, as earlier versions left it when it ended them.
#[test]
fn a_store_starts_whose_journal_has_a_length_that_the_system_refuses() {
    const TEST: &str = "a_store_starts_whose_journal_has_a_length_that_the_system_refuses";
    let folder = tempfile::tempdir().unwrap();
    let of_environment = std::env::var_os(FOLDER).map(std::path::PathBuf::from);
    let Some(folder) = of_environment else {
        let mut store = Store::open(folder.path()).unwrap();
        let session = hello(&mut store);
        let _ = request(&mut store, session, 1, open("a", Creation::IfAbsent));
        store.commit().unwrap();
        // Done where it can be done, and then undone, the journal apart.
        let length = Operation::SetLength { file: 0, length: 1 << 30 };
        assert!(request(&mut store, session, 2, length).answer.is_ok());
        drop(store);
        std::fs::File::create(folder.path().join("a")).unwrap();
        std::fs::write(folder.path().join("session"), session.to_string()).unwrap();
        let output = in_limited_process(TEST, 1000, folder.path()).unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    };
    let mut store = Store::open(&folder).expect("it starts");
    let session = std::fs::read_to_string(folder.join("session")).unwrap().parse().unwrap();
    let length = Operation::SetLength { file: 0, length: 1 << 30 };
    assert_eq!(request(&mut store, session, 2, length).answer, Err(Refusal::NoRoom));
    let stat = request(&mut store, session, 0, Operation::Stat { file: 0 }).answer.unwrap();
    assert_eq!((stat.length, stat.version), (0, 0));
}

#[test]
fn files_are_copied_in_and_out() {
    let (folder, local) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let localhost = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    let link = Link::bind(Transport::Udp, localhost).expect("a socket");
    let address = link.local_address().expect("it is bound");
    let server = Entity(0x0000_004d_7f00_0001);
    let mut service = Service::new(link, server, Config::default());
    let mut store = Store::open(folder.path()).expect("a folder");
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving =
            scope.spawn(|| serve(&mut service, &mut store, |_| ends.load(Ordering::Relaxed)));
        let work = scope.spawn(|| {
            let link = Link::bind(Transport::Udp, localhost).expect("a socket");
            let caller = Caller::new(link, CLIENT, 1, Config::default());
            let patience = Duration::from_secs(60);
            let mut client = StoreClient::connect(caller, server, address, patience).unwrap();
            let [from, to] = ["from", "to"].map(|name| local.path().join(name));
            for bytes in [0, 1, PAGE_BYTES, 3 * PAGE_BYTES + 7] {
                let octets: Vec<u8> = (0..bytes).map(|at| (at * 7 % 251) as u8).collect();
                std::fs::write(&from, &octets).unwrap();
                assert_eq!(client.put(&from, "copy").unwrap(), bytes as u64);
                assert_eq!(client.get("copy", &to).unwrap(), bytes as u64);
                assert!(std::fs::read(&to).unwrap() == octets, "{bytes} octets");
            }
            assert_eq!(client.list().unwrap(), ["copy"]);
            let error = client.get("other", &to).unwrap_err();
            assert!(matches!(error, ClientError::Refused { refusal: Refusal::NoFile, .. }));
        });
        let result = work.join();
        ends.store(true, Ordering::Relaxed);
        serving.join().expect("no panic").expect("a network and a disk");
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}
