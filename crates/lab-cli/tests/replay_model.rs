//! `sockscope replay --on model` from the outside: calls of a bundle, in the model of another stack.

mod both;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_sockscope-lab");
    Command::new(program).args(arguments).output().expect("the program starts")
}

/// Runs the other program, which reads what this one wrote.
fn sockscope(arguments: &[&str]) -> Output {
    Command::new(both::sockscope()).args(arguments).output().expect("the program starts")
}

fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// A bundle of the laboratory's: remote calls under SunOS, with their calls of sockets.
fn remote_calls(folder: &Path) -> PathBuf {
    let set = ["--set", "data_bytes=4800", "--set", "server_timer_ms=30"];
    let arguments = [&["lab", "run", "lh-2"][..], &set, &["-o", path(folder)]].concat();
    done(&run(&arguments));
    let bundles = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("one").path());
    let mut bundles = bundles.filter(|path| path.extension().is_some_and(|it| it == "sockscope"));
    bundles.next().expect("a bundle")
}

/// Residue of all queues of a report, and the findings.
fn checked(bundle: &Path) -> (i64, Vec<String>) {
    let report = done(&sockscope(&["report", path(bundle), "--format", "json"]));
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let connections = report["connections"].as_array().expect("connections");
    let flows = connections.iter().flat_map(|one| one["flows"].as_array().expect("flows"));
    let stages = flows.flat_map(|flow| flow["stages"].as_object().expect("stages").values());
    let residues = stages.filter_map(|stage| stage["residue_bytes"].as_i64()).map(i64::abs);
    let findings = connections.iter().flat_map(|one| one["findings"].as_array().expect("a list"));
    let ids = findings.map(|one| one["id"].as_str().expect("an id").to_owned());
    (residues.sum(), ids.collect())
}

/// Content of all files of a folder and of its folders, by path.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("one").path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push((path.clone(), fs::read(&path).expect("a file"))),
        }
    }
    found.sort();
    found
}

#[test]
fn calls_run_under_another_stack_and_make_the_same_bundles_again() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let recorded = remote_calls(&folder.path().join("recorded"));
    let on_model = |name: &str, words: &str| {
        let kept = folder.path().join(name);
        let words: Vec<&str> = words.split_whitespace().collect();
        let head = ["replay", path(&recorded), "--on", "model", "-o", path(&kept)];
        let output = run(&[&head[..], &words].concat());
        (kept, done(&output))
    };
    let settings = "--set personality=reno --set delay=20ms --set lost_per_million=20000 --seed 4";
    let (first, said) = on_model("first", settings);
    assert!(said.contains("compare  unchanged: 1 connection"), "{said}");
    let (second, _) = on_model("second", settings);
    let relative = |folder: &Path| {
        let strip = |path: PathBuf| path.strip_prefix(folder).expect("inside").to_owned();
        files(folder).into_iter().map(|(path, bytes)| (strip(path), bytes)).collect::<Vec<_>>()
    };
    assert!(relative(&first) == relative(&second));
    let names: Vec<_> =
        fs::read_dir(&first).expect("a folder").map(|it| it.expect("one")).collect();
    let mut names: Vec<_> = names.iter().map(|it| it.file_name().display().to_string()).collect();
    names.sort();
    assert_eq!(names, ["changed.sockscope", "pattern.toml", "unchanged.sockscope"]);
    for bundle in ["unchanged.sockscope", "changed.sockscope"] {
        assert_eq!(checked(&first.join(bundle)).0, 0, "{bundle}");
    }
    // Without a change of the calls or the path, the recording is the other run.
    let (alone, said) = on_model("alone", "--set personality=4.2bsd");
    assert!(said.contains("compare  recorded: "), "{said}");
    assert!(!alone.join("changed.sockscope").exists());
    let bundle = alone.join("unchanged.sockscope");
    let shown = done(&sockscope(&["show", path(&bundle)]));
    assert!(shown.contains("ReceiveDequeue"), "{shown}");
    let figure = folder.path().join("figure.svg");
    let plot = ["plot", path(&bundle), "--figure", "packet-trace"];
    done(&sockscope(&[&plot[..], &["-o", path(&figure)]].concat()));
    assert!(fs::read_to_string(&figure).expect("a figure").contains("Packet trace"));
}

#[test]
fn a_name_that_the_model_does_not_have_is_refused_in_one_line() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let recorded = remote_calls(folder.path());
    for (set, words) in [
        ("personality=4.4bsd", "no personality `4.4bsd`: expected one of 4.2bsd"),
        ("machine=pdp-11", "no machine `pdp-11`: expected one of vax-11-750"),
        ("topology=ring", "unknown variant `ring`"),
        ("cc=reno", "cc=reno is no change: give one-write"),
        ("delay=soon", "delay=soon"),
    ] {
        let output = run(&["replay", path(&recorded), "--on", "model", "--set", set]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        // Notes of the bundle come before.
        let error = said.lines().find(|line| line.contains(words));
        assert_eq!(error, said.lines().last(), "{said}");
    }
    for (option, words) in [
        (&["--on", "model", "--rounds", "4"][..], "replay --rounds: runs in the model"),
        (&["--seed", "4"], "replay --seed: only the model has one"),
    ] {
        let refused = run(&[&["replay", path(&recorded)][..], option].concat());
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(2) && said.contains(words), "{said}");
    }
    let old = ["--set", "personality=4.2bsd", "--set", "nodelay"];
    let output = run(&[&["replay", path(&recorded), "--on", "model"][..], &old].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    let words = "nodelay changes nothing: 4.2bsd does not have Nagle's rule";
    assert!(output.status.success() && said.contains(words), "{said}");
}

/// Records a workload of Python's with its calls; `None` where that cannot be done, which it says.
fn recorded(folder: &Path, test: &str, workload: &[&str]) -> Option<PathBuf> {
    let recorded = folder.join("calls.sockscope");
    let program = format!("{}/../../tests/workloads/{}", env!("CARGO_MANIFEST_DIR"), workload[0]);
    let command = ["--", "python3", &program];
    let head = ["record", "--calls", "-o", path(&recorded)];
    let output = sockscope(&[&head[..], &command, &workload[1..]].concat());
    let message = String::from_utf8_lossy(&output.stderr);
    if message.contains("CAP_BPF") {
        let required = std::env::var("SOCKSCOPE_LIVE").is_ok_and(|wish| wish == "1");
        assert!(!required, "{message}");
        eprintln!("SKIPPED: {test}: {}", message.trim_end());
        return None;
    }
    done(&output);
    Some(recorded)
}

/// The program of today, unchanged: its messages in two writes stall under 4.3BSD too, and not as one write.
#[test]
fn root_a_recorded_program_runs_under_4_3bsd() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let test = "root_a_recorded_program_runs_under_4_3bsd";
    let workload = ["split_calls.py", "--calls", "10"];
    let Some(recorded) = recorded(folder.path(), test, &workload) else { return };
    let kept = folder.path().join("kept");
    let sets = ["--set", "personality=4.3bsd", "--set", "one-write"];
    let head = ["replay", path(&recorded), "--on", "model", "-o", path(&kept)];
    let said = done(&run(&[&head[..], &sets].concat()));
    assert!(said.contains("disappeared"), "{said}");
    let (residue, findings) = checked(&kept.join("unchanged.sockscope"));
    assert!(residue == 0 && findings.contains(&"nagle-delayed-ack".to_owned()), "{findings:?}");
    let (residue, findings) = checked(&kept.join("changed.sockscope"));
    assert!(residue == 0 && !findings.contains(&"nagle-delayed-ack".to_owned()), "{findings:?}");
}

/// Datagrams of today: requests, their answers, and a last one that nothing answers.
#[test]
fn root_recorded_datagrams_run_in_the_model_and_are_the_same_again() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let test = "root_recorded_datagrams_run_in_the_model_and_are_the_same_again";
    let workload = ["kinds.py", "datagrams", "--calls", "20"];
    let Some(recorded) = recorded(folder.path(), test, &workload) else { return };
    let kept = |name: &str| {
        let kept = folder.path().join(name);
        let sets = ["--set", "personality=4.3bsd", "--set", "think=-300us"];
        let head = ["replay", path(&recorded), "--on", "model", "-o", path(&kept)];
        (done(&run(&[&head[..], &sets].concat())), kept)
    };
    let (said, first) = kept("first");
    let row = said.lines().find(|line| line.starts_with("exchanges ")).expect("a row");
    assert_eq!(row.split_whitespace().skip(1).take(2).collect::<Vec<_>>(), ["20", "20"], "{said}");
    for name in ["unchanged.sockscope", "changed.sockscope"] {
        assert_eq!(checked(&first.join(name)).0, 0, "{name}");
        let report = done(&sockscope(&["report", path(&first.join(name)), "--format", "json"]));
        let report: Value = serde_json::from_str(&report).expect("JSON");
        let flows = &report["connections"][0]["flows"];
        assert_eq!(
            (&flows[0]["bytes"], &flows[1]["bytes"]),
            (&2003.into(), &2000.into()),
            "{name}"
        );
        assert_eq!(report["connections"][0]["protocol"], "udp");
    }
    let (_, second) = kept("second");
    let relative = |folder: &Path| {
        let strip = |path: PathBuf| path.strip_prefix(folder).expect("inside").to_owned();
        files(folder).into_iter().map(|(path, bytes)| (strip(path), bytes)).collect::<Vec<_>>()
    };
    assert!(relative(&first) == relative(&second));
}
