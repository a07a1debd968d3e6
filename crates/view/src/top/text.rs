//! The list as text, for `--once`.

use std::io;

use sockscope_render::number::{counted, time};
use sockscope_render::style::{Style, Tone};

use super::line::{Columns, totals};
use super::row::Row;

/// Writes the rows, in their order, in lines of `width` columns, then the findings with their sentences. The figures are
/// of the last `span_ns`.
///
/// # Errors
///
/// When `out` fails.
pub fn write_text(
    rows: &[&Row],
    span_ns: u64,
    width: usize,
    style: Style,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let span = time(span_ns, style.charset);
    writeln!(out, "{}, last {span}", counted(rows.len() as u64, "connection"))?;
    if rows.is_empty() {
        return Ok(());
    }
    let columns = Columns::of(width);
    writeln!(out, "{}", style.paint(&columns.head(), Tone::Faint))?;
    for row in rows {
        let mut line = String::new();
        for (text, tone) in columns.parts(row, style) {
            line.push_str(&style.paint(&text, tone));
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    let totals = totals(rows);
    if totals.is_empty() {
        return writeln!(out, "\nno finding");
    }
    writeln!(out)?;
    for (id, count, cost_ns) in totals {
        let has = |row: &&&Row| row.findings.iter().any(|finding| finding.id == id);
        let worst = rows.iter().filter(has).max_by_key(|row| {
            row.findings.iter().find(|finding| finding.id == id).map(|finding| finding.cost_ns)
        });
        let finding = worst.and_then(|row| row.findings.iter().find(|one| one.id == id));
        let name = style.paint(id.name(), Tone::Bad);
        let cost = time(cost_ns, style.charset);
        writeln!(out, "{name}: {cost} on {}", counted(count as u64, "connection"))?;
        if let (Some(row), Some(finding)) = (worst, finding) {
            let summary = style.clean(&finding.summary);
            writeln!(out, "  connection {}: {summary}", row.connection.id.0)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sockscope_report::Charset;

    use super::*;
    use crate::top::testing::{delayed, row};

    fn text(rows: &[Row], width: usize) -> String {
        let mut out = Vec::new();
        let style = Style { charset: Charset::Ascii, color: false };
        let rows: Vec<&Row> = rows.iter().collect();
        write_text(&rows, 10_000_000_000, width, style, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_list_in_80_columns() {
        let other = Row { findings: Vec::new(), oldest_ns: None, ..delayed(2, 0) };
        assert_eq!(
            text(&[row(1), other], 80),
            "\
2 connections, last 10.0 s
  waited  sender > receiver        ledger     send q   recv q  oldest  TCP holds
  440 ms  client(101) -> server(7) ....NNNw    300 B      0 B 30.0 ms  nagle
       -  client(102) -> server(7) ......ww    300 B      0 B       -  nagle

nagle-delayed-ack: 440 ms on 1 connection
  connection 1: 10 stalls of 44 ms
"
        );
    }

    #[test]
    fn without_a_connection_there_is_one_line() {
        assert_eq!(text(&[], 80), "0 connections, last 10.0 s\n");
    }
}
