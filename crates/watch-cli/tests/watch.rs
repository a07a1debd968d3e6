//! `sockscope-watch watch` on traffic of this machine.

mod common;
mod mixed;
mod tail;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::{CALLS, Program, Watch, may_record, watch};
use sockscope_analysis::{Analysis, Analyzer, FindingId, LedgerPart, RequestEnd, TraceFacts};
use sockscope_record::Kind;
use sockscope_trace::Bundle;

/// As much as goes through.
const BULK: &str = "
import socket, sys, threading, time
listener = socket.create_server(('127.0.0.1', 0))
print(listener.getsockname()[1], flush=True)
sys.stdin.readline()
def serve():
    peer = listener.accept()[0]
    while peer.recv(1000): pass
threading.Thread(target=serve, daemon=True).start()
sock = socket.create_connection(listener.getsockname())
sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while True: sock.sendall(b'x' * 1000)
";

/// Connections of a question and an answer each, one after the other, until it gets a line; their number at the end.
const CHURN: &str = "
import os, select, socket, sys, threading, time
listener = socket.create_server(('127.0.0.1', 0), backlog=100)
print(listener.getsockname()[1], flush=True)
sys.stdin.readline()
def serve():
    while True:
        with listener.accept()[0] as peer: peer.sendall(peer.recv(400, socket.MSG_WAITALL))
threading.Thread(target=serve, daemon=True).start()
opened = 0
while not select.select([0], [], [], 0.001)[0]:
    with socket.create_connection(listener.getsockname()) as sock:
        opened += 1
        sock.sendall(b'q' * 400)
        sock.recv(400, socket.MSG_WAITALL)
print(opened, flush=True)
time.sleep(60)
";

fn python(script: &str) -> Program {
    Program::start(Command::new("python3").args(["-c", script]))
}

/// Folders with this at the beginning of their names.
fn bundles(folder: &Path, begins: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_one = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(begins);
    entries.filter(is_one).collect()
}

fn analysis(bundle: &Bundle) -> Analysis {
    analysis_until(bundle, None)
}

/// The same of a trace that ended then, by the clock of its records.
fn analysis_until(bundle: &Bundle, ended_ns: Option<u64>) -> Analysis {
    let mut analyzer = Analyzer::new();
    bundle.connections().iter().for_each(|one| analyzer.connection(one.clone()));
    let mut records = bundle.records().unwrap();
    while let Some(batch) = records.next_batch().unwrap() {
        analyzer.push(batch);
    }
    analyzer.finish(TraceFacts { ended_ns, ..TraceFacts::default() })
}

#[test]
fn root_a_stall_is_kept_once_with_the_time_before_it() {
    let test = "root_a_stall_is_kept_once_with_the_time_before_it";
    if !may_record(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut calls = python(CALLS);
    let port = calls.port();
    let lines = folder.path().join("findings.jsonl");
    let arguments = [
        "--when",
        "finding=nagle-delayed-ack > 100ms in 5s",
        "--before",
        "3s",
        "--after",
        "1s",
        "--keep",
        "20s",
        "--exec",
        "touch",
        "--findings",
        lines.to_str().unwrap(),
    ];
    let mut recorder = Watch::start(&mut watch(&port, folder.path(), &arguments));
    recorder.wait_for("a trace is kept when finding=nagle-delayed-ack");
    calls.begin();
    let begins = recorder.wait_for("keeping a trace: ");
    assert!(begins.contains("Nagle's algorithm held"), "{begins}");
    recorder.wait_for("see it: sockscope report");
    // The condition holds for some seconds more, and is one.
    std::thread::sleep(Duration::from_secs(2));
    let said = recorder.end();
    // The kernel may skip probes while the machine's own agent has the CPU (docs/limits.md): these records are counted.
    assert!(said.contains("1 trace kept, "), "{said}");
    assert!(!folder.path().join("segments").exists(), "{said}");
    let kept = bundles(folder.path(), "kept-");
    let [kept] = &kept[..] else { panic!("{kept:?}: {said}") };
    let bundle = Bundle::open(kept).unwrap();
    assert!(bundle.meta().complete && bundle.problems().is_empty(), "{:?}", bundle.problems());
    assert!(bundle.meta().notes[0].starts_with("kept by sockscope watch: finding="));
    let analysis = analysis(&bundle);
    let connection = &analysis.connections[0];
    let finding = connection.findings.iter().find(|it| it.id == FindingId::NagleDelayedAck);
    let finding = finding.unwrap_or_else(|| panic!("{:?}", connection.findings));
    // Calls from before the stalls are in it, and the residue is 0: the segments follow one another without a gap.
    let before_ns = finding.times[0].0 - analysis.start_ns;
    assert!(before_ns > 1_000_000_000, "{before_ns} ns before the first stall");
    let residues = connection.flows.iter().flat_map(|flow| &flow.stages);
    let residues: Vec<_> = residues.filter_map(|stage| stage.residue_bytes).collect();
    assert!(residues.iter().all(|residue| *residue == 0), "{residues:?}");
    let lines = fs::read_to_string(lines).unwrap();
    let is_json = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
    assert!(lines.contains("\"finding\":\"nagle-delayed-ack\"") && lines.lines().all(is_json));
}

/// The scheduling of each thread of a process: its name and its policy in the kernel's numbers.
fn policies(pid: u32) -> BTreeMap<String, u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let policy = |thread: PathBuf| {
        let name = fs::read_to_string(thread.join("comm")).ok()?.trim().to_owned();
        let stat = fs::read_to_string(thread.join("stat")).ok()?;
        // proc_pid_stat(5): the 41st field, the 39th behind the name.
        let policy = stat.rsplit_once(')')?.1.split_whitespace().nth(38)?.parse().ok()?;
        Some((name, policy))
    };
    threads.filter_map(|thread| policy(thread.ok()?.path())).collect()
}

#[test]
fn root_a_recorder_gives_way_and_misses_nothing_where_others_use_each_cpu() {
    let test = "root_a_recorder_gives_way_and_misses_nothing_where_others_use_each_cpu";
    if !may_record(test) {
        return;
    }
    const ORDINARY: u32 = 0;
    const REAL_TIME: u32 = 2;
    const IDLE: u32 = 5;
    let folder = tempfile::tempdir().unwrap();
    let mut churn = python(CHURN);
    let mut recorder = Watch::start(&mut watch(&churn.port(), folder.path(), &[]));
    recorder.wait_for("a trace is kept when");
    let cpus = std::thread::available_parallelism().unwrap().get();
    let hogs: Vec<_> = (0..2 * cpus)
        .map(|_| Program::start(Command::new("sh").args(["-c", "while :; do :; done"])))
        .collect();
    churn.begin();
    let end = std::time::Instant::now() + Duration::from_secs(2);
    let mut seen: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    while std::time::Instant::now() < end {
        for (name, policy) in policies(recorder.child.id()) {
            seen.entry(name).or_default().push(policy);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    drop(hogs);
    let said = recorder.end();
    // A full list has thousands. The kernel may skip single probes (docs/limits.md): these are counted.
    assert!(number_before(&said, " records missed") < 100, "{said}");
    // They are late again and again, and are raised each time.
    for (thread, policies) in
        [("recorder", [IDLE, REAL_TIME]), ("sockscope-watch", [IDLE, ORDINARY])]
    {
        let seen = &seen[thread];
        assert!(policies.iter().all(|policy| seen.contains(policy)), "{thread}: {seen:?}");
    }
    assert!(seen["guard"].iter().all(|policy| *policy == REAL_TIME), "{:?}", seen["guard"]);
}

/// By thread of a process, the number of its waits that ended: `voluntary_ctxt_switches` (proc(5)).
fn waits(pid: u32) -> BTreeMap<String, u64> {
    let mut waits = BTreeMap::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten() {
        let [name, status] =
            ["comm", "status"].map(|file| fs::read_to_string(thread.path().join(file)));
        let (Ok(name), Ok(status)) = (name, status) else { continue };
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        waits.insert(name.trim().to_owned(), line.unwrap().trim().parse().unwrap());
    }
    waits
}

/// A thread of real-time priority takes the CPU from a server in the middle of an answer.
#[test]
fn root_the_guard_sleeps_while_the_recorder_is_on_time() {
    let test = "root_the_guard_sleeps_while_the_recorder_is_on_time";
    if !may_record(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut recorder = Watch::start(&mut watch("1", folder.path(), &[]));
    recorder.wait_for("a trace is kept when");
    // Where other tests use each CPU, the recorder may be late for some time.
    let mut sleeps = (0..100).map(|_| {
        let before = waits(recorder.child.id());
        std::thread::sleep(Duration::from_millis(200));
        let after = waits(recorder.child.id());
        // The guard starts a moment later.
        let between = |name: &str| Some(after.get(name)? - before.get(name)?);
        between("guard") == Some(0) && between("recorder") > Some(1)
    });
    assert!(sleeps.any(|sleeps| sleeps), "the guard wakes all the time");
    recorder.end();
}

/// The number before these words.
fn number_before(text: &str, words: &str) -> u64 {
    let before = text.split(words).next().filter(|before| *before != text);
    let number = before.and_then(|before| before.split(' ').next_back()?.parse().ok());
    number.unwrap_or_else(|| panic!("no number before {words:?} in\n{text}"))
}

#[test]
fn root_a_budget_leaves_whole_connections_out_and_counts_them() {
    let test = "root_a_budget_leaves_whole_connections_out_and_counts_them";
    if !may_record(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut churn = python(CHURN);
    let port = churn.port();
    // Less than the recorder needs for itself.
    let arguments = ["--budget", "0.1%", "--when", "lost > 60m in 90m", "--after", "100ms"];
    let mut recorder = Watch::start(&mut watch(&port, folder.path(), &arguments));
    recorder.wait_for("a trace is kept when");
    churn.begin();
    let said = recorder.wait_for("above the budget of 0.10 %");
    assert!(said.contains(" of the connections are recorded from now on"), "{said}");
    std::thread::sleep(Duration::from_secs(1));
    churn.begin();
    let opened: u64 = churn.port().parse().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let pid = recorder.child.id().to_string();
    assert!(Command::new("kill").args(["-USR1", &pid]).status().unwrap().success());
    recorder.wait_for("see it: sockscope report");
    let said = recorder.end();
    let left_out = number_before(&said, " others left out");
    assert!(left_out > 0 && left_out < opened, "{left_out} of {opened}: {said}");
    assert_eq!(number_before(&said, " connections recorded,") + left_out, opened, "{said}");
    let kept = bundles(folder.path(), "kept-");
    let bundle = Bundle::open(&kept[0]).unwrap();
    let meta = bundle.meta();
    assert!(
        meta.notes.iter().any(|note| note.contains("others were left out")),
        "{:?}",
        meta.notes
    );
    // By flow: octets written, and octets read.
    let mut octets: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
    let mut left_out_later = Vec::new();
    let mut records = bundle.records().unwrap();
    while let Some(batch) = records.next_batch().unwrap() {
        for record in batch {
            let place = match record.kind {
                Kind::SendEnqueue => 0,
                Kind::ReceiveDequeue => 1,
                Kind::LeftOut => {
                    left_out_later.push(record.flow.connection().0);
                    continue;
                }
                _ => continue,
            };
            octets.entry(record.flow.0).or_default()[place] += u64::from(record.len);
        }
    }
    let ids = bundle.connections().iter().map(|connection| connection.id.0);
    let whole =
        |id: &u32| [0, 1].iter().all(|way| octets.get(&(2 * id + way)) == Some(&[400, 400]));
    let (whole, broken): (Vec<u32>, Vec<u32>) = ids.partition(whole);
    assert!(whole.len() > 10, "{whole:?}, {broken:?}");
    // The share may fall again while connections are open: these have a mark.
    let broken: Vec<u32> = broken.into_iter().filter(|id| !left_out_later.contains(id)).collect();
    // The kernel may skip probes while the machine's own agent has the CPU: these records are counted.
    assert!(broken.len() as u64 <= meta.loss.total(), "{broken:?}, missed {}", meta.loss.total());
}

/// A connection with 3000 bytes that the other end does not read, from a line on, and then connections as [`CHURN`].
const UNREAD_AND_CHURN: &str = "
import os, select, socket, sys, threading, time
listener = socket.create_server(('127.0.0.1', 0), backlog=100)
print(listener.getsockname()[1], flush=True)
sys.stdin.readline()
lazy = socket.create_connection(listener.getsockname())
peer = listener.accept()[0]
for _ in range(10):
    lazy.sendall(b'q' * 100); peer.recv(100, socket.MSG_WAITALL)
    peer.sendall(b'a' * 100); lazy.recv(100, socket.MSG_WAITALL)
lazy.sendall(b'q' * 3000)
def serve():
    while True:
        with listener.accept()[0] as one: one.sendall(one.recv(400, socket.MSG_WAITALL))
threading.Thread(target=serve, daemon=True).start()
while not select.select([0], [], [], 0.001)[0]:
    with socket.create_connection(listener.getsockname()) as sock:
        sock.sendall(b'q' * 400)
        sock.recv(400, socket.MSG_WAITALL)
time.sleep(60)
";

/// Bytes unread when a connection is left out may have been read since: no ledger, residue or finding says otherwise.
#[test]
fn root_a_long_connection_is_left_out_on_the_way_and_unknown_from_there_on() {
    let test = "root_a_long_connection_is_left_out_on_the_way_and_unknown_from_there_on";
    if !may_record(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut program = python(UNREAD_AND_CHURN);
    let port = program.port();
    let arguments = [
        "--budget",
        "0.1%",
        "--when",
        "lost > 60m in 90m",
        "--after",
        "100ms",
        "--listen",
        "127.0.0.1:0",
    ];
    let mut recorder = Watch::start(&mut watch(&port, folder.path(), &arguments));
    let line = recorder.wait_for("metrics are at");
    let address = line.split("http://").nth(1).unwrap().trim_end_matches("/metrics").to_owned();
    program.begin();
    // The smallest share: with 1023 in 1024 the connection is not of it.
    recorder.wait_for("cannot be held");
    std::thread::sleep(Duration::from_millis(1_500));
    let mut metrics = String::new();
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    stream.read_to_string(&mut metrics).unwrap();
    let value = |begins: &str| -> f64 {
        let line = metrics.lines().find(|line| line.starts_with(begins)).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let left_out = value("sockscope_connections_left_out_later_total ");
    if left_out == 0.0 {
        // The hash of its endpoints is among the smallest.
        println!("{test}: the connection is of each share");
        return;
    }
    let pid = recorder.child.id().to_string();
    assert!(Command::new("kill").args(["-USR1", &pid]).status().unwrap().success());
    recorder.wait_for("see it: sockscope report");
    let said = recorder.end();
    assert_eq!(number_before(&said, " of them left out on the way"), left_out as u64, "{said}");
    let kept = bundles(folder.path(), "kept-");
    let bundle = Bundle::open(&kept[0]).unwrap();
    let notes = &bundle.meta().notes;
    assert!(notes.iter().any(|note| note.contains("left out on the way")), "{notes:?}");
    let id = bundle.connections().iter().map(|one| one.id).min().unwrap();
    let mut last_ns = 0;
    let mut left_out_ns = Vec::new();
    let mut records = bundle.records().unwrap();
    while let Some(batch) = records.next_batch().unwrap() {
        for record in batch.iter().filter(|it| it.flow.connection() == id) {
            last_ns = record.at_ns.max(last_ns);
            left_out_ns.extend((record.kind == Kind::LeftOut).then_some(record.at_ns));
        }
    }
    assert_eq!(left_out_ns, [last_ns], "the last record");
    let analysis = analysis_until(&bundle, Some(last_ns + 10_000_000_000));
    let long = &analysis.connections[0];
    let asked = &long.flows[0];
    assert!(asked.bytes >= 4_000 && asked.at_least.bytes, "{asked:?}");
    let residues = long.flows.iter().flat_map(|flow| &flow.stages).map(|stage| stage.residue_bytes);
    assert!(residues.into_iter().all(|residue| residue.is_none()), "{asked:?}");
    // The bytes lay in the receive queue until then, and no longer.
    let unread_ns = asked.ledger.ns[LedgerPart::ReceiveApp as usize];
    assert!(unread_ns > 0 && unread_ns < last_ns - analysis.start_ns, "{unread_ns}");
    let waiting = long.findings.iter().flat_map(|finding| &finding.times);
    assert!(waiting.into_iter().all(|(_, until_ns)| *until_ns <= last_ns), "{:?}", long.findings);
    assert!(
        long.requests.list.iter().all(|request| request.end != RequestEnd::Open),
        "{:?}",
        long.requests
    );
}

#[test]
fn root_a_killed_recorder_leaves_its_recording_to_the_next() {
    let test = "root_a_killed_recorder_leaves_its_recording_to_the_next";
    if !may_record(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut calls = python(CALLS);
    let port = calls.port();
    let mut recorder = Watch::start(&mut watch(&port, folder.path(), &["--keep", "10s"]));
    recorder.wait_for("a trace is kept when");
    calls.begin();
    // Longer than a segment, a tenth of the time to keep.
    std::thread::sleep(Duration::from_millis(2_500));
    recorder.child.kill().unwrap();
    recorder.child.wait().unwrap();
    let mut next = Watch::start(&mut watch(&port, folder.path(), &["--keep", "10s"]));
    let said = next.wait_for("was killed: its ");
    next.wait_for("a trace is kept when");
    next.end();
    let earlier = bundles(folder.path(), "before-");
    let [earlier] = &earlier[..] else { panic!("{earlier:?}: {said}") };
    let bundle = Bundle::open(earlier).unwrap();
    let analysis = analysis(&bundle);
    assert!(analysis.duration_ns > 1_500_000_000, "{} ns: {said}", analysis.duration_ns);
}

#[test]
fn root_metrics_are_served_and_the_last_seconds_kept_on_request() {
    let test = "root_metrics_are_served_and_the_last_seconds_kept_on_request";
    if !may_record(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut calls = python(CALLS);
    let port = calls.port();
    let arguments = ["--listen", "127.0.0.1:0", "--when", "lost > 1h in 2h", "--after", "500ms"];
    let wrong = watch(&port, folder.path(), &arguments).output().unwrap();
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("\"1h\" is no time"), "{wrong:?}");
    let keep_nothing = ["--when", "lost > 60m in 90m", "--after", "500ms"];
    let arguments = [&["--listen", "127.0.0.1:0", "--cost"][..], &keep_nothing].concat();
    let mut recorder = Watch::start(&mut watch(&port, folder.path(), &arguments));
    let line = recorder.wait_for("metrics are at");
    let address = line.split("http://").nth(1).unwrap().trim_end_matches("/metrics").to_owned();
    calls.begin();
    std::thread::sleep(Duration::from_secs(4));
    let ask = |request: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let end = "Host: x\r\nConnection: close\r\n\r\n";
    let plain = ask(&format!("GET /metrics HTTP/1.1\r\n{end}"));
    assert!(plain.contains("text/plain; version=0.0.4") && !plain.contains("# EOF"), "{plain}");
    assert!(plain.contains("# TYPE sockscope_ledger_seconds_total counter"), "{plain}");
    let open_metrics = "Accept: text/plain;q=0.5, application/openmetrics-text; version=1.0.0";
    let metrics = ask(&format!("GET /metrics HTTP/1.1\r\n{open_metrics}\r\n{end}"));
    let is_value = |line: &&str| line.starts_with("sockscope_ledger_seconds_total{");
    let ledger: Vec<&str> = metrics.lines().filter(is_value).collect();
    assert!(ledger.iter().any(|line| line.contains("send_queue.nagle")), "{metrics}");
    assert!(metrics.trim_end().ends_with("# EOF"), "{metrics}");
    let value = |begins: &str| {
        let line = metrics.lines().find(|line| line.starts_with(begins));
        let value = line.and_then(|line| line.split(' ').nth(1)?.parse::<f64>().ok());
        value.unwrap_or_else(|| panic!("no {begins} in\n{metrics}"))
    };
    assert!(value("sockscope_probe_run_seconds_total{point=\"SendEnqueue\"") > 0.0, "{metrics}");
    assert!(value("sockscope_connections{sampled=\"true\"}") >= 1.0, "{metrics}");
    assert!(metrics.contains(" # {connection=\""), "{metrics}");
    let refused = ask(&format!("POST /keep HTTP/1.1\r\nOrigin: http://evil.example\r\n{end}"));
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    let taken = ask(&format!("POST /keep HTTP/1.1\r\nContent-Length: 0\r\n{end}"));
    assert!(taken.starts_with("HTTP/1.1 202"), "{taken}");
    recorder.wait_for("it was asked for");
    recorder.wait_for("see it: sockscope report");
    let pid = recorder.child.id().to_string();
    assert!(Command::new("kill").args(["-USR1", &pid]).status().unwrap().success());
    recorder.wait_for("it was asked for");
    let said = recorder.end();
    assert!(said.contains("2 traces kept"), "{said}");
}

#[test]
fn root_a_full_disk_costs_the_oldest_and_the_recorder_goes_on() {
    let test = "root_a_full_disk_costs_the_oldest_and_the_recorder_goes_on";
    if !may_record(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut bulk = python(BULK);
    let port = bulk.port();
    // A disk of 24 MB in a mount namespace of the recorder's own, less than the 64 MB of a segment and of --max-disk.
    let recorder = watch(&port, folder.path(), &["--keep", "10s", "--max-disk", "1G"]);
    let words = std::iter::once(recorder.get_program()).chain(recorder.get_args());
    let mut command = Command::new("unshare");
    let script =
        format!("mount -t tmpfs -o size=24m none {} && exec \"$@\"", folder.path().display());
    command.args(["--mount", "sh", "-c", &script, "sh"]).args(words);
    let mut recorder = Watch::start(&mut command);
    recorder.wait_for("a trace is kept when");
    bulk.begin();
    recorder.wait_for("the recording has a gap from now on");
    std::thread::sleep(Duration::from_secs(2));
    drop(bulk);
    let said = recorder.end();
    assert!(said.contains("the disk had no room for"), "{said}");
}

#[test]
fn root_each_sealed_segment_is_in_the_spool() {
    let test = "root_each_sealed_segment_is_in_the_spool";
    if !may_record(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    let mut calls = python(CALLS);
    let port = calls.port();
    let arguments =
        ["--keep", "5s", "--when", "lost > 50s in 60s", "--spool", spool.to_str().unwrap()];
    let mut recorder = Watch::start(&mut watch(&port, folder.path(), &arguments));
    recorder.wait_for("a trace is kept when");
    calls.begin();
    std::thread::sleep(Duration::from_secs(5));
    let said = recorder.end();
    assert!(said.contains(" in the spool ") && said.contains(", 0 left out"), "{said}");
    let plan = sockscope_fleet::Plan::of(&spool).unwrap();
    // Each number from the first to the last is there.
    assert_eq!(plan.head.problems, [], "{said}");
    let [recording] = &plan.head.recordings[..] else { panic!("{:?}", plan.head) };
    assert!(recording.segments >= 4 && recording.records > 1_000, "{recording:?}: {said}");
    let seals = fs::read_dir(spool.join(sockscope_fleet::SEGMENTS)).unwrap();
    let segments = seals.map(|seal| -> sockscope_fleet::Segment {
        serde_json::from_slice(&fs::read(seal.unwrap().path()).unwrap()).unwrap()
    });
    assert_eq!(segments.filter(|segment| segment.is_last).count(), 1);
    // The segments of the connection are one to the analysis.
    let summaries = plan.tasks.iter().map(sockscope_fleet::analyse).collect();
    let written =
        sockscope_fleet::write_summaries(&plan.head, summaries, &folder.path().join("fleet"));
    let written = written.unwrap();
    assert_eq!((written.connections, &written.problems[..]), (1, &[][..]));
    assert!(written.findings > 0, "two writes for a second");
    assert!(!folder.path().join("segments").exists());
}
