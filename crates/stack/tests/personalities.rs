//! The tables of `docs/reference/personalities.md` agree with the personalities.
//!
//! `SOCKSCOPE_UPDATE=1 cargo test -p sockscope-stack --test personalities` writes them anew.

#[path = "personalities/rows.rs"]
mod rows;
#[path = "personalities/tcp_rows.rs"]
mod tcp_rows;

use std::fs;
use std::path::PathBuf;

use rows::{Row, rows};
use sockscope_stack::Personality;

/// Versions that have a column of their own.
const FOUR: [&str; 4] = ["4.2bsd", "4.3bsd", "tahoe", "reno"];

/// The others, each next to the one that it is distinguished from.
const DERIVED: [(&str, &str); 3] =
    [("4.2bsd-cabrera", "4.2bsd"), ("sunos-4.0.3", "tahoe"), ("sunos-4.1", "tahoe")];

fn rows_of(name: &str) -> Vec<Row> {
    rows(&Personality::by_name(name).expect("a known personality"))
}

fn line(cells: impl IntoIterator<Item = String>) -> String {
    let cells: Vec<String> = cells.into_iter().collect();
    format!("| {} |\n", cells.join(" | "))
}

fn head(names: &[&str]) -> String {
    let names = names.iter().map(|name| format!("`{name}`"));
    let rule = "| --- ".repeat(names.len() + 1);
    line(std::iter::once("Rule".to_owned()).chain(names)) + &rule + "|\n"
}

/// One table a part of the stack, a column for each of the four.
fn tables() -> String {
    let columns = FOUR.map(rows_of);
    let mut text = String::new();
    let mut part = "";
    for (at, row) in columns[0].iter().enumerate() {
        if row.part != part {
            part = row.part;
            text += &format!("\n### {part}\n\n{}", head(&FOUR));
        }
        let cells = columns.iter().map(|column| column[at].value.clone());
        text += &line(std::iter::once(row.rule.to_owned()).chain(cells));
    }
    text
}

/// The differences of the others.
fn differences() -> String {
    let mut text = String::new();
    for (name, base) in DERIVED {
        text += &format!("\n{}", head(&[base, name]));
        let pairs = rows_of(base).into_iter().zip(rows_of(name));
        for (of_base, own) in pairs.filter(|(of_base, own)| of_base.value != own.value) {
            text += &line([own.rule.to_owned(), of_base.value, own.value]);
        }
    }
    text
}

/// The page with `text` between the two marks of this name.
fn with_part(page: &str, name: &str, text: &str) -> String {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = page.split_once(&begin).expect("the mark of its beginning");
    let (_, after) = rest.split_once(&end).expect("the mark of its end");
    format!("{before}{begin}{text}\n{end}{after}")
}

#[test]
fn the_page_of_the_personalities_says_what_they_do() {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/personalities.md");
    let page = fs::read_to_string(&path).expect("the page");
    let expected = with_part(&page, "rules", &tables());
    let expected = with_part(&expected, "differences", &differences());
    if std::env::var_os("SOCKSCOPE_UPDATE").is_some() {
        fs::write(&path, &expected).expect("the page can be written");
        return;
    }
    let differs = expected.lines().zip(page.lines()).find(|(expected, found)| expected != found);
    assert!(
        page == expected,
        "{} is not what the personalities are, first at {differs:?}: run SOCKSCOPE_UPDATE=1 cargo \
         test -p sockscope-stack --test personalities",
        path.display()
    );
}

#[test]
fn every_personality_is_in_the_tables() {
    let derived = DERIVED.map(|(name, _)| name);
    let mut told: Vec<&str> = FOUR.into_iter().chain(derived).collect();
    let mut all = Personality::ALL.map(|personality| personality.name);
    told.sort_unstable();
    all.sort_unstable();
    assert_eq!(told, all);
}

/// No two rules that differ look the same in words.
#[test]
fn personalities_with_the_same_words_are_the_same() {
    let words = |personality: &Personality| -> Vec<String> {
        rows(personality).into_iter().map(|row| row.value).collect()
    };
    for one in &Personality::ALL {
        for other in &Personality::ALL {
            let renamed = Personality { name: one.name, ..other.clone() };
            assert_eq!(words(one) == words(other), *one == renamed, "{} {}", one.name, other.name);
        }
    }
}
