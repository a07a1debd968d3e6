//! `sockscope try`: a fix from outside on an unchanged command.
//!
//! Each test has few and short rounds. The full form (`SOCKSCOPE_SOAK=full`) has a workload on which a fix has an
//! effect and one on which it has none.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::bundle::{sockscope, stdout_of, words, workload};
use crate::killed::{groups_of, leftover, programs_held_by, wait_until};
use crate::report::{count, text};
use crate::schema::Schema;
use crate::turn;

/// Whether the full form was asked for.
pub fn is_full() -> bool {
    std::env::var("SOCKSCOPE_SOAK").is_ok_and(|form| form == "full")
}

/// The result of a trial of `command` with these arguments, and what was said on standard error.
pub fn tried(arguments: &[&str], command: &[String]) -> (Value, String) {
    let mut program = sockscope();
    program.arg("try").args(arguments).args(["--format", "json", "--"]).args(command);
    let output = program.stdin(Stdio::null()).output().expect("it was built");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let place = Path::new("sockscope try");
    Schema::read("try").check(place, &output.stdout);
    (serde_json::from_slice(&output.stdout).expect("JSON"), said)
}

/// Changed sockets of the command, of its peers and by `--pid`.
pub fn sockets(result: &Value) -> [u64; 3] {
    ["command", "peers", "processes"].map(|whose| count(&result["sockets"][whose]))
}

fn found(kind: &Value, id: &str) -> u64 {
    let findings = kind["findings"].as_array().expect("findings");
    findings.iter().filter(|one| one["id"] == id).map(|one| count(&one["count"])).sum()
}

/// Calls of at least 20 ms by the account of the workload, of each round that had some.
fn late_calls(said: &str) -> Vec<u64> {
    let objects = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let late = objects.map(|object| count(&object["client"]["calls_over_20ms"]));
    late.filter(|late| *late > 0).collect()
}

#[test]
fn root_a_stall_is_there_without_nodelay_and_gone_with_it() {
    let Some(_turn) = turn::take() else { return };
    let (calls, rounds) = if is_full() { ("200", 8) } else { ("5", 4) };
    // Without a fix on the command line it is that of the finding.
    let (result, said) =
        tried(&["--rounds", &rounds.to_string()], &workload("split_calls.py", &["--calls", calls]));
    // An acknowledgment is not always late. The program has counted its late calls in each round.
    let late = late_calls(&said);
    let (least, most) = (late.iter().min().expect("a round"), late.iter().max().expect("a round"));
    let stalls = found(&result["without"], "nagle-delayed-ack");
    assert!(
        (least.saturating_sub(1)..=most + 1).contains(&stalls),
        "{stalls} of {late:?}: {result}"
    );
    assert!(stalls > calls.parse::<u64>().expect("a number") / 2, "{result}");
    assert_eq!(found(&result["with"], "nagle-delayed-ack"), 0, "{result}");
    let difference = &result["exchange_p50_ns"];
    assert!(difference["high"].as_f64().expect("an interval") < 0.0, "{result}");
    assert_eq!(difference["is_shown"], is_full(), "{result}");
    assert_eq!(
        (&result["fixes"][0]["fix"], &result["sides"]),
        (&"nodelay".into(), &"client".into())
    );
    // One client in each of the rounds with the fix.
    assert_eq!(count(&result["fixes"][0]["accepted"]), rounds / 2);
    assert_eq!(sockets(&result), [rounds / 2, 0, 0]);
    assert_eq!(result["chosen"]["finding"], "nagle-delayed-ack");
    let answer = if is_full() { "nodelay helps" } else { "no difference that the rounds can show" };
    assert!(text(&result["result"]).starts_with(answer), "{result}");
    assert!(said.contains("nodelay at the client, for nagle-delayed-ack: "), "{said}");
}

/// The peers are sockets of this test: their options can be read, in each round. One trial has several answers, as each
/// round takes a second: a refused fix, and a program that sets the option itself later.
#[test]
fn root_the_other_end_is_changed_and_no_other_socket() {
    let Some(_turn) = turn::take() else { return };
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let at = listener.local_addr().expect("bound");
    let serving = thread::spawn(move || {
        let mut seen = Vec::new();
        for _ in 0..4 {
            let (mut peer, _) = listener.accept().expect("the command connects");
            // Not of the command, at the same port and at the same time.
            let own = TcpStream::connect(at).expect("it listens");
            let (stranger, _) = listener.accept().expect("it connected");
            seen.push([&peer, &own, &stranger].map(|one| one.nodelay().expect("an option")));
            peer.read_exact(&mut [0]).expect("a request");
            peer.write_all(&[7]).expect("an answer");
        }
        seen
    });
    let client = format!(
        "import socket; s = socket.create_connection(('127.0.0.1', {})); s.setsockopt(6, 1, 0); \
         s.send(b'x'); s.recv(1)",
        at.port()
    );
    let fixes = ["nodelay,delack=1ms", "--rounds", "4"];
    let (result, said) = tried(&fixes, &words(&["python3", "-c", &client]));
    let seen = serving.join().expect("it serves");
    let with = [true, false, false];
    assert_eq!(seen, [[false; 3], with, with, [false; 3]]);
    assert_eq!(sockets(&result), [2, 2, 0], "{result}");
    let [nodelay, delack] = [0, 1].map(|at| &result["fixes"][at]);
    assert_eq!((count(&nodelay["accepted"]), count(&delack["refused"])), (4, 4), "{result}");
    // At the client alone.
    assert_eq!((count(&nodelay["overridden"]), count(&delack["overridden"])), (2, 0), "{result}");
    assert!(text(&delack["reason"]).starts_with("EINVAL"), "{result}");
    let notes = result["notes"].to_string();
    for note in [
        "delack=1ms: the kernel refused TCP_BPF_DELACK_MAX on 4 of 4 sockets (EINVAL",
        "the program set TCP_NODELAY itself later, to 0, on 2 sockets: there nodelay was in effect only until then",
    ] {
        assert!(notes.contains(note), "{notes}");
    }
    let answer = text(&result["result"]);
    assert!(answer.starts_with("no difference that the rounds can show"), "{result}");
    let line = format!("(pid {}), server at port {}", std::process::id(), at.port());
    assert!(said.contains("sockscope: nodelay is also set on sockets of a peer: "), "{said}");
    assert!(said.contains(&line) && result["peers"].to_string().contains(&line), "{said}");
}

/// At the client, which is the command's, and at the server, which is a peer.
#[test]
fn root_sockets_on_which_the_kernel_refuses_the_fix_are_not_changed_ones() {
    let Some(_turn) = turn::take() else { return };
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let at = listener.local_addr().expect("bound");
    let serving = thread::spawn(move || {
        for _ in 0..4 {
            let (mut peer, _) = listener.accept().expect("the command connects");
            peer.write_all(&[7]).expect("a byte");
        }
    });
    let client =
        format!("import socket; socket.create_connection(('127.0.0.1', {})).recv(1)", at.port());
    let (result, said) =
        tried(&["cc=nosuch", "--rounds", "4"], &words(&["python3", "-c", &client]));
    serving.join().expect("it serves");
    // Two rounds with the fix, both ends.
    assert_eq!(count(&result["fixes"][0]["refused"]), 4, "{result}");
    assert_eq!(sockets(&result), [0; 3], "{result}");
    assert_eq!(result["peers"], Value::Array(Vec::new()), "{result}");
    assert!(!said.contains("is also set"), "{said}");
    assert_eq!(
        result["result"], "nothing was changed: the kernel refused the fix on each socket",
        "{result}"
    );
}

#[test]
fn root_a_trial_that_is_killed_leaves_nothing_and_its_command_goes_on() {
    let Some(_turn) = turn::take() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let transfer = workload("bulk.py", &["--bytes", "20000000", "--rate", "10000000"]);
    // The first round, which has no fix, ends at once.
    let script = "[ -e \"$0\" ] || { touch \"$0\"; exit 0; }; exec \"$@\"";
    let mut program = sockscope();
    program.args(["try", "nodelay", "-o"]).arg(folder.path()).args(["--", "sh", "-c", script]);
    program.arg(folder.path().join("mark")).args(&transfer);
    program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut trial = program.spawn().expect("it was built");
    let second = folder.path().join("2-with.sockscope/records.arrows");
    wait_until("data of a round with the fix", || {
        fs::metadata(&second).is_ok_and(|file| file.len() > 50_000)
    });
    let pid = trial.id();
    let programs = programs_held_by(pid);
    assert!(names(&programs).contains(&"force".to_owned()), "{:?}", names(&programs));
    trial.kill().expect("it runs");
    // The pipe ends with the transfer, which goes on.
    let mut said = String::new();
    trial.stderr.as_mut().expect("piped above").read_to_string(&mut said).expect("text");
    trial.wait().expect("it was started");
    let facts = said.lines().find(|line| line.starts_with('{')).expect("facts of the transfer");
    let facts: Value = serde_json::from_str(facts).expect("JSON");
    assert_eq!(facts["server"]["read_bytes"], 20_000_000, "{facts}");
    let status = sockscope().args(["run", "--format", "json", "--", "true"]).output();
    assert!(status.expect("it was built").status.success());
    wait_until("its programs are gone", || leftover(&programs).is_empty());
    assert_eq!(groups_of(pid), Vec::<PathBuf>::new());
}

#[test]
fn root_an_interrupt_ends_the_trial_after_the_round() {
    let Some(_turn) = turn::take() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (rounds, mark) = (folder.path().join("rounds"), folder.path().join("mark"));
    let mut program = sockscope();
    program.args(["try", "nodelay", "-o"]).arg(&rounds);
    program.args(["--", "sh", "-c", "touch \"$0\"; sleep 0.5"]).arg(&mark);
    program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut trial = program.spawn().expect("it was built");
    wait_until("the command has started", || mark.exists());
    // The command ends well: only the trial has the signal.
    let signal = Command::new("kill").args(["-INT", &trial.id().to_string()]).status();
    assert!(signal.expect("kill(1)").success());
    let mut said = String::new();
    trial.stderr.as_mut().expect("piped above").read_to_string(&mut said).expect("text");
    assert_eq!(trial.wait().expect("it was started").code(), Some(2), "{said}");
    assert!(said.contains("interrupted after round 1"), "{said}");
    assert_eq!(fs::read_dir(&rounds).expect("a folder").count(), 1);
}

/// Both ends of this test's own connections, while a command without traffic runs.
fn a_named_process_is_changed_too() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let at = listener.local_addr().expect("bound");
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_over);
    let connecting = thread::spawn(move || {
        let mut seen = BTreeSet::new();
        while !ends.load(Ordering::Relaxed) {
            let client = TcpStream::connect(at).expect("it listens");
            let (server, _) = listener.accept().expect("it connected");
            seen.insert([&client, &server].map(|one| one.nodelay().expect("an option")));
            thread::sleep(Duration::from_millis(10));
        }
        seen
    });
    let pid = std::process::id().to_string();
    let (result, said) =
        tried(&["nodelay", "--rounds", "4", "--pid", &pid], &words(&["sleep", "0.3"]));
    is_over.store(true, Ordering::Relaxed);
    let seen = connecting.join().expect("it connects");
    assert!(seen.contains(&[false; 2]) && seen.contains(&[true; 2]), "{seen:?}");
    let [command, peers, processes] = sockets(&result);
    assert!((command, peers) == (0, 0) && processes > 0, "{result}");
    assert!(
        said.contains(&format!("--pid {pid}: nodelay is also set on new connections")),
        "{said}"
    );
}

/// Later kernels let a program set two of the options by numbers of their own: TCP_RTO_MIN_US and TCP_DELACK_MAX_US of
/// include/uapi/linux/tcp.h.
fn other_numbers_of_the_options_override_too() {
    let client = "
import socket
listener = socket.create_server(('127.0.0.1', 0))
s = socket.create_connection(listener.getsockname())
s.setsockopt(6, 45, 60000)
s.setsockopt(6, 46, 60000)
peer = listener.accept()[0]
s.send(b'x'); peer.recv(1); peer.send(b'y'); s.recv(1)
";
    let probe = "import socket; s = socket.socket(); s.setsockopt(6, 45, 60000); s.setsockopt(6, 46, 60000)";
    let probed = Command::new("python3").args(["-c", probe]).stderr(Stdio::null()).status();
    if !probed.expect("python3 is installed").success() {
        eprintln!("SKIPPED: other_numbers_of_the_options_override_too: no TCP_DELACK_MAX_US here");
        return;
    }
    let fixes = ["rto-min=20ms,delack=20ms", "--rounds", "4"];
    let (result, _) = tried(&fixes, &words(&["python3", "-c", client]));
    for fix in result["fixes"].as_array().expect("fixes") {
        // Two rounds with the fix, both ends; the client alone sets the options.
        let counts = ["accepted", "refused", "overridden"].map(|name| count(&fix[name]));
        assert_eq!(counts, [4, 0, 2], "{result}");
    }
    let notes = result["notes"].to_string();
    for option in ["TCP_RTO_MIN_US", "TCP_DELACK_MAX_US"] {
        let note = format!("the program set {option} itself later, to ");
        assert!(notes.contains(&note), "{notes}");
    }
}

/// The kernel's names of programs.
fn names(programs: &BTreeSet<u64>) -> Vec<String> {
    let name = |id: &u64| {
        let mut show = Command::new("bpftool");
        show.args(["--json", "prog", "show", "id", &id.to_string()]);
        let said = stdout_of(&show.output().expect("bpftool is installed: see scripts/setup"));
        let program: Value = serde_json::from_str(&said).expect("bpftool speaks JSON");
        text(&program["name"]).to_owned()
    };
    programs.iter().map(name).collect()
}

/// Fixes, and a workload on which each has an effect. Those of the others need a link: `trial_link.rs`.
const EFFECTS: [(&str, &str, &[&str]); 5] = [
    ("nodelay", "split_calls.py", &["--calls", "25"]),
    ("delack=8ms", "split_calls.py", &["--calls", "25"]),
    ("sndbuf=1M", "bulk.py", &["--bytes", "30000000", "--sndbuf", "4608"]),
    ("rcvbuf=1M", "bulk.py", &["--bytes", "30000000", "--rcvbuf", "4608"]),
    ("pacing=20mbit", "bulk.py", &["--bytes", "3000000"]),
];

/// Fixes that calls over loopback do not need.
const NO_EFFECTS: [&str; 10] = [
    "nodelay",
    "delack=8ms",
    "sndbuf=1M",
    "rcvbuf=1M",
    "notsent=16k",
    "cc=reno",
    "pacing=1gbit",
    "rto-min=40ms",
    "iw=20",
    "window-clamp=64k",
];

#[test]
fn root_each_fix_has_an_effect_where_it_should_and_none_elsewhere() {
    let Some(_turn) = turn::take() else { return };
    if !is_full() {
        // They take minutes: `scripts/soak tries`. The tests above are the short form.
        return;
    }
    a_named_process_is_changed_too();
    other_numbers_of_the_options_override_too();
    for (fix, program, arguments) in EFFECTS {
        let (result, _) = tried(&[fix, "--rounds", "8"], &workload(program, arguments));
        println!("{fix:<16} {program:<16} {}", result["result"]);
        assert_eq!(result["fixes"][0]["refused"], 0, "{result}");
        let named = text(&result["result"]);
        // A limit of the rate is an effect too.
        let verb = if fix == "pacing=20mbit" { "makes it worse" } else { "helps" };
        assert!(named.starts_with(&format!("{fix} {verb}")), "{result}");
    }
    for fix in NO_EFFECTS {
        // An interval of 99 % leaves the true difference out once in 100 trials: such a trial does not repeat.
        let shows_nothing = |_| {
            let rpc = workload("rpc.py", &["--calls", "300"]);
            let (result, _) = tried(&[fix, "--rounds", "12"], &rpc);
            println!("{fix:<16} rpc.py           {}", result["result"]);
            assert_eq!(result["fixes"][0]["refused"], 0, "{result}");
            text(&result["result"]).starts_with("no difference that the rounds can show")
        };
        assert!((0..2).any(shows_nothing), "{fix} changes calls that it cannot change");
    }
}
