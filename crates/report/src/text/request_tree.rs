//! The slowest request that has others nested in it: a line each, below the request in which it is nested.

use std::io;

use sockscope_analysis::Certainty;
use sockscope_record::counted;
use sockscope_render::number::count;
use sockscope_render::style::{Charset, Tone};

use super::page::{Page, columns, shown};
use crate::Report;
use crate::request_tree::Branch;

/// Lines of the tree, at most.
const LINES_MAX: usize = 24;

/// An unclear time below one part in so many of the total is left out.
const SHARED_DIVISOR: u64 = 100;

/// Columns of a time.
const TIME_WIDTH: usize = 8;

/// Writes the tree where there is one.
pub(super) fn write(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let Some(slowest) = Branch::slowest(report) else { return Ok(()) };
    page.blank()?;
    let width = TIME_WIDTH;
    let head = format!(
        "{:>width$} {:>width$} {:>width$}  slowest request with nested ones, asked at {}",
        "total",
        "own",
        "transit",
        report.times().at(slowest.asked_ns),
    );
    let head = page.style.paint(&head, Tone::Faint);
    page.line(&head)?;
    let mut lines = Vec::new();
    add_lines(&slowest, 0, page, &mut lines);
    let shown = shown(lines.len(), LINES_MAX);
    for line in lines.iter().take(shown) {
        page.line(line)?;
    }
    let more = lines.len() - shown;
    if more > 0 {
        page.line(&format!("{} more servers (in JSON)", count(more as u64)))?;
    }
    Ok(())
}

fn add_lines(branch: &Branch<'_>, depth: usize, page: &Page<'_>, lines: &mut Vec<String>) {
    let time = |ns: Option<u64>| ns.map_or("?".to_owned(), |ns| page.time(ns));
    let own = time(branch.service.map(|service| service.own_ns));
    let transit = time(branch.transit_ns);
    let total = page.time(branch.total_ns);
    let figures = format!("{total:>TIME_WIDTH$} {own:>TIME_WIDTH$} {transit:>TIME_WIDTH$}");
    let sign = match page.style.charset {
        Charset::Unicode => "└ ",
        Charset::Ascii => "`- ",
    };
    let sign = if depth == 0 { "" } else { sign };
    let indent = " ".repeat(depth.saturating_sub(1) * 2);
    let room = page.width - columns(&figures) - 2 - columns(sign) - indent.len();
    let text = page.clean(&words(branch, page));
    let text = match columns(&text) <= room {
        true => text,
        false => text.chars().take(room - 2).chain("..".chars()).collect(),
    };
    lines.push(format!("{figures}  {indent}{sign}{text}"));
    for nested in &branch.nested {
        add_lines(nested, depth + 1, page, lines);
    }
}

/// As `postgres (pid 10) 3×, connection 3, by thread`.
fn words(branch: &Branch<'_>, page: &Page<'_>) -> String {
    let server = match branch.answerer() {
        Some(process) => format!("{} (pid {})", process.comm, process.pid),
        None => branch.connection.connection.end(sockscope_record::Side::Server).to_string(),
    };
    let asker = branch.asker().filter(|_| branch.certainty.is_none());
    let asker = asker.map(|process| format!("{} {} ", process.comm, page.arrow()));
    let connections = match branch.connections.len() {
        1 => format!("connection {}", branch.connection.connection.id.0),
        more => counted(more as u64, "connection"),
    };
    let times = match branch.count {
        1 => String::new(),
        more => format!(" {}{}", count(more), page.style.glyphs().times),
    };
    let nested = match branch.certainty {
        None => "",
        Some(Certainty::Thread) => ", by thread",
        Some(Certainty::Process) => ", by process",
    };
    let shared_ns = branch.service.map_or(0, |service| service.shared_ns);
    let shared = match shared_ns.saturating_mul(SHARED_DIVISOR) > branch.total_ns {
        false => String::new(),
        true => format!(", {} unclear", page.time(shared_ns)),
    };
    format!("{}{server}{times}, {connections}{nested}{shared}", asker.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use sockscope_render::style::Charset;

    use crate::fixture::{nested_calls, slow_calls, written};
    use crate::{Options, Text};

    fn tree(options: &Options) -> String {
        let text = written(&Text, &nested_calls(), options);
        let lines = text.lines().skip_while(|line| !line.contains("transit"));
        lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_call_through_a_proxy_and_a_service_is_a_tree() {
        insta::assert_snapshot!(tree(&Options::default()), @"
           total      own  transit  slowest request with nested ones, asked at +0.000000 s
          300 ms  2.00 ms  2.00 ms  curl → nginx (pid 8), connection 1
          296 ms  24.0 ms  2.00 ms  └ python3 (pid 9), connection 2, by thread
          270 ms   264 ms  6.00 ms    └ postgres (pid 10) 3×, connection 3, by thread
        ");
    }

    #[test]
    fn in_ascii_it_is_the_same_tree() {
        insta::assert_snapshot!(tree(&Options { charset: Charset::Ascii, ..Options::default() }), @"
           total      own  transit  slowest request with nested ones, asked at +0.000000 s
          300 ms  2.00 ms  2.00 ms  curl -> nginx (pid 8), connection 1
          296 ms  24.0 ms  2.00 ms  `- python3 (pid 9), connection 2, by thread
          270 ms   264 ms  6.00 ms    `- postgres (pid 10) 3x, connection 3, by thread
        ");
    }

    #[test]
    fn requests_without_nested_ones_have_none() {
        assert!(!written(&Text, &slow_calls(), &Options::default()).contains("transit"));
    }
}
