//! `docs/reference/lab-cli.md` has the help of each command, word by word.
//!
//! `SOCKSCOPE_UPDATE=1 cargo test -p sockscope-lab-cli --test reference` writes it anew.

#[path = "../../cli/tests/page/mod.rs"]
mod page;

use page::{Program, commands};

const HEAD: &str = "\
# Command line of the laboratory

The help of `sockscope-lab` and of each command; a test keeps this page the same. `sockscope lab`, `sockscope replay`
and `sockscope vmtp` start this program with their arguments; it must be in the folder of `sockscope` or in PATH, and
`cargo build --release -p sockscope-lab-cli` builds it. Results go to standard output, messages to standard error.

| exit status | meaning |
|---|---|
| 0 | done |
| 1 | `lab check --check`: a claim differs |
| 2 | an error, which one line on standard error names |
";

const LABORATORY: Program = Program {
    path: env!("CARGO_BIN_EXE_sockscope-lab"),
    name: "sockscope-lab",
    package: "sockscope-lab-cli",
    elsewhere: &[],
};

#[test]
fn the_page_of_the_command_line_is_what_the_program_says() {
    LABORATORY.check_page("lab-cli.md", HEAD);
}

#[test]
fn every_command_has_an_entry() {
    assert_eq!(commands(&LABORATORY.help(&[])), ["lab", "replay", "vmtp"]);
    let of_lab = [
        "list", "run", "check", "link", "levels", "compare", "profile", "host", "png", "pattern",
        "work",
    ];
    assert_eq!(commands(&LABORATORY.help(&["lab"])), of_lab);
}
