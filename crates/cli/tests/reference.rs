//! `docs/reference/cli.md` has the help of each command, word by word.
//!
//! `SOCKSCOPE_UPDATE=1 cargo test -p sockscope-cli --test reference` writes it anew.

mod page;

use page::{Program, commands};

const HEAD: &str = "\
# Command line

The help of `sockscope` and of each command; a test keeps this page the same. Results go to standard output, messages
to standard error. Standard output of `run` belongs to the command, and its report goes to standard error. With
`NO_COLOR` set there is no colour. Some commands are of other programs, in the same folder or in PATH. `lab`, `replay`
and `vmtp` are of [`sockscope-lab`](lab-cli.md). `plot`, `top`, `view` and `report --format html` are of
[`sockscope-view`](view-cli.md). `export` is of [`sockscope-convert`](convert-cli.md), and so is `convert` for capture
files. `watch` is of [`sockscope-watch`](watch-cli.md).

| exit status | meaning |
|---|---|
| 0 | done |
| 1 | `--check`: there are findings, and the command of `run` did not fail; `doctor`: recording does not work here |
| 2 | an error, which one line on standard error names |
| others | `run`: the status of a command that failed, or 128 and the number of the signal that ended it. It may be 1 or 2 itself: then a line on standard error names it |
";

const SOCKSCOPE: Program = Program {
    path: env!("CARGO_BIN_EXE_sockscope"),
    name: "sockscope",
    package: "sockscope-cli",
    elsewhere: &["export", "lab", "plot", "replay", "top", "view", "vmtp", "watch"],
};

#[test]
fn the_page_of_the_command_line_is_what_the_program_says() {
    SOCKSCOPE.check_page("cli.md", HEAD);
}

#[test]
fn every_command_has_an_entry() {
    let commands = commands(&SOCKSCOPE.help(&[]));
    for command in [
        "run", "record", "report", "show", "plot", "explain", "doctor", "compare", "demo", "try",
        "top", "view", "lab", "replay", "vmtp", "watch",
    ] {
        assert!(commands.iter().any(|name| name == command), "{command}: {commands:?}");
    }
}
