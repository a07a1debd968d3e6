//! Command lines that are wrong, and the line that says so.

use clap::Parser;
use sockscope_program::usage_error;

use crate::args::Arguments;

fn said(words: &str) -> String {
    let words = ["sockscope"].into_iter().chain(words.split_whitespace());
    let error = Arguments::try_parse_from(words).expect_err("not as it should be");
    usage_error::failure(&error).to_string()
}

#[test]
fn what_is_wrong_with_a_command_line_is_said_in_one_line() {
    let cases = [
        (
            "record --port abc",
            "invalid value 'abc' for '--port <N>': a port is a number from 1 to 65535, or several: 80,443 or 8000-8003; --help says more",
        ),
        (
            "record --port 0",
            "invalid value '0' for '--port <N>': a port is a number from 1 to 65535, or several: 80,443 or 8000-8003; --help says more",
        ),
        (
            "record --addr localhost",
            "invalid value 'localhost' for '--addr <IP>': a name cannot be picked: give the addresses that `getent ahosts localhost` prints, as 127.0.0.1 or ::1; --help says more",
        ),
        (
            "record --pid -3",
            "invalid value '-3' for '--pid <PID>': a process has a number, as in /proc; --comm takes a name; --help says more",
        ),
        (
            "record --duration -1",
            "invalid value '-1' for '--duration <S>': -1 seconds cannot be waited: give a positive number, as 0.5; --help says more",
        ),
        (
            "record --max-records -1",
            "invalid value '-1' for '--max-records <N>': -1 is not a number of records; --help says more",
        ),
        (
            "show x --flow y",
            "invalid value 'y' for '--flow <N>': a flow has a number, as in the report: 2; --help says more",
        ),
        (
            "report x --format yaml",
            "invalid value 'yaml' for '--format <FORMAT>'; give one of text, json, html, csv, csv-requests, arrow-requests; --help says more",
        ),
        (
            "record --prot 80",
            "unexpected argument '--prot' found; a similar argument exists: '--port'; usage: sockscope record --port <N> [-- <CMD>...]",
        ),
        (
            "record --nonsense",
            "unexpected argument '--nonsense' found; usage: sockscope record [OPTIONS] [-- <CMD>...]",
        ),
        (
            "run --port 80 echo hi",
            "unexpected argument 'echo' found; put -- before the command, as in: -- echo; usage: sockscope run [OPTIONS] -- <CMD>...",
        ),
        (
            "run",
            "the following required arguments were not provided: <CMD>...; usage: sockscope run -- <CMD>...",
        ),
        (
            "merge x",
            "the following required arguments were not provided: <B>; usage: sockscope merge <A> <B>",
        ),
        (
            "compare x",
            "the following required arguments were not provided: <B>...; usage: sockscope compare <A> <B>...",
        ),
        (
            "compare x y --format html",
            "invalid value 'html' for '--format <FORMAT>'; give one of text, json, csv, svg; --help says more",
        ),
        (
            "record --comm",
            "a value is required for '--comm <NAME>' but none was supplied; --help says more",
        ),
        ("frob", "unrecognized subcommand 'frob'; --help lists them"),
        (
            "recrd",
            "unrecognized subcommand 'recrd'; some similar subcommands exist: 'report', 'record'; --help lists them",
        ),
        (
            "-- record",
            "unexpected argument 'record' found; subcommand 'record' exists; to use it, remove the '--' before it; --help lists them",
        ),
        (
            "report x --format jsn",
            "invalid value 'jsn' for '--format <FORMAT>'; give one of text, json, html, csv, csv-requests, arrow-requests; a similar value exists: 'json'; --help says more",
        ),
        (
            "record --calls=yes",
            "unexpected value 'yes' for '--calls' found; no more were expected; usage: sockscope record --calls [-- <CMD>...]",
        ),
        (
            "record --comm a --comm b",
            "the argument '--comm <NAME>' cannot be used multiple times; usage: sockscope record [OPTIONS] [-- <CMD>...]",
        ),
    ];
    for (words, line) in cases {
        assert_eq!(said(words), line, "{words}");
    }
}
