//! Lines on a page: labels, wrapping, width.

use std::io::{self, Write};

use sockscope_analysis::Uncertainty;
use sockscope_render::number;
use sockscope_render::style::{Style, Tone};

use crate::Options;

/// Words of a page as a value, for pages that are no text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Labelled {
    /// Empty where the words stand alone.
    pub(crate) label: String,
    /// In one line, without hidden characters.
    pub(crate) text: String,
    pub(crate) tone: Tone,
    /// Whether it is to be copied as it is.
    pub(crate) is_command: bool,
}

/// Columns of the label that opens a line, and of the indent below it.
pub(crate) const INDENT: usize = 9;

/// A page of text of some width and style.
pub(crate) struct Page<'o> {
    out: &'o mut dyn Write,
    pub(crate) style: Style,
    pub(crate) width: usize,
    lines: usize,
    /// Takes the words in the place of `out`.
    collected: Option<Vec<Labelled>>,
}

impl<'o> Page<'o> {
    pub(crate) fn new(out: &'o mut dyn Write, options: &Options) -> Self {
        Self {
            out,
            style: Style { charset: options.charset, color: options.color },
            width: options.width.clamp(Options::WIDTH_MIN, Options::WIDTH_MAX),
            lines: 0,
            collected: None,
        }
    }

    /// The words that `write` writes, and its result. Nothing is wrapped.
    pub(crate) fn collect<T>(
        options: &Options,
        write: impl FnOnce(&mut Page<'_>) -> io::Result<T>,
    ) -> io::Result<(Vec<Labelled>, T)> {
        let mut nowhere = io::sink();
        let options = Options { color: false, ..options.clone() };
        let mut page = Page::new(&mut nowhere, &options);
        page.collected = Some(Vec::new());
        let result = write(&mut page)?;
        Ok((page.collected.unwrap_or_default(), result))
    }

    /// Whether the words are collected, and are so now.
    fn is_collected(&mut self, label: &str, text: &str, tone: Tone, is_command: bool) -> bool {
        let text = self.style.clean(text.trim());
        let Some(collected) = &mut self.collected else { return false };
        let label = label.trim().trim_end_matches(':').to_owned();
        if !text.is_empty() {
            collected.push(Labelled { label, text, tone, is_command });
        }
        true
    }

    /// Lines that it has.
    pub(crate) fn lines(&self) -> usize {
        self.lines
    }

    /// Adds the text of another page, which has this number of lines.
    pub(crate) fn append(&mut self, text: &[u8], lines: usize) -> io::Result<()> {
        self.lines += lines;
        self.out.write_all(text)
    }

    /// One line as it is; spaces at its end are dropped.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        if self.is_collected("", text, Tone::Plain, false) {
            return Ok(());
        }
        self.lines += 1;
        writeln!(self.out, "{}", text.trim_end())
    }

    pub(crate) fn blank(&mut self) -> io::Result<()> {
        self.line("")
    }

    /// `text` wrapped between words, after `label` in the indent.
    pub(crate) fn labelled(&mut self, label: &str, text: &str, tone: Tone) -> io::Result<()> {
        self.wrapped(&format!("{label:<INDENT$}"), INDENT, text, tone)
    }

    /// A command behind its label, in one line of any length, so that it can be copied.
    pub(crate) fn command(&mut self, label: &str, command: &str) -> io::Result<()> {
        if self.is_collected(label, command, Tone::Plain, true) {
            return Ok(());
        }
        self.line(&format!("{label:<INDENT$}{}", self.style.clean(command)))
    }

    /// Whether `text` fits in one line behind a label.
    pub(crate) fn fits(&self, text: &str) -> bool {
        INDENT + columns(&self.style.clean(text)) <= self.width
    }

    /// `text` wrapped between words, after `first` and then after `indent` spaces.
    pub(crate) fn wrapped(
        &mut self,
        first: &str,
        indent: usize,
        text: &str,
        tone: Tone,
    ) -> io::Result<()> {
        if self.is_collected(first, text, tone, false) {
            return Ok(());
        }
        let room = self.width.saturating_sub(indent.max(columns(first)));
        let mut prefix = first.to_owned();
        for part in wrap(&self.style.clean(text), room) {
            let painted = self.style.paint(&part, tone);
            self.line(&format!("{prefix}{painted}"))?;
            prefix = " ".repeat(indent);
        }
        Ok(())
    }

    /// A heading, drawn out to the page's width.
    pub(crate) fn rule(&mut self, heading: &str) -> io::Result<()> {
        let heading = self.style.clean(heading);
        let rule = self.style.glyphs().rule;
        let fill = self.width.saturating_sub(columns(&heading) + 4);
        let painted = self.style.paint(&heading, Tone::Strong);
        self.line(&format!("{rule}{rule} {painted} {}", rule.to_string().repeat(fill)))
    }

    pub(crate) fn time(&self, ns: u64) -> String {
        number::time(ns, self.style.charset)
    }

    /// As `±0.4 ms`.
    pub(crate) fn uncertainty(&self, uncertainty: Uncertainty) -> String {
        let time = match uncertainty {
            Uncertainty::AtMost(ns) => self.time(ns),
            Uncertainty::Unknown => "?".to_owned(),
        };
        format!("{}{time}", self.style.glyphs().plus_minus)
    }

    /// A mean time; unknown when it is no number.
    pub(crate) fn mean_time(&self, ns: f64) -> String {
        number::rounded(ns).map_or("?".to_owned(), |ns| self.time(ns))
    }

    /// A figure in a narrow column, marked where it is a lower bound.
    pub(crate) fn bound(&self, figure: String, is_lower_bound: bool) -> String {
        let [before, behind] = self.style.glyphs().at_least;
        match is_lower_bound {
            true => format!("{before}{}{behind}", figure.replace(' ', "")),
            false => figure,
        }
    }

    pub(crate) fn arrow(&self) -> &'static str {
        self.style.glyphs().arrow_right
    }

    pub(crate) fn clean(&self, text: &str) -> String {
        self.style.clean(text)
    }
}

/// Lines of a list that are shown, `most` and then one with the number of the others. That one takes as much room as a
/// single other line.
pub(crate) fn shown(lines: usize, most: usize) -> usize {
    if lines == most + 1 { lines } else { lines.min(most) }
}

/// Width of `text` on the terminal, one column a character. Process names and findings are the
/// only foreign text; a wide character in them costs alignment and nothing else.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().count()
}

/// `text` in lines of at most `room` columns; a longer word has a line of its own. A number stays
/// with its unit. Returns at least one line.
fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words(text) {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if line.is_empty() {
            line.push_str(&word);
        } else if columns(line) + 1 + columns(&word) <= room {
            line.push(' ');
            line.push_str(&word);
        } else {
            lines.push(word);
        }
    }
    lines
}

/// The words of `text`, a unit joined to the number before it.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        match words.last_mut() {
            Some(last) if is_unit(word) && last.ends_with(|it: char| it.is_ascii_digit()) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

fn is_unit(word: &str) -> bool {
    const UNITS: [&str; 19] = [
        "ns",
        "µs",
        "us",
        "ms",
        "s",
        "d",
        "B",
        "KiB",
        "MiB",
        "GiB",
        "TiB",
        "%",
        "bytes",
        "times",
        "records",
        "segment",
        "segments",
        "datagram",
        "datagrams",
    ];
    UNITS.contains(&word.trim_end_matches([',', ';', '.', ':', ')']))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn long_text_breaks_between_words() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("a incomprehensibilities b", 8), ["a", "incomprehensibilities", "b"]);
        assert_eq!(wrap("", 8), [""]);
    }

    #[test]
    fn a_number_stays_with_its_unit() {
        assert_eq!(
            wrap("p90 130 µs, p99 148 µs; all", 9),
            ["p90", "130 µs,", "p99", "148 µs;", "all"]
        );
        assert_eq!(wrap("it was s o", 7), ["it was", "s o"]);
    }

    proptest! {
        #[test]
        fn wrapping_loses_no_word(words in prop::collection::vec("[a-z]{1,12}", 1..40), room in 1usize..60) {
            let lines = wrap(&words.join(" "), room);
            prop_assert_eq!(lines.join(" "), words.join(" "));
            prop_assert!(lines.iter().all(|line| columns(line) <= room || !line.contains(' ')));
        }
    }
}
