//! The command line without recording: bundles that come with the project, whole and spoilt, and
//! what is refused. Results go to standard output, messages to standard error; 0 done, 1 found
//! something with `--check`, 2 an error reported in one line.

mod schema;

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use schema::Schema;
use serde_json::Value;
use tempfile::TempDir;

#[test]
fn check_tells_a_bundle_with_findings_from_one_without() {
    let status = |name| run(["report", "--check", path(&recorded(name))]).status.code();
    assert_eq!(status("two-writes"), Some(1));
    assert_eq!(status("one-write"), Some(0));
}

#[test]
fn a_trial_of_a_process_that_is_gone_is_refused() {
    // Above the largest number that Linux gives a process (2^22).
    let output = run(["try", "nodelay", "--pid", "4194999", "--", "true"]);
    let said = "sockscope: --pid 4194999: no process has this number; ps -e lists them\n";
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(2), said));
}

#[test]
fn without_a_folder_the_last_trace_is_read() {
    let state = tempfile::tempdir().expect("a folder for the state");
    let report = |arguments: &[&str]| {
        let mut report = Command::new(env!("CARGO_BIN_EXE_sockscope"));
        report.args(arguments).env("XDG_STATE_HOME", state.path()).env("HOME", state.path());
        report.output().expect("it starts")
    };
    let folder = state.path().join("sockscope");
    fs::create_dir(&folder).expect("it is ours");
    let bundle = recorded("two-writes");
    std::os::unix::fs::symlink(&bundle, folder.join("last")).expect("it is ours");
    for arguments in [&["report", "--full"][..], &["show"], &["plot", "--figure", "acks"]] {
        let output = report(arguments);
        let stderr = text(&output.stderr);
        assert_eq!(stderr, format!("sockscope: the last trace, {}\n", path(&bundle)));
        let named = run(arguments.iter().copied().chain([path(&bundle)]));
        assert_eq!(output.stdout, named.stdout);
    }
    fs::remove_file(folder.join("last")).expect("it is ours");
    std::os::unix::fs::symlink("/no/such/trace", folder.join("last")).expect("it is ours");
    assert_refused(&report(&["report"]), "the last trace was in /no/such/trace, and is not there");
}

#[test]
fn a_report_of_an_interval_is_that_of_a_recording_of_it() {
    let bundle = recorded("two-writes");
    let report = |options: &[&str]| -> Value {
        let all = [&["report", path(&bundle), "--format", "json"], options].concat();
        serde_json::from_slice(&run(all).stdout).expect("one document")
    };
    let count = |report: &Value| {
        let findings = report["connections"][0]["findings"].as_array().expect("a list");
        let stalls = findings.iter().find(|it| it["id"] == "nagle-delayed-ack").expect("it stalls");
        stalls["count"].as_u64().expect("a number")
    };
    let whole = report(&[]);
    let part = report(&["--from", "0.5", "--to", "1.0"]);
    // Of 49 stalls of 44 ms those that are whole: one begins before the interval, and one ends after it.
    assert_eq!((count(&whole), count(&part)), (49, 10));
    assert_eq!(part["trace"]["duration_ns"], 500_000_000);
    assert_eq!(part["trace"]["start_ns"], whole["trace"]["start_ns"]);
    for flow in part["connections"][0]["flows"].as_array().expect("two flows") {
        for (stage, of_stage) in flow["stages"].as_object().expect("by name") {
            assert_eq!(of_stage["residue_bytes"], 0, "{stage}");
        }
    }
    let text =
        text(&run(["report", path(&bundle), "--full", "--from", "0.5", "--to", "1s"]).stdout);
    assert!(text.contains("\nshown    1 of 1 connection: from 0.5 s to 1 s\n"), "{text}");
    assert!(text.contains("open before the time that is shown"), "{text}");
    let evidence =
        text.lines().find(|line| line.trim_start().starts_with("+0.")).expect("evidence");
    assert!(evidence.trim_start().starts_with("+0.5"), "{evidence}");
}

#[test]
fn a_short_report_names_the_commands_that_print_more() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let bundle = folder.path().join("it's mine.sockscope");
    std::os::unix::fs::symlink(recorded("two-writes"), &bundle).expect("it is ours");
    let said = text(&run(["report", path(&bundle)]).stdout);
    assert!((15..=25).contains(&said.lines().count()), "{said}");
    let command = said.lines().last().and_then(|line| line.strip_prefix("more     sockscope "));
    let command = format!("{} {}", env!("CARGO_BIN_EXE_sockscope"), command.expect("more"));
    let full = Command::new("sh").args(["-c", &command]).output().expect("sh(1) is there");
    assert_eq!(text(&full.stdout), text(&run(["report", path(&bundle), "--full"]).stdout));
    assert!(full.stdout.len() > 2 * said.len());
}

#[test]
fn what_is_shown_has_the_times_of_the_whole_trace() {
    let bundle = recorded("two-writes");
    let lines = |options: &[&str]| -> Vec<String> {
        let said = text(&run([&["show", path(&bundle)], options].concat()).stdout);
        said.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    };
    let time = |line: &String| -> f64 {
        line.split_whitespace().next().and_then(|it| it.parse().ok()).expect("a time")
    };
    let whole = lines(&[]);
    let part = lines(&["--from", "0.5", "--to", "1"]);
    let expected: Vec<_> = whole.iter().filter(|line| (0.5..=1.0).contains(&time(line))).collect();
    assert!(!part.is_empty());
    // But for the time since the line before, which the first one lacks, and the width of the columns.
    let words = |line: &String| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let [part, expected] =
        [part.iter().map(words).collect(), expected.into_iter().map(words).collect()]
            .map(|lines: Vec<String>| lines[1..].join("\n"));
    assert_eq!(part, expected);
    let clock = lines(&["--to", "0", "--wall-clock"]);
    assert!(clock[0].starts_with("04:43:5"), "{}", clock[0]);
}

#[test]
fn a_filter_that_leaves_nothing_is_an_error_that_says_what_there_is() {
    let bundle = recorded("two-writes");
    for (options, reason) in [
        (&["--port", "81"][..], "no connection with port 81: the trace has servers at port 44831"),
        (&["--connection", "7"], "no connection with number 7: the trace has connections 1"),
        (&["--comm", "curl"], "a process named curl: the trace has processes named demo-server"),
        (
            &["--from", "500"],
            "nothing was recorded from 500 s: the trace has records from 0.000000 s to 2.1",
        ),
        (&["--from", "2", "--to", "1"], "nothing to show: --to 1 s is not after --from 2 s"),
        (&["--finding", "corked"], "no connection with the finding corked: there are nagle"),
    ] {
        for command in [&["report"][..], &["show"], &["plot", "--figure", "acks"]] {
            let all = [command, &[path(&bundle)], options].concat();
            assert_refused(&run(all), reason);
        }
    }
}

#[test]
fn all_filters_together_show_what_each_of_them_does() {
    let bundle = recorded("two-writes");
    let options = [
        "--connection",
        "1",
        "--port",
        "44831",
        "--comm",
        "demo-server",
        "--slowest",
        "1",
        "--finding",
        "nagle-delayed-ack",
    ];
    for command in [&["report"][..], &["show"], &["plot", "--figure", "acks"]] {
        let output = run([command, &[path(&bundle)], &options].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let whole = run([command, &[path(&bundle)]].concat());
        match command[0] {
            "report" => {
                let said = text(&output.stdout);
                let shown = "shown    1 of 1 connection: number 1, port 44831, a process named demo-server,";
                assert!(said.contains(shown), "{said}");
                assert!(!said.contains("split-message"), "{said}");
            }
            _ => assert_eq!(output.stdout, whole.stdout, "{command:?}"),
        }
    }
}

#[test]
fn colour_is_on_or_off_as_it_is_asked_for() {
    let bundle = recorded("two-writes");
    let said = |options: &[&str], variables: &[(&str, &str)]| {
        let mut program = sockscope();
        program.args(options).envs(variables.iter().copied());
        text(&program.output().expect("it was built").stdout)
    };
    let has_color = |text: &str| text.contains("\u{1b}[");
    for command in
        [&["report", path(&bundle)][..], &["show", path(&bundle)], &["demo", "--recorded"]]
    {
        let all = |color: &'static str| [command, &["--color", color]].concat();
        assert!(has_color(&said(&all("always"), &[("NO_COLOR", "1"), ("TERM", "dumb")])));
        for color in ["auto", "never"] {
            assert!(!has_color(&said(&all(color), &[])), "{command:?} {color}");
        }
    }
    assert!(has_color(&on_terminal("report --color auto", &[("TERM", "xterm")])));
    assert!(!has_color(&on_terminal("report --color never", &[("TERM", "xterm")])));
    assert!(!has_color(&on_terminal("report", &[("TERM", "dumb")])));
    assert!(!has_color(&on_terminal("report", &[("TERM", "xterm"), ("NO_COLOR", "1")])));
}

/// What a command prints of a bundle on a terminal, which `script` makes.
fn on_terminal(command: &str, variables: &[(&str, &str)]) -> String {
    let program = env!("CARGO_BIN_EXE_sockscope");
    let line = format!("{program} {command} {}", path(&recorded("two-writes")));
    let mut script = Command::new("script");
    script.args(["-q", "-e", "-c", &line, "/dev/null"]).env_remove("NO_COLOR");
    script.envs(variables.iter().copied()).stdin(Stdio::null());
    text(&script.output().expect("script(1)").stdout)
}

#[test]
fn the_time_of_day_stands_beside_times_where_it_is_asked_for() {
    let bundle = recorded("two-writes");
    let said = text(&run(["report", path(&bundle), "--full", "--wall-clock"]).stdout);
    let evidence =
        said.lines().find(|line| line.trim_start().starts_with("+0.")).expect("evidence");
    assert!(evidence.contains(" s 04:43:5"), "{evidence}");
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let capture = folder.path().join("wire.sockscope");
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../convert/tests/samples/rpc-call.txt");
    assert!(run(["convert", sample, "-o", path(&capture)]).status.success());
    let refused = run(["report", path(&capture), "--wall-clock"]);
    assert_refused(&refused, "--wall-clock: the trace does not say what time of day it was");
}

#[test]
fn a_report_goes_to_the_file_that_is_named() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let file = folder.path().join("report.json");
    let output =
        run(["report", path(&recorded("two-writes")), "--format", "json", "-o", path(&file)]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), String::new()));
    let written = fs::read_to_string(&file).expect("it was written");
    let report: Value = serde_json::from_str(&written).expect("one document");
    assert_eq!(report["schema"], "sockscope.report/2");
    assert_eq!(report["trace"]["missed_records"], 0);
}

#[test]
fn all_figures_are_files_in_a_folder() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let figures = folder.path().join("figures");
    let bundle = recorded("two-writes");
    let all = |more: &[&str]| run([&["plot", path(&bundle), "--figure", "all"], more].concat());
    assert_refused(&all(&[]), "name a folder for them with -o DIR");
    assert_eq!(all(&["-o", path(&figures)]).status.code(), Some(0));
    let names = fs::read_dir(&figures).expect("it was made").flatten();
    let names = names.map(|file| file.file_name().into_string().expect("a name"));
    let names: Vec<String> = names.collect();
    assert_eq!(names.len(), 11, "{names:?}");
    for name in names {
        let figure = name.strip_suffix(".svg").expect("SVG");
        let alone = run(["plot", path(&bundle), "--figure", figure]).stdout;
        assert!(fs::read(figures.join(&name)).expect("it was drawn") == alone, "{name}");
    }
}

#[test]
fn an_output_that_is_full_is_told_as_such() {
    for arguments in [&["report"][..], &["show"], &["plot", "--figure", "acks"]] {
        let (bundle, full) =
            (recorded("two-writes"), fs::File::options().write(true).open("/dev/full"));
        let output = Command::new(env!("CARGO_BIN_EXE_sockscope"))
            .args(arguments)
            .arg(&bundle)
            .stdout(full.expect("every Linux has it"))
            .output()
            .expect("it starts");
        assert_eq!(output.status.code(), Some(2));
        let said = text(&output.stderr);
        assert!(said.starts_with("sockscope: cannot write the output: No space left"), "{said}");
    }
}

#[test]
fn a_closed_standard_error_changes_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let bundle = folder.path().join("wire.sockscope");
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../convert/tests/samples/rpc-call.txt");
    for (arguments, status) in [
        (&["convert", sample, "-o", path(&bundle)][..], 0),
        (&["report", path(&bundle), "--flow", "99"], 2),
    ] {
        let (listener, unheard) = std::io::pipe().expect("a pipe");
        drop(listener);
        let mut command = Command::new(env!("CARGO_BIN_EXE_sockscope"));
        let output = command.args(arguments).stderr(unheard).output().expect("it starts");
        assert_eq!(output.status.code(), Some(status), "{arguments:?}");
    }
    assert_eq!(run(["report", path(&bundle)]).status.code(), Some(0));
}

#[test]
fn one_flow_can_be_asked_for() {
    let output = run(["show", path(&recorded("two-writes")), "--flow", "3"]);
    let said = text(&output.stdout);
    assert!(said.lines().any(|line| line.contains("    3 <")), "{said}");
    assert!(!said.lines().any(|line| line.contains("    2 >")), "{said}");
}

#[test]
fn a_capture_file_is_told_from_text() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let bundle = folder.path().join("x.sockscope");
    // pcap with microseconds, of both byte orders, and with nanoseconds; pcapng; gzip.
    for magic in [0xa1b2_c3d4_u32, 0xd4c3_b2a1, 0xa1b2_3c4d, 0x0a0d_0d0a, 0x1f8b_0800] {
        let file = folder.path().join("x.pcap");
        fs::write(&file, magic.to_be_bytes()).expect("the folder is ours");
        let input = fs::File::open(&file).expect("it was written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_sockscope"));
        command.args(["convert", "-", "-o", path(&bundle)]).stdin(input);
        let output = command.output().expect("it starts");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("standard input is a capture file"), "{said}");
    }
    assert!(!bundle.exists());
}

#[test]
fn the_text_of_tcpdump_becomes_a_bundle() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let bundle = folder.path().join("wire.sockscope");
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../convert/tests/samples/rpc-call.txt");
    let output = run(["convert", sample, "-o", path(&bundle)]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), String::new()));
    let output = run(["report", path(&bundle), "--format", "json"]);
    let report: Value = serde_json::from_str(&text(&output.stdout)).expect("one document");
    assert_eq!(
        (&report["trace"]["source"], &report["trace"]["missed_records"]),
        (&"pcap".into(), &0.into())
    );
    let bytes = |connection: usize, flow: usize| {
        report["connections"][connection]["flows"][flow]["bytes"].as_u64()
    };
    assert_eq!(
        [bytes(0, 0), bytes(0, 1), bytes(1, 0), bytes(1, 1)],
        [56, 28, 4852, 4836].map(Some)
    );
}

#[test]
fn the_bundle_before_is_kept_and_other_files_never_give_way() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let bundle = folder.path().join("wire.sockscope");
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../convert/tests/samples/rpc-call.txt");
    let convert = || run(["convert", sample, "-o", path(&bundle)]);
    assert!(!text(&convert().stderr).contains("older"));
    assert!(text(&convert().stderr).contains("wire.sockscope.old"));
    let older = folder.path().join("wire.sockscope.old");
    assert_eq!(run(["report", path(&older)]).status.code(), Some(0));
    let part = bundle.join("records.arrows");
    let output = run(["report", path(&bundle), "-o", path(&part)]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("part of a trace bundle"), "{said}");
    let merged = run(["merge", path(&older), path(&recorded("calls")), "-o", path(&bundle)]);
    assert!(text(&merged.stderr).contains("would be read and replaced at once"));
    fs::write(older.join("notes"), "mine").expect("the folder is ours");
    assert_eq!(convert().status.code(), Some(2));
    assert!(older.join("notes").exists());
    assert_eq!(run(["report", path(&bundle)]).status.code(), Some(0));
}

#[test]
fn a_text_without_packets_makes_no_bundle() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let (file, bundle) = (folder.path().join("notes.txt"), folder.path().join("x.sockscope"));
    fs::write(&file, "nothing\n0.1 a.1 > b.2: Q 1:2(1)\n").expect("writable");
    let output = run(["convert", path(&file), "-o", path(&bundle)]);
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("line 2: expected TCP flags"), "{said}");
    assert!(!bundle.exists());
}

#[test]
fn a_command_line_that_cannot_be_read_is_refused_in_one_line() {
    for arguments in [&["record", "--port", "abc"][..], &["record", "--duration", "-1"], &["run"]] {
        let output = run(arguments);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()));
        let said = text(&output.stderr);
        assert!(said.starts_with("sockscope: ") && said.lines().count() == 1, "{said}");
    }
    let help = run(["record", "--help"]);
    assert_eq!((help.status.code(), text(&help.stderr)), (Some(0), String::new()));
    assert!(text(&help.stdout).contains("--duration <S>"));
}

#[test]
fn what_is_not_there_is_refused_in_one_line() {
    let bundle = recorded("two-writes");
    let bundle = path(&bundle);
    let no_flow = "no flow 99 in this trace, which has flows 2 to 3";
    for (arguments, reason) in [
        (vec!["report", "/nowhere"], "/nowhere: no such folder: a trace bundle is one"),
        (vec!["show", "/nowhere"], "no such folder"),
        (vec!["plot", "/nowhere", "--figure", "acks"], "no such folder"),
        (vec!["merge", bundle, "/nowhere", "-o", "/tmp/nowhere-m"], "/nowhere: no such folder"),
        (vec!["report", "/proc/version"], "/proc/version: a file, and a trace bundle is a folder"),
        (
            vec!["record", "--duration", "1", "-o", "/proc/version"],
            "is a file: choose another name",
        ),
        (vec!["record", "--duration", "1", "-o", "/proc/version/x"], "/proc/version is a file"),
        (
            vec!["record", "--pid", "999999999", "--duration", "1"],
            "--pid 999999999: no such process",
        ),
        (vec!["merge", bundle, bundle, "-o", "/tmp/nowhere-m"], "the same bundle twice"),
        (
            vec!["merge", bundle, bundle, "-o", "/nowhere/m"],
            "cannot write /nowhere/m: there is no folder /nowhere",
        ),
        (vec!["report", "/proc/version"], "sockscope convert makes a bundle of a capture"),
        (vec!["report", "/"], "not a trace bundle"),
        (vec!["report", bundle, "--flow", "99"], no_flow),
        (vec!["show", bundle, "--flow", "99"], no_flow),
        (vec!["plot", bundle, "--figure", "acks", "--flow", "99"], no_flow),
        (vec!["plot", bundle, "--figure", "pie"], "no figure is called"),
        (vec!["plot", bundle, "--figure", "queue-lenght"], "did you mean queue-length?"),
        (
            vec!["plot", bundle, "--figure", "acks", "--from", "5", "--to", "0.5"],
            "nothing to show: --to 0.5 s is not after --from 5 s",
        ),
        (
            vec!["plot", bundle, "--figure", "acks", "--from", "500"],
            "nothing was recorded from 500 s: the trace has records from 0.000000 s to 2.1",
        ),
        (vec!["report", bundle, "-o", "/nowhere/report"], "cannot create /nowhere/report"),
    ] {
        assert_refused(&run(&arguments), reason);
    }
}

#[test]
fn a_bundle_cut_anywhere_shows_what_is_whole_and_says_what_is_not() {
    let (_folder, dir) = spoilt("two-writes");
    let records = dir.join("records.arrows");
    let whole = fs::read(&records).expect("the copy has records");
    for length in [0, 7, whole.len() / 3, whole.len() - 1] {
        fs::write(&records, &whole[..length]).expect("the copy is ours");
        let output = run(["report", path(&dir), "--format", "json"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).expect("one document");
        let notes = report["trace"]["notes"].to_string();
        assert!(notes.contains("records.arrows"), "cut to {length} bytes: {notes}");
        assert_eq!(report["trace"]["finished"], false, "cut to {length} bytes");
    }
}

#[test]
fn a_bundle_without_one_of_its_files_says_so() {
    for file in ["records.arrows", "flows.arrows", "meta.json"] {
        let (_folder, dir) = spoilt("two-writes");
        fs::remove_file(dir.join(file)).expect("the copy has it");
        let output = run(["report", path(&dir)]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let said = text(&output.stdout);
        assert!(said.contains(&format!("{file}: missing")), "{said}");
        let is_blind = said.contains("verdict  no record can be read: nothing is known of what");
        assert_eq!(is_blind, file == "records.arrows", "{said}");
        assert!(!said.contains("no data passed"), "{said}");
        assert_eq!(said.contains("not finished"), is_blind, "{said}");
    }
}

#[test]
fn without_the_flow_table_nothing_is_said_of_where_the_ends_are() {
    let (_folder, dir) = spoilt("two-writes");
    fs::remove_file(dir.join("flows.arrows")).expect("the copy has it");
    let output = run(["report", path(&dir), "--full"]);
    let said = text(&output.stdout);
    assert!(said.contains("flow table is missing or damaged"), "{said}");
    assert!(!said.contains("not on this host"), "{said}");
}

#[test]
fn a_damaged_batch_is_named_and_its_rows_count_as_missed() {
    let (_folder, dir) = spoilt_at(&checkout().join("tests/bundles/v2/calls.sockscope"));
    let records = dir.join("records.arrows");
    let mut bytes = fs::read(&records).expect("the copy has records");
    // The middle of the first batch with rows.
    bytes[6_000] ^= 1;
    fs::write(&records, &bytes).expect("the copy is ours");
    let said = text(&run(["report", path(&dir), "--format", "json"]).stdout);
    let report: Value = serde_json::from_str(&said).expect("one document");
    let notes = report["trace"]["notes"].to_string();
    assert!(notes.contains("batch 1, at byte ") && notes.contains("100 rows left out"), "{notes}");
    assert_eq!(report["trace"]["missed_events"], 100);
    assert_eq!(report["trace"]["finished"], true);
}

#[test]
fn a_note_next_to_compared_bundles_names_its_bundle() {
    let (_folder, dir) = spoilt("two-writes");
    fs::remove_file(dir.join("flows.arrows")).expect("the copy has it");
    let output = run(["compare", path(&recorded("one-write")), path(&dir)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let name = dir.file_name().expect("a name").to_string_lossy();
    let name = name.trim_end_matches(".sockscope");
    let said = text(&output.stderr);
    assert!(said.contains(&format!("sockscope: {name}: flows.arrows: missing")), "{said}");
}

#[test]
fn two_bundles_become_one() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let both = folder.path().join("both.sockscope");
    let (one, two) = (recorded("one-write"), recorded("two-writes"));
    let output = run(["merge", path(&one), path(&two), "-o", path(&both)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let records = |dir: &Path| {
        let said = text(&run(["report", path(dir), "--format", "json"]).stdout);
        let report: Value = serde_json::from_str(&said).expect("one document");
        report["trace"]["records"].as_u64().expect("a count")
    };
    assert_eq!(records(&both), records(&one) + records(&two));
    // Two recordings of one machine are no two halves.
    assert!(text(&output.stderr).contains("what each of them saw whole is there twice"));
}

#[test]
fn a_bundle_is_not_merged_onto_itself() {
    let (_folder, dir) = spoilt("two-writes");
    let before = fs::read(dir.join("records.arrows")).expect("the copy has records");
    let output = run(["merge", path(&dir), path(&recorded("one-write")), "-o", path(&dir)]);
    assert_refused(&output, "choose another folder");
    assert_eq!(fs::read(dir.join("records.arrows")).expect("still there"), before);
}

#[test]
fn a_merge_that_fails_leaves_the_bundle_before_it_in_its_place() {
    let (folder, dir) = spoilt("two-writes");
    let wire = folder.path().join("wire.sockscope");
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../convert/tests/samples/rpc-call.txt");
    assert_eq!(run(["convert", sample, "-o", path(&wire)]).status.code(), Some(0));
    // A capture has no snapshot of the clocks.
    let output = run(["merge", path(&wire), path(&recorded("one-write")), "-o", path(&dir)]);
    assert_refused(&output, "clock");
    assert!(dir.exists() && !folder.path().join("spoilt.sockscope.old").exists());
}

#[test]
fn of_many_that_write_one_name_at_once_each_succeeds_or_says_why() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let bundle = folder.path().join("wire.sockscope");
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../convert/tests/samples/rpc-call.txt");
    let convert = || run(["convert", sample, "-o", path(&bundle)]);
    let outputs = std::thread::scope(|scope| {
        let started: Vec<_> = (0..16).map(|_| scope.spawn(convert)).collect();
        started.into_iter().map(|one| one.join().expect("no panic")).collect::<Vec<Output>>()
    });
    for output in outputs.iter().filter(|output| !output.status.success()) {
        assert_refused(output, ": being written by another sockscope");
    }
    assert!(outputs.iter().any(|output| output.status.success()));
    assert_eq!(run(["report", path(&bundle)]).status.code(), Some(0));
}

#[test]
fn garbage_is_refused_or_noted_and_never_panics() {
    for file in ["records.arrows", "flows.arrows", "meta.json"] {
        let (_folder, dir) = spoilt("two-writes");
        fs::write(dir.join(file), [0xa5; 5000]).expect("the copy is ours");
        for task in [&["report"][..], &["show"], &["plot", "--figure", "packet-trace"]] {
            let output = run([task, &[path(&dir)]].concat());
            let stderr = text(&output.stderr);
            assert!(matches!(output.status.code(), Some(0 | 2)), "{task:?} {file}: {stderr}");
            let said = text(&output.stdout) + &stderr;
            assert!(said.contains(file), "{task:?} {file}: {stderr}");
        }
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut show = sockscope();
    show.args(["show", path(&recorded("two-writes"))]);
    show.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut show = show.spawn().expect("it was built");
    let mut first = [0; 10];
    let mut out = show.stdout.take().expect("piped above");
    out.read_exact(&mut first).expect("it says something");
    drop(out);
    let output = show.wait_with_output().expect("it was started");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[test]
fn the_recorded_demonstration_needs_no_rights() {
    let output = without_rights(&["demo", "--recorded"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(said.contains("nagle-delayed-ack") && said.contains("TCP_NODELAY"), "{said}");
    // Its traces are gone when it has ended: no command can read them.
    assert!(!text(&output.stdout).contains("sockscope report"), "{}", text(&output.stdout));
}

#[test]
fn without_rights_recording_names_the_missing_one() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let dir = folder.path().join("never");
    for task in [&["run", "-o", path(&dir), "--", "true"][..], &["record", "-o", path(&dir)]] {
        assert_refused(&without_rights(task), "CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN, CAP_SYS_ADMIN");
    }
    assert!(!dir.exists(), "a refused recording leaves no bundle");
}

#[test]
fn without_rights_doctor_says_what_is_missing() {
    let output = without_rights(&["doctor", "--format", "json"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    Schema::read("doctor").check(Path::new("doctor"), &output.stdout);
    let doctor: Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(doctor["can_record"], false);
    let rights = doctor["rights"].as_array().expect("rights");
    let bpf = rights.iter().find(|right| right["name"] == "CAP_BPF");
    assert_eq!(bpf.expect("it is needed")["held"], false);
}

#[test]
fn doctor_says_what_a_group_for_a_command_needs_where_its_folder_is_closed() {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("proc(5)");
    let folder = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (folder, kind) = (words.next()?, words.next()?);
        (kind == "cgroup2").then_some(folder)
    });
    let is_closed = folder.is_some_and(|folder| {
        let open = nobody().args(["test", "-w", folder]).status();
        !open.expect("setpriv is part of util-linux").success()
    });
    let output = without_rights(&["doctor"]);
    let said = text(&output.stdout);
    let line = said.lines().find(|line| line.contains("CAP_DAC_OVERRIDE"));
    assert_eq!(line.is_some(), is_closed, "{said}");
    assert!(line.is_none_or(|line| line.trim().starts_with("MISSING  ")), "{said}");
}

fn assert_refused(output: &Output, reason: &str) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert_eq!(text(&output.stdout), "", "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("sockscope: ") && stderr.contains(reason), "{stderr}");
}

fn sockscope() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sockscope"))
}

fn run<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Output {
    sockscope().args(arguments).output().expect("it was built")
}

/// Runs it as a user without rights: as it is, or for root as user 65534, from a folder that this
/// user can read.
fn without_rights(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let program = folder.path().join("sockscope");
    // By a process of its own: a file that this one has open for writing is busy for whatever a
    // parallel test starts at that moment.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_sockscope")).arg(&program).status();
    assert!(copied.expect("cp is part of coreutils").success());
    for place in [folder.path(), &program] {
        fs::set_permissions(place, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    let output = nobody().arg(&program).args(arguments).output();
    output.expect("setpriv is part of util-linux")
}

/// Starts what is added to it without rights.
fn nobody() -> Command {
    let mut command = Command::new("setpriv");
    if is_root() {
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    }
    command.arg("--no-new-privs").current_dir("/");
    command
}

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("proc(5)");
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:")).expect("proc(5)");
    uids.split_whitespace().nth(1) == Some("0")
}

/// A bundle that comes with the program.
fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("demo").join(format!("{name}.sockscope"))
}

/// A copy of it to spoil.
fn spoilt(name: &str) -> (TempDir, PathBuf) {
    spoilt_at(&recorded(name))
}

/// The same of the bundle at `from`.
fn spoilt_at(from: &Path) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let dir = folder.path().join("spoilt.sockscope");
    fs::create_dir(&dir).expect("the folder is ours");
    for file in ["records.arrows", "flows.arrows", "meta.json"] {
        fs::copy(from.join(file), dir.join(file)).expect("the bundle has it");
    }
    (folder, dir)
}

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn path(path: &Path) -> &str {
    path.to_str().expect("our paths are text")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `script` makes a terminal; `stty` sets how wide it is.
#[test]
fn a_report_is_as_wide_as_the_terminal_and_columns_overrides_it() {
    let width = |columns: Option<&str>, stty: &str| {
        let own = env!("CARGO_BIN_EXE_sockscope");
        let bundle = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/two-writes.sockscope");
        // The short form has a command, which is never broken.
        let script = format!("{stty}{own} report --full {bundle}");
        let mut command = Command::new("script");
        command.args(["-q", "-e", "-c", &script, "/dev/null"]);
        command.env_remove("COLUMNS").env("NO_COLOR", "1").env("LC_ALL", "C.UTF-8");
        if let Some(columns) = columns {
            command.env("COLUMNS", columns);
        }
        let output = command.stdin(Stdio::null()).output().expect("script(1)");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("nagle-delayed-ack"), "{text}");
        text.lines().map(|line| line.trim_end().chars().count()).max()
    };
    assert_eq!(width(None, "stty cols 90; "), Some(90));
    assert_eq!(width(None, "stty cols 96; "), Some(96));
    assert_eq!(width(Some("92"), "stty cols 85; "), Some(92));
    // A terminal that does not say.
    assert_eq!(width(None, "stty cols 0; "), Some(80));
}
