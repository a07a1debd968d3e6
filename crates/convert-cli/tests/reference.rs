//! `docs/reference/convert-cli.md` has the help of each command, word by word.
//!
//! `SOCKSCOPE_UPDATE=1 cargo test -p sockscope-convert-cli --test reference` writes it anew.

#[path = "../../cli/tests/page/mod.rs"]
mod page;

use page::{Program, commands};

const HEAD: &str = "\
# Command line of the converter

The help of `sockscope-convert` and of its commands; a test keeps this page the same. `sockscope export` starts this
program, and so does `sockscope convert` for a capture file. It must be in the folder of `sockscope` or in PATH.
`cargo build --release -p sockscope-convert-cli` builds it. Messages go to standard error.
[captures](captures.md) describes what a bundle made of a capture has, [export](export.md) the forms of other tools.

| exit status | meaning |
|---|---|
| 0 | done |
| 2 | an error, which one line on standard error names |
";

const CONVERTER: Program = Program {
    path: env!("CARGO_BIN_EXE_sockscope-convert"),
    name: "sockscope-convert",
    package: "sockscope-convert-cli",
    elsewhere: &[],
};

#[test]
fn the_page_of_the_command_line_is_what_the_program_says() {
    CONVERTER.check_page("convert-cli.md", HEAD);
}

#[test]
fn every_command_has_an_entry() {
    assert_eq!(commands(&CONVERTER.help(&[])), ["convert", "export"]);
}
