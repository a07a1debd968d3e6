//! `docs/reference/watch-cli.md` has the help of each command, word by word.
//!
//! `SOCKSCOPE_UPDATE=1 cargo test -p sockscope-watch-cli --test reference` writes it anew.

#[path = "../../cli/tests/page/mod.rs"]
mod page;

use page::{Program, commands};

const HEAD: &str = "\
# Command line of the flight recorder

The help of `sockscope-watch`; a test keeps this page the same. `sockscope watch` starts this program. It must be in
the folder of `sockscope` or in PATH. `cargo build --release -p sockscope-watch-cli` builds it. Messages go to standard
error. [watch](watch.md) describes what it keeps.

| exit status | meaning |
|---|---|
| 0 | it was ended by SIGINT, SIGTERM or `--duration` |
| 2 | an error, which one line on standard error names |
";

const FLIGHT_RECORDER: Program = Program {
    path: env!("CARGO_BIN_EXE_sockscope-watch"),
    name: "sockscope-watch",
    package: "sockscope-watch-cli",
    elsewhere: &[],
};

#[test]
fn the_page_of_the_command_line_is_what_the_program_says() {
    FLIGHT_RECORDER.check_page("watch-cli.md", HEAD);
}

#[test]
fn every_command_has_an_entry() {
    assert_eq!(commands(&FLIGHT_RECORDER.help(&[])), ["watch"]);
}
