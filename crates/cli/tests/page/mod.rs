//! The page of a program's command line: its help and that of each of its commands, word by word.

use std::fs;
use std::path::Path;
use std::process::Command;

/// A program with a page in `docs/reference`.
pub struct Program {
    /// Where it is.
    pub path: &'static str,
    /// Its name, as `sockscope`.
    pub name: &'static str,
    /// The package that builds it.
    pub package: &'static str,
    /// Commands that have their entries on another page.
    pub elsewhere: &'static [&'static str],
}

impl Program {
    /// Compares the page `docs/reference/FILE`, which begins with `head`; writes it anew where
    /// `SOCKSCOPE_UPDATE` is set.
    pub fn check_page(&self, file: &str, head: &str) {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(file);
        let expected = self.page(head);
        if std::env::var_os("SOCKSCOPE_UPDATE").is_some() {
            fs::write(&page, &expected).expect("the page can be written");
        }
        let found = fs::read_to_string(&page).unwrap_or_default();
        let differs =
            expected.lines().zip(found.lines()).find(|(expected, found)| expected != found);
        assert!(
            found == expected,
            "{} is not what the program says, first at {differs:?}: run SOCKSCOPE_UPDATE=1 cargo \
             test -p {} --test reference",
            page.display(),
            self.package
        );
    }

    fn page(&self, head: &str) -> String {
        let all = self.help(&[]);
        let mut page = format!("{head}\n```text\n{all}```\n");
        for command in commands(&all) {
            if !self.elsewhere.contains(&command.as_str()) {
                self.write_command(&mut page, &[&command]);
            }
        }
        page
    }

    /// The command's help, then that of its own commands.
    fn write_command(&self, page: &mut String, words: &[&str]) {
        let text = self.help(words);
        let level = "#".repeat(words.len() + 1);
        let (name, words_joined) = (self.name, words.join(" "));
        page.push_str(&format!("\n{level} {name} {words_joined}\n\n```text\n{text}```\n"));
        for command in commands(&text) {
            self.write_command(page, &[words, &[command.as_str()]].concat());
        }
    }

    /// The long help, as it is where there is no terminal.
    pub fn help(&self, words: &[&str]) -> String {
        let mut command = Command::new(self.path);
        command.args(words).arg("--help").env_remove("COLUMNS");
        let output = command.output().expect("the program starts");
        assert!(output.status.success(), "{words:?}");
        let text = String::from_utf8(output.stdout).expect("help is text");
        text.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
    }
}

/// The commands that a help text lists, but for `help` itself.
pub fn commands(help: &str) -> Vec<String> {
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
