//! `--with`: a recorder on another host, started by ssh. The hosts are network namespaces with an sshd in one.
//!
//! One kernel has both ends, so that each recorder has both. The test that looks at stages cuts the halves: of
//! the client's host it keeps what that host does, of the server's host the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use sockscope_record::{Connection, Point, Record, Side};
use sockscope_trace::{Bundle, BundleWriter};
use tempfile::TempDir;

use crate::background::Background;
use crate::bundle::{report, sockscope_says, words, workload};
use crate::halves::{is_of_client, read};
use crate::hosts::{B_BEHIND, B_V4, Hosts, ROUTER};
use crate::report::{Report, bytes};
use crate::turn::{self, Turn};

const PORT: &str = "7000";
pub const SSH_PORT: &str = "7022";
pub const SSHD: &str = "/usr/sbin/sshd";
/// Only how long a failure takes depends on it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Two hosts; `b` has an ssh server and serves calls.
struct Pair {
    folder: TempDir,
    sshd: Option<Background>,
    server: Option<Background>,
    hosts: Hosts,
    address: &'static str,
    _turn: Turn,
}

impl Pair {
    fn up() -> Option<Self> {
        Self::up_at(B_V4, &[])
    }

    /// With `b` at this address, between namespaces made with these options.
    fn up_at(address: &'static str, network: &[&str]) -> Option<Self> {
        let turn = take_turn()?;
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let sshd = sshd_in(folder.path());
        let hosts = Hosts::up(network);
        let sshd = start_sshd(&hosts.on_b(&sshd));
        Some(Self { folder, sshd: Some(sshd), server: None, hosts, address, _turn: turn })
    }

    /// Has `b` serve the calls of [`Pair::calls`].
    fn serve(&mut self) {
        let ends = ["--role", "server", "--host", B_V4, "--port", PORT];
        let mut serve = command(&self.hosts.on_b(&workload("rpc.py", &ends)));
        self.server = Some(Background::start_until(&mut serve, "-TERM", "listening on"));
    }

    /// The command that calls.
    fn calls() -> Vec<String> {
        let ends = ["--role", "client", "--host", B_V4, "--port", PORT, "--calls", "20"];
        workload("rpc.py", &ends)
    }

    fn output(&self) -> PathBuf {
        self.folder.path().join("both.sockscope")
    }

    /// `sockscope record --with` on `a`, where `program` is what `b` has in the place of sockscope.
    fn record(&self, program: &str, traffic: &[String]) -> Command {
        let ssh = ssh(self.folder.path());
        let url = format!("ssh://root@{}:{SSH_PORT}", self.address);
        let output = self.output().display().to_string();
        let own = env!("CARGO_BIN_EXE_sockscope");
        let options = ["--with", &url, "--ssh", &ssh, "--with-program", program, "-o", &output];
        let record = [&[own, "record"][..], &options, &["--"]].concat();
        command(&self.hosts.on_a(&[words(&record), traffic.to_vec()].concat()))
    }

    /// Records where the name of the result is taken meanwhile, so that both halves are kept: their paths.
    fn record_halves(&self, traffic: &[String]) -> [PathBuf; 2] {
        let taken = self.output().display().to_string();
        let script = format!("mkdir {taken} && touch {taken}/x && exec \"$@\"");
        let traffic = [words(&["sh", "-c", &script, "sh"]), traffic.to_vec()].concat();
        let recorded = self.record(env!("CARGO_BIN_EXE_sockscope"), &traffic).output();
        let recorded = recorded.expect("it was built");
        let [halves] = &self.halves()[..] else { panic!("{}", said(&recorded)) };
        let kept = format!("; what is recorded is kept in {}, not merged", halves.display());
        assert!(said(&recorded).lines().any(|line| line.ends_with(&kept)), "{}", said(&recorded));
        assert_eq!(recorded.status.code(), Some(2));
        ["local", "host-1"].map(|name| halves.join(name).with_extension("sockscope"))
    }

    /// The halves with only what each host does, merged.
    fn merge_cut(&self, [client, server]: &[PathBuf; 2]) -> Report {
        let halves = [cut(client, Side::Client), cut(server, Side::Server)];
        let [client, server] = halves.map(|path| path.display().to_string());
        let both = self.folder.path().join("cut.sockscope").display().to_string();
        sockscope_says(&["merge", &client, &server, "-o", &both]);
        report(Path::new(&both))
    }

    /// Folders with halves that were kept.
    fn halves(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path()).expect("it is ours").flatten();
        let paths = entries.map(|entry| entry.path());
        paths.filter(|path| path.display().to_string().contains(".halves-")).collect()
    }

    /// A program for `b` that is this script.
    fn script(&self, name: &str, text: &str) -> String {
        use std::os::unix::fs::PermissionsExt;
        let path = self.folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("the folder is ours");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
        path.display().to_string()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // Before the namespaces, which removing would kill them in.
        drop((self.server.take(), self.sshd.take()));
    }
}

/// The turn of a test that needs an ssh server.
pub fn take_turn() -> Option<Turn> {
    let lack = (!Path::new(SSHD).exists()).then_some("no sshd (openssh-server)");
    turn::take_with(lack)
}

/// The command of an ssh server, whose keys are made in this folder.
pub fn sshd_in(folder: &Path) -> Vec<String> {
    let file = |name: &str| folder.join(name);
    for key in ["host", "user"] {
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(file(key));
        assert!(keygen.status().expect("openssh is there").success());
    }
    let options = [
        format!("Port {SSH_PORT}"),
        format!("HostKey {}", file("host").display()),
        format!("AuthorizedKeysFile {}", file("user.pub").display()),
        "StrictModes no\nUsePAM no\nPermitRootLogin yes\nPidFile none".to_owned(),
    ];
    fs::write(file("config"), options.join("\n") + "\n").expect("the folder is ours");
    // As Debian's unit makes it.
    fs::create_dir_all("/run/sshd").expect("root may");
    words(&[SSHD, "-D", "-e", "-f", &file("config").display().to_string()])
}

/// Starts this ssh server.
pub fn start_sshd(words: &[String]) -> Background {
    Background::start_until(&mut command(words), "-TERM", "Server listening on")
}

/// `--ssh` for that server.
pub fn ssh(folder: &Path) -> String {
    let file = |name: &str| folder.join(name).display().to_string();
    format!(
        "ssh -F none -i {} -o UserKnownHostsFile={} -o StrictHostKeyChecking=accept-new",
        file("user"),
        file("known")
    )
}

pub fn command(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null());
    command
}

pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Recorders that another host started.
fn recorders() -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("proc is there").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_one = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0).skip(1);
        words.next() == Some(b"record") && words.next() == Some(b"--for-host")
    };
    pids.filter(is_one).collect()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Folders of temporary files that this process made.
fn folders_of(pid: u32) -> Vec<PathBuf> {
    let entries = fs::read_dir(std::env::temp_dir()).expect("it is there").flatten();
    let owner = format!("-{pid}-");
    let is_its = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("sockscope-tmp-") && name.contains(&owner)
    };
    entries.map(|entry| entry.path()).filter(is_its).collect()
}

#[test]
fn root_one_command_records_on_two_hosts() {
    let Some(mut pair) = Pair::up() else { return };
    pair.serve();
    let number = pair.folder.path().join("number");
    let note =
        format!("echo $$ >{}; exec {} \"$@\"", number.display(), env!("CARGO_BIN_EXE_sockscope"));
    let mut record = pair.record(&pair.script("noting", &note), &Pair::calls());
    let recorded = record.output().expect("it was built");
    assert!(recorded.status.success(), "{}", said(&recorded));
    let both = report(&pair.output());
    assert_eq!(both.connections().len(), 2, "one of each recorder: {}", both.summary());
    assert_eq!(both.gaps(), Vec::<String>::new());
    let meta = Bundle::open(pair.output()).expect("it is whole").meta().clone();
    assert!(meta.host.starts_with("first host") && meta.host.contains("+ second"), "{}", meta.host);
    assert!(said(&recorded).contains("how the clocks of the two hosts differ is not known"));
    // The recorder that was asked ends after its bundle is here.
    let pid = fs::read_to_string(number).expect("it started").trim().parse().expect("a number");
    wait_until("nothing stays", || recorders().is_empty() && folders_of(pid).is_empty());
    assert_eq!(pair.halves(), Vec::<PathBuf>::new());
}

#[test]
fn root_halves_that_cannot_be_merged_are_kept_and_have_all_stages_of_both_ends() {
    let Some(mut pair) = Pair::up() else { return };
    pair.serve();
    let halves = pair.record_halves(&Pair::calls());
    let both = pair.merge_cut(&halves);
    let connections = both.connections();
    assert_eq!(connections.len(), 1, "{}", both.summary());
    assert!(both.notes().contains("1 of 1 connection seen by both hosts"), "{}", both.notes());
    assert!(both.notes().contains(" segments from it and "), "a band: {}", both.notes());
    for point in Point::ALL {
        assert!(both.records_at(&format!("{point:?}")) > 0, "{point:?}: {}", both.summary());
    }
    assert_eq!(both.gaps(), Vec::<String>::new());
}

/// Two connections to `b`: one by its own address, with the router's in the place of the client's, and one by a port
/// of the router.
#[test]
fn root_halves_of_connections_through_nat_are_matched_by_their_marks() {
    let Some(mut pair) = Pair::up_at(B_BEHIND, &["--nat"]) else { return };
    let serve = "import socket, sys
listener = socket.create_server(('10.84.0.2', 7000))
print('listening on', file=sys.stderr, flush=True)
for _ in range(2):
    connection, _ = listener.accept()
    while data := connection.recv(1000):
        connection.sendall(data)
    connection.close()";
    let mut serve = command(&pair.hosts.on_b(&words(&["python3", "-c", serve])));
    pair.server = Some(Background::start_until(&mut serve, "-TERM", "listening on"));
    let call = format!(
        "import socket
for address in ('{B_BEHIND}', 7000), ('{ROUTER}', 8000):
    connection = socket.create_connection(address)
    for size in range(1, 21):
        connection.sendall(b'x' * size)
        connection.recv(1000)
    connection.close()"
    );
    let halves = pair.record_halves(&words(&["python3", "-c", &call]));
    let both = pair.merge_cut(&halves);
    let connections = both.connections();
    assert_eq!(connections.len(), 2, "{}", both.summary());
    assert!(both.notes().contains("2 of 2 connections seen by both hosts"), "{}", both.notes());
    assert!(both.notes().contains("by the number in the mark of the SYN: 2"), "{}", both.notes());
    assert!(both.notes().contains(" segments from it and "), "a band: {}", both.notes());
    // As the client's host has its ends, and as the server's host has them, without the ports that are chosen.
    let ends = |ends: &Value| {
        let [client, server] = ["client", "server"].map(|end| ends[end].as_str().expect("an end"));
        format!("{} {server}", client.split(':').next().expect("an address"))
    };
    let found: Vec<_> = connections.iter().map(|it| [ends(it), ends(&it["elsewhere"])]).collect();
    let masqueraded = ["10.83.0.1 10.84.0.2:7000", "10.84.0.1 10.84.0.2:7000"];
    let redirected = ["10.83.0.1 10.83.0.254:8000", "10.83.0.1 10.84.0.2:7000"];
    assert_eq!(found, [masqueraded, redirected]);
    for connection in connections {
        assert_eq!(bytes(connection, "client"), 210);
        assert_eq!(bytes(connection, "server"), 210);
    }
    for point in Point::ALL {
        assert!(both.records_at(&format!("{point:?}")) > 0, "{point:?}: {}", both.summary());
    }
    assert_eq!(both.gaps(), Vec::<String>::new());
}

/// A half with only what its side's host does; the path of the new bundle.
fn cut(half: &Path, side: Side) -> PathBuf {
    let bundle = Bundle::open(half).expect("it was kept");
    let dir = half.with_extension("cut");
    let mut writer = BundleWriter::create(&dir, bundle.meta().clone()).expect("a new folder");
    let has_side = |row: &&Connection| row.processes.iter().any(|process| process.side == side);
    let rows: Vec<_> = bundle.connections().iter().filter(has_side).collect();
    for row in &rows {
        let mut processes = row.processes.clone();
        processes.retain(|process| process.side == side);
        let row = Connection { both_ends_here: false, processes, ..(*row).clone() };
        writer.connection(&row).expect("there is room");
    }
    let mut records = read(half);
    let is_kept = |record: &Record| rows.iter().any(|row| row.id == record.flow.connection());
    records.retain(|record| is_kept(record) && is_of_client(record) == (side == Side::Client));
    writer.append(&records).expect("there is room");
    writer.finish(bundle.meta().clone()).expect("there is room");
    dir
}

#[test]
fn root_a_host_that_cannot_record_is_named_before_the_command_starts() {
    let Some(pair) = Pair::up() else { return };
    let started = pair.folder.path().join("started");
    let traffic = words(&["touch", &started.display().to_string()]);
    let own = env!("CARGO_BIN_EXE_sockscope");
    let no_right = format!("exec setpriv --bounding-set -all --inh-caps -all {own} \"$@\"");
    for (program, reason) in [
        (pair.script("older", "echo sockscope 0.0.1"), "sockscope is of version 0.0.1 there and "),
        ("/no/such/sockscope".to_owned(), "/no/such/sockscope or ssh is not found: install "),
        (pair.script("no-right", &no_right), "CAP_"),
    ] {
        let recorded = pair.record(&program, &traffic).output().expect("it was built");
        let said = said(&recorded);
        let line = said.lines().last().unwrap_or_default();
        let start = format!("sockscope: root@{B_V4}:{SSH_PORT}: ");
        assert!(line.starts_with(&start) && line.contains(reason), "{said}");
        assert_eq!(recorded.status.code(), Some(2));
        assert!(!started.exists() && !pair.output().exists(), "{program}");
    }
    assert_eq!(pair.halves(), Vec::<PathBuf>::new());
}

#[test]
fn root_a_recorder_of_another_host_that_is_killed_leaves_this_host_s_half() {
    let Some(mut pair) = Pair::up() else { return };
    pair.serve();
    let [ready, go] = ["ready", "go"].map(|name| pair.folder.path().join(name));
    let (is_ready, goes) = (ready.display(), go.display());
    let script = format!("touch {is_ready}; until [ -e {goes} ]; do sleep 0.05; done; exec \"$@\"");
    let traffic = [words(&["sh", "-c", &script, "sh"]), Pair::calls()].concat();
    let mut record = pair.record(env!("CARGO_BIN_EXE_sockscope"), &traffic);
    record.stdout(Stdio::null()).stderr(Stdio::piped());
    let record = record.spawn().expect("it was built");
    // The command starts when the other host records.
    wait_until("the command started", || ready.exists());
    assert_eq!(recorders().len(), 1);
    for pid in recorders() {
        let killed = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        assert!(killed.expect("procps is there").success());
    }
    fs::write(&go, "").expect("the folder is ours");
    let recorded = record.wait_with_output().expect("it was started");
    let said = said(&recorded);
    assert!(
        said.contains("the recorder there, or the connection, ended before its bundle was whole; "),
        "{said}"
    );
    let [halves] = &pair.halves()[..] else { panic!("{said}") };
    let half = report(&halves.join("local.sockscope"));
    assert_eq!(half.connections().len(), 1, "{}", half.summary());
    assert_eq!(recorders(), [0; 0]);
}

#[test]
fn root_a_killed_recorder_leaves_none_on_the_other_host() {
    let Some(pair) = Pair::up() else { return };
    let traffic = words(&["sh", "-c", "echo started >&2; exec sleep 3"]);
    let mut record = pair.record(env!("CARGO_BIN_EXE_sockscope"), &traffic);
    let record = Background::start_until(&mut record, "-TERM", "started");
    let [pid] = recorders()[..] else { panic!("{:?}", recorders()) };
    assert_eq!(folders_of(pid).len(), 1);
    record.signal("-KILL");
    wait_until("nothing stays", || recorders().is_empty() && folders_of(pid).is_empty());
    // The next recording removes the group of the one that was killed.
    sockscope_says(&["run", "--format", "json", "--", "true"]);
}
