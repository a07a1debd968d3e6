//! `sockscope-lab lab levels`: which messages each level delivers, and what it sends for that.

#[path = "../../cli/tests/schema/mod.rs"]
mod schema;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

use schema::Schema;
use serde_json::Value;

fn levels(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockscope-lab"));
    command.args(["lab", "levels"]).args(arguments.split(' '));
    command.output().unwrap()
}

/// The document; `None` where this process may not make namespaces, which counts the test as skipped.
fn measured(test: &str, arguments: &str) -> Option<Value> {
    let output = levels(&format!("{arguments} --format json"));
    if is_refused(test, &output) {
        return None;
    }
    assert!(output.status.success(), "{output:?}");
    Schema::read("levels").check(Path::new("lab levels"), &output.stdout);
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Whether this process may not make namespaces, which counts the test as skipped.
fn is_refused(test: &str, output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stderr);
    let is_refused = said.contains("cannot make a PID namespace");
    if is_refused {
        let required = std::env::var("SOCKSCOPE_LIVE").is_ok_and(|wish| wish == "1");
        assert!(!required, "{said}");
        // Of a test that passes libtest shows what is written past its capture.
        let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {}", said.trim_end());
    }
    is_refused
}

fn number(document: &Value, row: usize, name: &str) -> u64 {
    let figures = &document["levels"][row]["figures"];
    figures[name].as_u64().unwrap_or_else(|| panic!("{name} of level {row}: {document}"))
}

#[test]
fn values_out_of_range_are_one_line() {
    let cases = [
        ("--level best", "no level `best`: expected datagram, sequenced, corrected"),
        ("--block 8", "expected messages and parity packets as 8+2"),
        ("--message-bytes 15b", "a message of 15 bytes: give one of 16 to 65000"),
        ("--loss half", "\"half\" is no loss"),
    ];
    for (arguments, expected) in cases {
        let output = levels(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(expected), "{arguments}: {said}");
        assert_eq!((said.lines().count(), output.status.code()), (1, Some(2)), "{said}");
    }
}

/// The wire drops each tenth packet of a direction: one of each block of ten packets.
#[test]
fn root_levels_lose_or_correct_the_same_dropped_packets() {
    let test = "root_levels_lose_or_correct_the_same_dropped_packets";
    let levels = "--level datagram --level sequenced --level corrected --level published";
    let arguments = "--loss every:10 --messages 200 --every 300us --block 8+2 --members 2";
    let Some(document) = measured(test, &format!("{levels} {arguments}")) else { return };
    let of = |row, name| number(&document, row, name);
    let names = ["datagram", "sequenced", "corrected", "published", "datagram"];
    let rows = document["levels"].as_array().unwrap();
    let found: Vec<_> = rows.iter().map(|row| row["level"].as_str().unwrap()).collect();
    assert_eq!(found, names, "the last one is the control");
    for row in 0..rows.len() {
        assert_eq!((of(row, "damaged"), of(row, "repeated")), (0, 0), "{document}");
        assert!(of(row, "dropped_packets") >= 20, "{document}");
    }
    for (row, name) in [(0, "datagram"), (4, "its control")] {
        let counts = ["packets", "delivered", "lost", "out_of_order"].map(|name| of(row, name));
        assert_eq!(counts, [200, 180, 20, 0], "{name}: a dropped packet is a lost message");
    }
    assert_eq!((of(1, "packets"), of(1, "out_of_order")), (200, 0), "sequenced");
    assert!(of(1, "lost") >= 20, "order repairs no loss, and the last gap holds messages back");
    let counts = ["packets", "delivered", "lost"].map(|name| of(2, name));
    assert_eq!(counts, [250, 200, 0], "corrected: two parity packets for eight messages");
    let counts = ["packets", "expected", "delivered"].map(|name| of(3, name));
    assert_eq!(counts, [200, 400, 360], "published: one packet for both receivers");
}

/// Here drops have no period: repeated packets could have the same one, so that one of them is always dropped.
#[test]
fn root_levels_that_repeat_messages_lose_none() {
    let test = "root_levels_that_repeat_messages_lose_none";
    let levels = "--level reliable --level vmtp --level one-of-many";
    let arguments = "--loss 10% --messages 200 --every 300us --members 2";
    let Some(document) = measured(test, &format!("{levels} {arguments}")) else { return };
    let of = |row, name| number(&document, row, name);
    for row in 0..3 {
        let counts = ["delivered", "lost", "repeated", "damaged"].map(|name| of(row, name));
        assert_eq!(counts, [200, 0, 0, 0], "{document}");
        assert!(of(row, "dropped_packets") > 0, "{document}");
    }
    assert_eq!((of(0, "out_of_order"), of(1, "out_of_order")), (0, 0), "reliable and vmtp");
    for row in [0, 2] {
        assert!(of(row, "packets") > 400, "a message, its answer, and those that were repeated");
    }
}

/// More messages than the window: the sender waits for room, and then for answers.
#[test]
fn root_a_level_without_answers_fails_and_a_datagram_does_not() {
    let test = "root_a_level_without_answers_fails_and_a_datagram_does_not";
    for messages in [4, 40] {
        let arguments =
            "--level datagram --level one-of-many --loss 100% --every 1us --give-up 100ms";
        let output = levels(&format!("{arguments} --messages {messages}"));
        if is_refused(test, &output) {
            return;
        }
        let (said, table) = (output.stderr, String::from_utf8(output.stdout).unwrap());
        let said = String::from_utf8(said).unwrap();
        let expected = "lab levels: one-of-many: 0 messages delivered, and no more for 100ms\n";
        assert!(said.ends_with(expected), "{said}");
        assert_eq!(output.status.code(), Some(2), "{said}");
        let row = |name| table.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(row("one-of-many").contains("no figures: 0 messages delivered"), "{table}");
        let lost = format!("{:>9} {messages:>6}", 0);
        assert!(row("datagram").contains(&lost), "{table}");
    }
}

#[test]
fn root_over_loopback_nothing_is_lost_and_a_datagram_is_one_packet() {
    let test = "root_over_loopback_nothing_is_lost_and_a_datagram_is_one_packet";
    let arguments =
        "--level datagram --level one-of-many --messages 100 --every 200us --message-bytes 64b";
    let Some(document) = measured(test, arguments) else { return };
    let of = |row, name| number(&document, row, name);
    assert_eq!((of(0, "lost"), of(1, "lost")), (0, 0));
    assert_eq!((of(0, "packets"), of(0, "octets")), (100, 100 * (64 + 28)), "with IP and UDP");
    assert!(of(1, "packets") >= 200, "each message is answered: {document}");
    assert_eq!(document["network"]["topology"], "loopback");
    assert_eq!(document["levels"][0]["figures"]["dropped_packets"], Value::Null);
}
