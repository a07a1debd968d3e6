//! Every command names what is wrong with a bundle.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sockscope_record::{Connection, ConnectionId, FlowId, Kind, Protocol, Record};
use sockscope_trace::{BundleWriter, ClockSnapshot, Meta};

/// Records of a batch.
const ROWS: u64 = 8;

fn record(at_ns: u64, kind: Kind, offset: u64) -> Record {
    Record { at_ns, kind, flow: FlowId(2), offset, len: 100, ..Record::default() }
}

/// A bundle of three batches and, of its `records.arrows`, where each begins.
fn bundle(dir: &Path, late_ns: u64) -> Vec<usize> {
    let meta = Meta {
        host: dir.file_name().unwrap().to_string_lossy().into_owned(),
        clock: vec![ClockSnapshot::new(1, 1_790_000_000_000_000_001)],
        ..Meta::default()
    };
    let mut writer = BundleWriter::create(dir, meta.clone()).unwrap();
    let connection = Connection {
        id: ConnectionId(1),
        protocol: Protocol::Udp,
        client: "10.0.0.1:5000".parse().unwrap(),
        server: "10.0.0.2:53".parse().unwrap(),
        opened_ns: 1_000,
        closed_ns: None,
        preexisting: false,
        both_ends_here: true,
        processes: Vec::new(),
        names: None,
        mark: None,
        elsewhere: None,
    };
    writer.connection(&connection).unwrap();
    let mut begins = Vec::new();
    for batch in 0..3 {
        begins.push(fs::metadata(dir.join("records.arrows")).unwrap().len() as usize);
        for number in batch * ROWS / 2..(batch + 1) * ROWS / 2 {
            let at_ns = 1_000_000_000 + 10_000 * number - if batch == 2 { late_ns } else { 0 };
            let offset = 100 * number;
            let passes = [(0, Kind::SendEnqueue), (1_000, Kind::ReceiveDequeue)];
            let records = passes.map(|(after_ns, kind)| record(at_ns + after_ns, kind, offset));
            writer.append(&records).unwrap();
        }
        writer.flush().unwrap();
    }
    writer.finish(meta).unwrap();
    begins
}

/// What each command says of the bundle, by its name.
fn said(dir: &Path) -> Vec<(&'static str, String)> {
    let other = dir.with_file_name("other");
    let _ = fs::remove_dir_all(&other);
    bundle(&other, 0);
    let [dir, other] = [dir, &other].map(|dir| dir.to_str().unwrap());
    let merged = format!("{other}-merged");
    let commands: [(&str, &[&str]); 7] = [
        ("text", &["report", dir]),
        ("json", &["report", dir, "--format", "json"]),
        ("csv", &["report", dir, "--format", "csv"]),
        ("show", &["show", dir]),
        ("tcpdump", &["show", dir, "--format", "tcpdump"]),
        ("plot", &["plot", dir, "--figure", "queue-length", "-o", "/dev/null"]),
        ("merge", &["merge", dir, other, "-o", &merged]),
    ];
    let mut all: Vec<_> =
        commands.iter().map(|(name, arguments)| (*name, text(&run(arguments)))).collect();
    all.push(("merged", text(&run(&["report", &merged]))));
    all
}

fn run(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_sockscope")).args(arguments).output();
    let output = output.expect("it was built");
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    output
}

/// Both outputs, in one line: the text form breaks notes.
fn text(output: &Output) -> String {
    let both = [&output.stderr[..], &output.stdout[..]].concat();
    String::from_utf8(both).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn assert_all_say(dir: &Path, what: &str) {
    for (name, said) in said(dir) {
        assert!(said.contains(what), "{name}: {said}");
    }
}

/// A folder and a bundle in it whose records are cut at the batches and put together anew.
fn with(order: impl Fn([&[u8]; 4]) -> Vec<u8>) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("a");
    let begins = bundle(&dir, 0);
    let path = dir.join("records.arrows");
    let whole = fs::read(&path).unwrap();
    let [first, second, third] = begins[..] else { unreachable!("three batches") };
    let pieces = [&whole[..first], &whole[first..second], &whole[second..third], &whole[third..]];
    fs::write(path, order(pieces)).unwrap();
    (folder, dir)
}

#[test]
fn every_command_names_a_batch_that_is_missing() {
    let (_folder, dir) = with(|[start, first, _, rest]| [start, first, rest].concat());
    assert_all_say(&dir, "8 rows missing before byte");
    let json = text(&run(&["report", dir.to_str().unwrap(), "--format", "json"]));
    assert!(json.contains(r#""missed_records":8,"#), "{json}");
}

#[test]
fn every_command_names_a_batch_that_comes_twice() {
    let (_folder, dir) =
        with(|[start, first, second, rest]| [start, first, second, second, rest].concat());
    assert_all_say(&dir, "comes again or not in its place: 8 rows left out");
    let json = text(&run(&["report", dir.to_str().unwrap(), "--format", "json"]));
    assert!(json.contains(r#""records":24,"#) && json.contains(r#""missed_records":0,"#), "{json}");
}

#[test]
fn every_command_names_times_that_run_backwards() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("a");
    bundle(&dir, 500_000_000);
    assert_all_say(&dir, "time steps back 4 times");
    let json = run(&["report", dir.to_str().unwrap(), "--format", "json"]).stdout;
    let report: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let flow = &report["connections"][0]["flows"][0];
    // The third batch lies before the others: what was in a queue meanwhile is not known.
    let total = &flow["stages"]["total"];
    assert!(total["unknown_intervals"].as_u64() > Some(0), "{flow}");
    assert_eq!(total["residue_bytes"], serde_json::Value::Null, "{flow}");
}
