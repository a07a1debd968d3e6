//! `docs/reference/cli.md` has the help of each command, word by word.
//!
//! `SOCKSCOPE_UPDATE=1 cargo test -p sockscope-cli --test reference` writes it anew.

use std::fs;
use std::path::Path;
use std::process::Command;

const HEAD: &str = "\
# Command line

The help of `sockscope` and of each command; a test keeps this page the same. Results go to standard output, messages
to standard error. With `NO_COLOR` set there is no colour.

| exit status | meaning |
|---|---|
| 0 | done |
| 1 | `--check`: there are findings, or a claim differs; `doctor`: recording does not work here |
| 2 | an error, which one line on standard error names |
| others | `run --exit-status`: the status of a command that failed, or 128 and the number of the signal that ended it. It stands for 0 and 1, and may be 1 or 2 itself |
";

#[test]
fn the_page_of_the_command_line_is_what_the_program_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    let expected = reference();
    if std::env::var_os("SOCKSCOPE_UPDATE").is_some() {
        fs::write(&page, &expected).expect("the page can be written");
    }
    let found = fs::read_to_string(&page).unwrap_or_default();
    let differs = expected.lines().zip(found.lines()).find(|(expected, found)| expected != found);
    assert!(
        found == expected,
        "{} is not what the program says, first at {differs:?}: run SOCKSCOPE_UPDATE=1 cargo test \
         -p sockscope-cli --test reference",
        page.display()
    );
}

#[test]
fn every_command_has_an_entry() {
    let commands = commands(&help(&[]));
    for command in ["run", "record", "report", "show", "plot", "doctor", "demo"] {
        assert!(commands.iter().any(|name| name == command), "{command}: {commands:?}");
    }
}

fn reference() -> String {
    let all = help(&[]);
    let mut page = format!("{HEAD}\n```text\n{all}```\n");
    for command in commands(&all) {
        write_command(&mut page, &[&command]);
    }
    page
}

/// The command's help, then that of its own commands.
fn write_command(page: &mut String, words: &[&str]) {
    let text = help(words);
    let level = "#".repeat(words.len() + 1);
    page.push_str(&format!("\n{level} sockscope {}\n\n```text\n{text}```\n", words.join(" ")));
    for command in commands(&text) {
        write_command(page, &[words, &[command.as_str()]].concat());
    }
}

/// The commands that a help text lists, but for `help` itself.
fn commands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    // Words that continue a description are indented further.
    let listed =
        lines.take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix("  "));
    let names = listed.filter(|line| !line.starts_with(' '));
    names
        .filter_map(|line| line.split(' ').next())
        .filter(|name| *name != "help")
        .map(Into::into)
        .collect()
}

/// The long help, as it is where there is no terminal.
fn help(words: &[&str]) -> String {
    let program = env!("CARGO_BIN_EXE_sockscope");
    let mut command = Command::new(program);
    command.args(words).arg("--help").env_remove("COLUMNS");
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{words:?}");
    let text = String::from_utf8(output.stdout).expect("help is text");
    text.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}
