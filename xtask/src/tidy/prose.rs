//! The sentences of Markdown pages, and the comments of Rust and C.
//!
//! A paragraph, a list item, a heading and a cell of a table each begin a new sentence. Code blocks and HTML comments
//! are left out. A code span counts as one word, and its content is not prose. Of a link only the text is prose.

use super::source::Line;

/// A word of the text, with the number of its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// From 1 on.
    pub line: usize,
    /// With its punctuation; a code span is a single `` ` ``.
    pub text: String,
}

impl Word {
    /// In small letters, without the punctuation around it.
    pub fn plain(&self) -> String {
        self.text.trim_matches(|char: char| !char.is_alphanumeric()).to_lowercase()
    }

    /// Whether it counts: a dash between two words does not.
    pub fn counts(&self) -> bool {
        self.text.contains(|char: char| char.is_alphanumeric() || char == '`')
    }
}

/// Text that belongs together, by its numbered lines.
type Passage<'a> = Vec<(usize, &'a str)>;

/// The sentences of a Markdown page, in order.
pub fn sentences(page: &str) -> Vec<Vec<Word>> {
    passages(page).iter().flat_map(|passage| split(words(passage))).collect()
}

/// The comments of a Rust or C file, each with all its words; lines of comment that follow each other are one.
pub fn comments(source: &str) -> Vec<Vec<Word>> {
    let mut found: Vec<Passage<'_>> = vec![Vec::new()];
    let (mut in_block, mut in_example) = (false, false);
    for (line, number) in source.lines().zip(1..) {
        let comment = if in_block { line } else { comment_of(line) };
        in_block = (in_block || comment.starts_with("/*")) && !comment.contains("*/");
        let text = comment.trim_start_matches(['/', '!', '*', ' ']).trim_end_matches(['*', '/']);
        in_example &= !comment.is_empty();
        if text.starts_with("```") {
            in_example = !in_example;
        } else if comment.is_empty() {
            found.push(Vec::new());
        } else if !in_example && let Some(passage) = found.last_mut() {
            passage.push((number, text));
        }
    }
    found.iter().filter(|passage| !passage.is_empty()).map(|passage| words(passage)).collect()
}

/// The part of a line from the mark of a comment on.
fn comment_of(line: &str) -> &str {
    // Splitting a line costs much more than this look at it.
    let marks = ["//", "/*"].into_iter().filter(|mark| line.contains(mark));
    let mut comments = marks.map(|mark| Line::split(line, mark).comment);
    comments.find(|comment| !comment.is_empty()).unwrap_or("")
}

fn passages(page: &str) -> Vec<Passage<'_>> {
    let mut found: Vec<Passage<'_>> = vec![Vec::new()];
    let (mut in_code, mut in_comment) = (false, false);
    for (line, number) in page.lines().zip(1..) {
        let text = line.trim();
        let is_fence = text.starts_with("```");
        in_code ^= is_fence;
        in_comment |= text.starts_with("<!--");
        // Four spaces behind a blank line begin code too.
        let is_indented = line.starts_with("    ") && found.last().is_none_or(Vec::is_empty);
        let is_left_out = is_fence || in_code || in_comment || is_indented;
        in_comment &= !text.contains("-->");
        if is_left_out || text.is_empty() {
            found.push(Vec::new());
        } else if text.starts_with('|') {
            found.extend(cells(text).into_iter().map(|cell| vec![(number, cell)]));
            found.push(Vec::new());
        } else if text.starts_with('#') {
            found.extend([vec![(number, text.trim_start_matches('#'))], Vec::new()]);
        } else if let Some(item) = list_item(text) {
            found.push(vec![(number, item)]);
        } else if let Some(passage) = found.last_mut() {
            passage.push((number, text));
        }
    }
    found.retain(|passage| !passage.is_empty());
    found
}

/// The cells of a table's row; a bar in a code span or behind `\` divides none.
fn cells(row: &str) -> Vec<&str> {
    let mut cells = Vec::new();
    let (mut begin, mut in_code, mut is_escaped) = (0, false, false);
    for (at, char) in row.char_indices() {
        in_code ^= char == '`';
        if char == '|' && !in_code && !is_escaped {
            cells.push(&row[begin..at]);
            begin = at + 1;
        }
        is_escaped = char == '\\' && !is_escaped;
    }
    cells.push(&row[begin..]);
    cells.retain(|cell| cell.contains(char::is_alphanumeric));
    cells
}

/// The text behind `- `, `* ` or `12. `.
fn list_item(text: &str) -> Option<&str> {
    let digits = text.trim_start_matches(|char: char| char.is_ascii_digit());
    let ordered = if digits.len() < text.len() { digits.strip_prefix(". ") } else { None };
    ordered.or_else(|| text.strip_prefix("- ")).or_else(|| text.strip_prefix("* "))
}

/// The words of a passage, its code spans and the addresses of its links taken out.
fn words(passage: &Passage<'_>) -> Vec<Word> {
    let mut words = Vec::new();
    let (mut in_code, mut in_address) = (false, false);
    for (line, text) in passage {
        let mut word = String::new();
        let mut end = |word: &mut String| {
            if !word.is_empty() {
                words.push(Word { line: *line, text: std::mem::take(word) });
            }
        };
        let mut before = ' ';
        for char in text.chars() {
            match char {
                '`' => {
                    if !in_code {
                        word.push(char);
                    }
                    in_code = !in_code;
                }
                _ if in_code => {}
                '(' if before == ']' => in_address = true,
                ')' if in_address => in_address = false,
                _ if in_address => {}
                _ if char.is_whitespace() => end(&mut word),
                _ => word.push(char),
            }
            before = char;
        }
        end(&mut word);
    }
    words
}

/// Divides words into sentences.
fn split(words: Vec<Word>) -> Vec<Vec<Word>> {
    let mut sentences = vec![Vec::new()];
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let ends = words.peek().is_some_and(|next| ends_sentence(&word.text) && begins(&next.text));
        if let Some(sentence) = sentences.last_mut() {
            sentence.push(word);
        }
        if ends {
            sentences.push(Vec::new());
        }
    }
    sentences
}

fn ends_sentence(word: &str) -> bool {
    let word = word.trim_end_matches([')', '"', '*', '_', ']', '”']);
    word.ends_with(['.', '?', '!']) && !["e.g.", "i.e.", "cf.", "vs."].contains(&word)
}

fn begins(word: &str) -> bool {
    let word = word.trim_start_matches(['(', '"', '*', '_', '[', '“']);
    word.starts_with(|char: char| char.is_uppercase() || char.is_numeric() || char == '`')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each sentence in a line, its words joined.
    fn of(page: &str) -> Vec<String> {
        let sentences = sentences(page);
        sentences.iter().map(|words| joined(words)).collect()
    }

    fn joined(words: &[Word]) -> String {
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        texts.join(" ")
    }

    #[test]
    fn a_sentence_ends_before_a_capital_a_figure_or_code() {
        assert_eq!(
            of("One is\nhere. Two (more.) `Three` is. 4 of 6.1 kernels, e.g. Linux, i.e. one."),
            ["One is here.", "Two (more.)", "` is.", "4 of 6.1 kernels, e.g. Linux, i.e. one."]
        );
    }

    #[test]
    fn headings_items_and_cells_are_sentences_of_their_own() {
        let page =
            "# Head\nText\n- one\n  more\n2. two\n| a | `b|c` d \\| e |\n|---|---:|\n| 1. | |\n";
        assert_eq!(of(page), ["Head", "Text", "one more", "two", "a", "` d \\| e", "1."]);
    }

    #[test]
    fn code_comments_and_addresses_are_no_prose() {
        let page = "A `b c\nd` e\n\n```sh\nnot this\n```\n<!-- nor\nthis -->\n[to go](a/b.md) on\n\n    \
                    nor this\n    nor this\n";
        assert_eq!(of(page), ["A ` e", "[to go] on"]);
    }

    #[test]
    fn a_word_has_the_line_on_which_it_stands() {
        let lines: Vec<usize> =
            sentences("a\nb c\n\n| d |")[0].iter().map(|word| word.line).collect();
        assert_eq!(lines, [1, 2, 2]);
    }

    #[test]
    fn comments_of_rust_and_c_are_read_without_code_and_examples() {
        let rust = "//! One\n//! two `not`.\nlet a = \"// no\"; // three\n\n/// ```\n/// no\n/// ```\n/// four\nfn a() {}\n";
        let found: Vec<String> = comments(rust).iter().map(|words| joined(words)).collect();
        assert_eq!(found, ["One two `. three", "four"]);
        let c = "/* One */\nint a;\n/*\n * two\n * three\n */\nint b; /* four */\n";
        let found: Vec<String> = comments(c).iter().map(|words| joined(words)).collect();
        assert_eq!(found, ["One", "two three four"]);
    }
}
