//! Texts of other tools, and names from untrusted sources: counted, and escaped for a terminal.

use std::fs;
use std::process::Command;

use sockscope_trace::{Bundle, BundleWriter, Meta};

const PACKET: &str = "1000.0 IP 10.0.0.1.1 > 10.0.0.2.2: Flags [S], seq 0, length 0\n";

/// Both outputs of a command that is done.
fn said(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_sockscope")).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8([output.stderr, output.stdout].concat()).unwrap()
}

fn assert_printable(said: &str) {
    let is_strange = |letter: char| letter.is_control() && letter != '\n' || letter == '\u{202e}';
    assert!(!said.contains(is_strange), "{said:?}");
}

#[test]
fn lines_of_another_text_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let [text, dir] = ["text", "t"].map(|name| folder.path().join(name));
    fs::write(&text, "another text\n".repeat(2_000) + PACKET + "1 packet captured\n\n").unwrap();
    let said = said(&["convert", text.to_str().unwrap(), "-o", dir.to_str().unwrap()]);
    assert!(said.contains(": 2000 lines not understood"), "{said}");
    let notes = Bundle::open(&dir).unwrap().meta().notes.join("\n");
    assert_eq!(notes, "2000 lines of the text not understood");
}

#[test]
fn a_strange_line_of_a_text_does_not_reach_the_terminal_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let [text, dir] = ["text", "t"].map(|name| folder.path().join(name));
    fs::write(&text, format!("{PACKET}\x1b[31m\u{9b}31m\0\u{202e} a.1 > b.2: P\n")).unwrap();
    let said = said(&["convert", text.to_str().unwrap(), "-o", dir.to_str().unwrap()]);
    assert!(said.contains(r"\u{1b}[31m\u{9b}31m"), "{said}");
    assert_printable(&said);
}

#[test]
fn a_strange_name_in_a_trace_does_not_reach_the_terminal_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let [text, dir] = ["text", "t"].map(|name| folder.path().join(name));
    fs::write(&text, PACKET).unwrap();
    let [text, dir] = [&text, &dir].map(|path| path.to_str().unwrap());
    said(&["convert", text, "-o", dir]);
    let strange = "\x1b[31m\x07\u{9b}31m\u{202e}evil".to_owned();
    let before = Bundle::open(dir).unwrap();
    let meta = Meta {
        notes: vec![strange.clone()],
        host: strange.clone(),
        command: vec![strange.clone()],
        drop_reasons: [(7, strange)].into(),
        ..before.meta().clone()
    };
    let mut writer = BundleWriter::create(dir, meta.clone()).unwrap();
    for connection in before.connections() {
        writer.connection(connection).unwrap();
    }
    let drop = sockscope_record::Record {
        at_ns: 5,
        flow: sockscope_record::FlowId(2),
        kind: sockscope_record::Kind::Drop,
        detail: 7,
        len: 9,
        ..Default::default()
    };
    writer.append(&[drop]).unwrap();
    writer.finish(meta).unwrap();
    for command in [
        &["show", dir][..],
        &["report", dir],
        &["report", dir, "--format", "json"],
        &["report", dir, "--format", "csv"],
        &["plot", dir, "--figure", "queue-length", "-o", "-"],
    ] {
        let said = said(command);
        assert!(said.contains("evil"), "{command:?}: {said}");
        assert_printable(&said);
    }
}
