//! A row in columns: the same for text and for a terminal's screen.

use sockscope_analysis::FindingId;
use sockscope_record::{Hold, Protocol};
use sockscope_render::number::{size, time};
use sockscope_render::style::{Style, Tone};
use sockscope_report::ledger_bar;

use super::row::Row;

/// Columns of the numbers, each with the space in front of it.
const WAITED: usize = 8;
const SIZE: usize = 9;
const AGE: usize = 8;
const HOLD: usize = 11;
/// Fewer columns show no name of a finding.
const FINDING_MIN: usize = 18;
/// From so many columns on, the ends have the address of the server.
const ADDRESS_MIN: usize = 50;

/// A part of a line in one tone.
pub(super) type Part = (String, Tone);

/// Widths of the columns whose width is not fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Columns {
    ends: usize,
    bar: usize,
    finding: usize,
}

impl Columns {
    /// Columns that fill `width`; 80 are the fewest.
    pub fn of(width: usize) -> Self {
        let fixed = WAITED + 2 * SIZE + AGE + HOLD + 3;
        let rest = width.max(80) - fixed;
        let bar = (rest / 4).clamp(8, 40);
        let finding = (rest - bar) / 2;
        if finding < FINDING_MIN {
            return Self { ends: rest - bar, bar, finding: 0 };
        }
        // One column is the space in front of the finding.
        Self { ends: rest - bar - finding, bar, finding: finding - 1 }
    }

    /// The names of the columns.
    pub fn head(self) -> String {
        let Self { ends, bar, finding } = self;
        let (first, second) = ("send q", "recv q");
        let mut text = format!(
            "{:>WAITED$}  {:<ends$} {:<bar$}{first:>SIZE$}{second:>SIZE$}{:>AGE$}  {:<HOLD$}",
            "waited",
            "sender > receiver",
            "ledger",
            "oldest",
            "TCP holds",
            HOLD = HOLD - 2
        );
        if finding > 0 {
            text.push_str(&format!(" {:<finding$}", "finding"));
        }
        text.truncate(text.trim_end().len());
        text
    }

    /// The columns of one row.
    pub fn parts(self, row: &Row, style: Style) -> Vec<Part> {
        let charset = style.charset;
        let is_udp = row.connection.protocol == Protocol::Udp;
        let tone = if row.closed_ns.is_some() { Tone::Faint } else { Tone::Plain };
        let waited_tone = if row.waited_ns > 0 { Tone::Strong } else { tone };
        let waited = match row.waited_ns {
            0 => "-".to_owned(),
            ns => time(ns, charset),
        };
        let mut parts = vec![(format!("{waited:>WAITED$}  "), waited_tone)];
        let ends_tone = if self.finding == 0 { finding_tone(row, tone) } else { tone };
        parts.push((format!("{} ", fitted(&self.ends(row, style), self.ends)), ends_tone));
        let bar = ledger_bar(&row.ledger, is_udp, self.bar);
        let drawn: usize = bar.iter().map(|part| part.columns).sum();
        for part in bar {
            parts.push((part.letter.to_string().repeat(part.columns), part.tone));
        }
        let known = |bytes: Option<u64>| bytes.map_or("?".to_owned(), size);
        let oldest = row.oldest_ns.map_or("-".to_owned(), |ns| time(ns, charset));
        let hold = fitted(if row.hold == Hold::None { "-" } else { row.hold.name() }, HOLD - 2);
        parts.push((
            format!(
                "{:blank$}{:>SIZE$}{:>SIZE$}{oldest:>AGE$}  {hold}",
                "",
                known(row.send_queue_bytes),
                known(row.receive_queue_bytes),
                blank = self.bar.saturating_sub(drawn),
            ),
            tone,
        ));
        if self.finding > 0 {
            parts.push((
                format!(" {}", fitted(&findings(row), self.finding)),
                finding_tone(row, tone),
            ));
        }
        parts
    }

    fn ends(self, row: &Row, style: Style) -> String {
        let arrow = style.glyphs().arrow_right;
        let [sender, receiver] = row.ends();
        let whole = format!("{sender} {arrow} {receiver}");
        let text = if whole.chars().count() > self.ends {
            let [sender, receiver] = row.names();
            format!("{sender} {arrow} {receiver}")
        } else {
            whole
        };
        let server = row.connection.end(sockscope_record::Side::Server).to_string();
        let text = match self.ends >= ADDRESS_MIN && !text.contains(&server) {
            true => format!("{text}, server {server}"),
            false => text,
        };
        let [client, server] = &row.namespaces;
        let text = match (client, server) {
            (Some(client), Some(server)) if client != server => {
                format!("{text}, namespaces {client} and {server}")
            }
            (Some(name), _) | (None, Some(name)) => format!("{text}, namespace {name}"),
            (None, None) => text,
        };
        let text = match row.closed_ns {
            Some(_) => format!("{text}, closed"),
            None => text,
        };
        style.clean(&text)
    }
}

/// The findings of a row by name.
fn findings(row: &Row) -> String {
    let names: Vec<&str> = row.findings.iter().map(|finding| finding.id.name()).collect();
    names.join(" ")
}

/// A finding of the last refresh stands out.
fn finding_tone(row: &Row, other: Tone) -> Tone {
    if row.findings.iter().any(|finding| finding.is_new) { Tone::Bad } else { other }
}

/// The text in exactly so many columns.
pub(super) fn fitted(text: &str, width: usize) -> String {
    let mut kept: String = text.chars().take(width).collect();
    if text.chars().count() > width && width > 0 {
        kept.pop();
        kept.push('~');
    }
    format!("{kept:<width$}")
}

/// All findings of the rows: rule, connections that have it, cost.
pub(super) fn totals(rows: &[&Row]) -> Vec<(FindingId, usize, u64)> {
    let mut totals: Vec<(FindingId, usize, u64)> = Vec::new();
    for finding in rows.iter().flat_map(|row| &row.findings) {
        match totals.iter_mut().find(|(id, ..)| *id == finding.id) {
            Some((_, count, cost_ns)) => {
                *count += 1;
                *cost_ns = cost_ns.saturating_add(finding.cost_ns);
            }
            None => totals.push((finding.id, 1, finding.cost_ns)),
        }
    }
    totals.sort_by_key(|(id, _, cost_ns)| (std::cmp::Reverse(*cost_ns), *id));
    totals
}

#[cfg(test)]
mod tests {
    use sockscope_report::Charset;

    use super::*;
    use crate::top::testing::row;

    #[test]
    fn every_line_has_its_width() {
        let style = Style { charset: Charset::Ascii, color: false };
        for width in [80, 100, 120, 200] {
            let columns = Columns::of(width);
            let parts = columns.parts(&row(1), style);
            let line: usize = parts.iter().map(|(text, _)| text.chars().count()).sum();
            assert!(line <= width && line + 8 >= width, "{line} of {width}");
            assert!(columns.head().len() <= width);
        }
    }

    #[test]
    fn the_ends_have_the_names_of_their_network_namespaces() {
        let style = Style { charset: Charset::Ascii, color: false };
        let ends = |namespaces: [Option<&str>; 2]| {
            let namespaces = namespaces.map(|name| name.map(str::to_owned));
            Columns::of(250).ends(&Row { namespaces, ..row(1) }, style)
        };
        let plain = ends([None, None]);
        assert!(!plain.contains("namespace"), "{plain}");
        assert_eq!(ends([None, Some("shop")]), format!("{plain}, namespace shop"));
        assert_eq!(ends([Some("shop"); 2]), format!("{plain}, namespace shop"));
        assert_eq!(ends([Some("a"), Some("shop")]), format!("{plain}, namespaces a and shop"));
    }

    #[test]
    fn a_name_that_is_too_long_is_cut() {
        assert_eq!(fitted("abcdef", 4), "abc~");
        assert_eq!(fitted("ab", 4), "ab  ");
    }
}
