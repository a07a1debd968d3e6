//! `sockscope-lab vmtp` from the command line: servers and clients as processes of their own.

#[path = "../both/mod.rs"]
mod both;
mod strangers;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use sockscope_vmtp::driver::{Link, Service, Transport};
use sockscope_vmtp::wire::Entity;
use sockscope_vmtp::{Config, Outcome};

/// A server that ends with the test.
struct Server {
    child: Child,
    /// Its standard error after the first line. While it is open the server can write to it.
    said: BufReader<ChildStderr>,
    /// As it says: `BE-1-127.0.0.1`, `127.0.0.1:4711`.
    name: String,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockscope-lab"));
    command.arg("vmtp").args(arguments);
    command
}

fn server(arguments: &[&str]) -> Server {
    started(&mut command(arguments))
}

fn started(command: &mut Command) -> Server {
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
    said.read_line(&mut line).expect("a line");
    let place = line.trim().split_once(": ").expect("what: where").1;
    let (name, address) = place.split_once(" at ").expect("name at address");
    let (name, address) = (name.to_owned(), address.to_owned());
    Server { child, said, name, address }
}

impl Server {
    /// Interrupts it; returns its status and its standard error after the first line.
    fn end(mut self) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-INT", &pid]).status().expect("kill");
        let mut said = String::new();
        self.said.read_to_string(&mut said).expect("text");
        (self.child.wait().expect("it ends").code(), said)
    }
}

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().expect("it starts")
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Three servers are members; a line for each answer, and none for a group without members.
#[test]
fn a_group_is_called_by_multicast_and_each_member_answers() {
    let free = std::net::UdpSocket::bind("0.0.0.0:0").expect("a port");
    let port = free.local_addr().expect("it is bound").port();
    drop(free);
    let at = format!("0.0.0.0:{port}");
    let members: Vec<_> = ["BE-81-127.0.0.1", "BE-82-127.0.0.1", "BE-83-127.0.0.1"]
        .map(|name| {
            let group = ["--group", "UG-21328-127.0.0.1", "--interface", "127.0.0.1"];
            server(&[&["serve", "--at", &at, "--name", name], &group[..]].concat())
        })
        .into();
    let call = |group: &str| {
        let to = format!("127.0.0.1:{port}");
        let by = ["--interface", "127.0.0.1", "--collect", "500ms"];
        run(&[&["call", "hello", "--to", &to, "--group", group], &by[..]].concat())
    };
    let called = call("UG-21328-127.0.0.1");
    let said = text(&called.stdout);
    let mut names: Vec<_> = said.lines().filter_map(|line| line.split_once(" at ")).collect();
    names.sort_unstable();
    assert_eq!(names.iter().map(|(name, _)| *name).collect::<Vec<_>>(), {
        let own = members.iter().map(|server| server.name.as_str());
        own.collect::<Vec<_>>()
    });
    assert!(names.iter().all(|(_, answer)| answer.ends_with(&format!(":{port}: hello"))), "{said}");
    let unanswered = call("UG-21329-127.0.0.1");
    assert!(text(&unanswered.stderr).contains("no answer"), "{unanswered:?}");
    assert_eq!(unanswered.status.code(), Some(2));
    let no_group = call("BE-1-127.0.0.1");
    assert!(text(&no_group.stderr).contains("no group"), "{no_group:?}");
}

/// Serves as a member of the group, with a code for each answer, until `ends` is set.
fn member(name: u32, port: u16, code: u32, ends: &AtomicBool) {
    let loopback = Ipv4Addr::LOCALHOST;
    let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
    let link = Link::bind(Transport::Udp, any).expect("a socket");
    let mut service = Service::new(link, Entity::new(name, loopback), Config::for_payload(1472));
    let group = Entity::group(21_328, loopback);
    service.link().join(group, loopback).expect("multicast on loopback");
    service.join(group).expect("a member");
    let served =
        service.serve(|_| ends.load(Ordering::Relaxed), |_| Outcome { code, ..Outcome::default() });
    served.expect("it serves");
}

#[test]
fn a_call_that_all_members_answer_with_an_error_code_fails() {
    let free = std::net::UdpSocket::bind("0.0.0.0:0").expect("a port");
    let port = free.local_addr().expect("it is bound").port();
    drop(free);
    let to = format!("127.0.0.1:{port}");
    let group = ["--group", "UG-21328-127.0.0.1", "--interface", "127.0.0.1", "--collect", "500ms"];
    let call = |codes: [u32; 2]| {
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (name, code) in (91..).zip(codes) {
                let ends = &ends;
                scope.spawn(move || member(name, port, code, ends));
            }
            let mut called = run(&[&["call", "hello", "--to", &to], &group[..]].concat());
            // A member that starts late does not answer.
            for _ in 0..20 {
                if text(&called.stdout).lines().count() == codes.len() {
                    break;
                }
                called = run(&[&["call", "hello", "--to", &to], &group[..]].concat());
            }
            ends.store(true, Ordering::Relaxed);
            called
        })
    };
    let refused = call([5, 6]);
    let mut lines: Vec<_> = text(&refused.stdout).lines().map(str::to_owned).collect();
    lines.sort_unstable();
    let expected = [(91, 5), (92, 6)]
        .map(|(name, code)| format!("BE-{name}-127.0.0.1 at {to}: answers with code {code:#x}"));
    assert_eq!(lines, expected, "each answer has its line: {refused:?}");
    let said = text(&refused.stderr);
    assert!(said.ends_with("2 answers, none without an error code\n"), "{said}");
    assert_eq!((said.lines().count(), refused.status.code()), (1, Some(2)), "{said}");
    let mixed = call([5, 0]);
    assert_eq!((text(&mixed.stderr), mixed.status.code()), (String::new(), Some(0)), "{mixed:?}");
}

#[test]
fn an_echo_is_called_and_found_by_name() {
    let server = server(&["serve", "--at", "127.0.0.1:0"]);
    let called = run(&["call", "hello", "--to", &server.address]);
    assert_eq!((called.status.code(), text(&called.stdout)), (Some(0), "hello".into()));
    let found = run(&["find", &server.name, "--to", &server.address]);
    assert_eq!(text(&found.stdout), format!("{} at {}\n", server.name, server.address));
    let free = run(&["find", "BE-99-127.0.0.1", "--to", &server.address]);
    assert!(text(&free.stdout).contains("nobody answers"), "{free:?}");
    let other = run(&["call", "--name", "BE-99-127.0.0.1", "--to", &server.address]);
    assert_eq!(other.status.code(), Some(2));
    let said = text(&other.stderr);
    assert!(said.contains("has no entity of this name") && said.lines().count() == 1, "{said}");
}

/// Multicast does not come to a socket of one address: such a server would wait for it for ever.
#[test]
fn a_member_that_hears_no_multicast_says_so_and_answers_what_comes() {
    let group = "UG-1-127.0.0.1";
    let mut server = server(&["serve", "--at", "127.0.0.1:0", "--group", group]);
    let mut line = String::new();
    server.said.read_line(&mut line).expect("a line");
    assert!(line.starts_with("UG-1-127.0.0.1: multicast does not come here"), "{line}");
    let called = run(&["call", "hello", "--name", group, "--to", &server.address]);
    assert_eq!((called.status.code(), text(&called.stdout)), (Some(0), "hello".into()));
}

#[test]
fn long_calls_carry_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("data");
    let octets: Vec<u8> = (0..300_000).map(|at| (at * 7 % 251) as u8).collect();
    std::fs::write(&file, &octets).expect("a file");
    let server = server(&["serve", "--at", "127.0.0.1:0"]);
    let called = run(&["call", "--file", path(&file), "--to", &server.address]);
    assert!(called.stdout == octets, "{}", text(&called.stderr));
}

#[test]
fn a_list_shows_names_with_escapes_in_place_of_terminal_controls() {
    let served = tempfile::tempdir().expect("a folder");
    std::fs::write(served.path().join("a\u{1b}[2Jb"), "").expect("a file");
    let server = server(&["store", path(served.path()), "--at", "127.0.0.1:0"]);
    let list = run(&["list", "--to", &server.address]);
    assert_eq!(text(&list.stdout), "a\\u{1b}[2Jb\n");
}

#[test]
fn files_go_into_a_store_and_come_out_after_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let [served, from, to] = ["served", "from", "to"].map(|name| folder.path().join(name));
    std::fs::create_dir(&served).expect("a folder");
    let octets: Vec<u8> = (0..100_000).map(|at| (at * 7 % 251) as u8).collect();
    std::fs::write(&from, &octets).expect("a file");
    let first = server(&["store", path(&served), "--at", "127.0.0.1:0"]);
    let put = run(&["put", path(&from), "a", "--to", &first.address]);
    assert_eq!(put.status.code(), Some(0), "{}", text(&put.stderr));
    let outside = run(&["get", "../from", path(&to), "--to", &first.address]);
    assert_eq!(outside.status.code(), Some(2));
    let second = run(&["store", path(&served), "--at", "127.0.0.1:0"]);
    assert!(text(&second.stderr).contains("another server has this folder"), "{second:?}");
    drop(first);
    let again = server(&["store", path(&served), "--at", "127.0.0.1:0"]);
    assert_eq!(text(&run(&["list", "--to", &again.address]).stdout), "a\n");
    let got = run(&["get", "a", path(&to), "--to", &again.address]);
    assert_eq!(got.status.code(), Some(0), "{}", text(&got.stderr));
    assert!(std::fs::read(&to).expect("a file") == octets);
    assert!(run(&["get", "a", "-", "--to", &again.address]).stdout == octets);
}

/// A copy into a store with both ends recorded, and what `merge` says of the two.
fn record_both_ends(at: &str, more: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let [served, from, ours, theirs, both] =
        ["served", "from", "ours", "theirs", "both"].map(|name| folder.path().join(name));
    std::fs::create_dir(&served).expect("a folder");
    std::fs::write(&from, vec![7; 40_000]).expect("a file");
    let store = [&["store", path(&served), "--at", at, "--record", path(&theirs)], more].concat();
    let mut store = server(&store);
    let put = ["put", path(&from), "--to", &store.address, "--record", path(&ours)];
    let put = run(&[&put, more].concat());
    assert_eq!(put.status.code(), Some(0), "{}", text(&put.stderr));
    let pid = store.child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("it starts").success());
    assert!(store.child.wait().expect("it ends").success());
    let merged = Command::new(both::sockscope())
        .args(["merge", path(&theirs), path(&ours), "--output", path(&both)])
        .output()
        .expect("it starts");
    text(&merged.stderr)
}

#[test]
fn both_ends_of_a_store_are_recorded_and_joined() {
    let said = record_both_ends("127.0.0.1:0", &[]);
    assert!(said.contains("1 connection, 1 of them seen by both engines"), "{said}");
}

#[test]
fn root_servers_share_an_address_of_raw_ip_and_are_recorded() {
    let own = "127.0.81.7:0";
    let tried = run(&["call", "--to", own, "--raw", "--name", "BE-9-127.0.81.7"]);
    if text(&tried.stderr).contains("CAP_NET_RAW") {
        // `cargo xtask ci` counts this line; libtest keeps what `eprintln!` writes.
        let test = "root_servers_share_an_address_of_raw_ip_and_are_recorded";
        let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: no raw IP sockets");
        return;
    }
    let [one, other] = ["BE-8-127.0.81.8", "BE-9-127.0.81.8"];
    let at = "127.0.81.8:0";
    let _servers = [one, other].map(|name| server(&["serve", "--at", at, "--raw", "--name", name]));
    for name in [one, other] {
        let called = run(&["call", name, "--to", at, "--raw", "--name", name]);
        assert_eq!(text(&called.stdout), name, "{}", text(&called.stderr));
    }
    let found = run(&["find", other, "--to", at, "--raw"]);
    assert_eq!(text(&found.stdout), format!("{other} at {at}\n"));
    let said = record_both_ends(own, &["--raw"]);
    assert!(said.contains("1 connection, 1 of them seen by both engines"), "{said}");
}
