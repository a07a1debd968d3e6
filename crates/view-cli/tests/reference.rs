//! `docs/reference/view-cli.md` has the help of each command, word by word.
//!
//! `SOCKSCOPE_UPDATE=1 cargo test -p sockscope-view-cli --test reference` writes it anew.

#[path = "../../cli/tests/page/mod.rs"]
mod page;

use page::{Program, commands};

const HEAD: &str = "\
# Command line of the views

The help of `sockscope-view` and of its commands; a test keeps this page the same. `sockscope plot`, `top`, `view`
and `report --format html` start this program with their arguments. It must be in the folder of `sockscope` or in
PATH, and `cargo build --release -p sockscope-view-cli` builds it. Results go to standard output, messages to
standard error. The screen, its keys and its JSON are in [top](top.md), the pages in [view](view.md) and
[html](html.md), and the figures in [plots](plots.md).

| exit status | meaning |
|---|---|
| 0 | done |
| 1 | `report --check`: there are findings |
| 2 | an error, which one line on standard error names |
";

const VIEW: Program = Program {
    path: env!("CARGO_BIN_EXE_sockscope-view"),
    name: "sockscope-view",
    package: "sockscope-view-cli",
    elsewhere: &[],
};

#[test]
fn the_page_of_the_command_line_is_what_the_program_says() {
    VIEW.check_page("view-cli.md", HEAD);
}

#[test]
fn every_command_has_an_entry() {
    assert_eq!(commands(&VIEW.help(&[])), ["plot", "top", "view", "report"]);
}
