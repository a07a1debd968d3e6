//! The comparison for people: a column a run, and of two runs the difference.

use std::io;

use sockscope_analysis::{Distribution, LedgerPart};
use sockscope_record::{Direction, Protocol};
use sockscope_render::number::{apportion, bound, count, counted, percent, rate, rounded};
use sockscope_render::style::Tone;

use super::change::{Change, Difference, VALUES_MIN};
use super::comparison::{
    Comparison, Presence, direction, finding, findings, has_exchanges, per_exchange_ns,
};
use super::group::Group;
use super::matching::{MatchedBy, Row};
use super::role::Role;
use crate::order::place_name;
use crate::text::bar::{bar, of_ledger};
use crate::text::page::{Page, columns};
use crate::{Options, ReportError};

/// Columns of the row labels: the longest name of a finding, indented.
const LABEL: usize = 26;

/// Columns of each of two runs, and of each of more.
const SIDE: usize = 25;
const COLUMN: usize = 18;

/// Columns of a figure of the later of two runs, behind which the difference stands.
const FIGURE: usize = 18;

/// A place is shown when it has this share in a run, in tenths of a percent.
const SHOWN_MIN: u64 = 10;

/// Writes the comparison as text.
///
/// # Errors
///
/// [`ReportError::Write`] when `out` fails.
pub fn write_compare(
    comparison: &Comparison,
    options: &Options,
    out: &mut dyn io::Write,
) -> Result<(), ReportError> {
    let mut page = Page::new(out, options);
    write_head(comparison, &mut page)?;
    let both = comparison.rows.iter().filter(|row| row.is_in_all());
    for row in both.clone().take(options.detailed) {
        page.blank()?;
        RowPage { comparison, row, direction: direction(row) }.write(&mut page)?;
    }
    let further = both.count().saturating_sub(options.detailed) as u64;
    if further > 0 {
        page.blank()?;
        let roles = counted(further, "further role");
        page.labelled(
            "more",
            &format!("{roles} in all runs: --format json has them"),
            Tone::Plain,
        )?;
    }
    Ok(write_alone(comparison, options, &mut page)?)
}

fn write_head(comparison: &Comparison, page: &mut Page<'_>) -> io::Result<()> {
    for (index, run) in comparison.runs.iter().enumerate() {
        let rounds = match run.rounds {
            1 => String::new(),
            rounds => format!("{}, ", counted(rounds, "round")),
        };
        let missed = match (run.missed, run.is_unfinished) {
            (0, false) => "no records missed".to_owned(),
            (0, true) => {
                "the trace has no end mark: how many records were missed is unknown".to_owned()
            }
            (missed, _) => format!("{} missed", counted(missed, "record")),
        };
        let connections = counted(run.connections, "connection");
        let text = format!(
            "{}: {rounds}{connections}, {}; {missed}",
            run.name,
            page.time(run.duration_ns)
        );
        page.labelled(if index == 0 { "compare" } else { "with" }, &text, Tone::Plain)?;
    }
    Ok(())
}

/// The roles that some runs do not have.
fn write_alone(comparison: &Comparison, options: &Options, page: &mut Page<'_>) -> io::Result<()> {
    let alone: Vec<&Row> = comparison.rows.iter().filter(|row| !row.is_in_all()).collect();
    if alone.is_empty() {
        return Ok(());
    }
    page.blank()?;
    for (index, row) in alone.iter().take(options.listed).enumerate() {
        let having = comparison.runs.iter().zip(&row.groups).filter(|(_, group)| group.is_some());
        let names: Vec<&str> = having.map(|(run, _)| run.name.as_str()).collect();
        let connections = row.groups().map(|group| group.connections).sum();
        let role = row.role().map(|role| in_words(role, page)).unwrap_or_default();
        let text =
            format!("{role}, {}: in {}", counted(connections, "connection"), names.join(", "));
        page.labelled(if index == 0 { "only" } else { "" }, &text, Tone::Plain)?;
    }
    match alone.len().saturating_sub(options.listed) {
        0 => Ok(()),
        more => {
            page.labelled("", &format!("and {} more", counted(more as u64, "role")), Tone::Plain)
        }
    }
}

/// As `python3 → redis-server:6379, tcp`.
fn in_words(role: &Role, page: &Page<'_>) -> String {
    let named = |name: &str| if name.is_empty() { "?".to_owned() } else { name.to_owned() };
    let port = role.server_port.map(|port| format!(":{port}")).unwrap_or_default();
    let (client, server) = (named(&role.client), named(&role.server));
    format!("{client} {} {server}{port}, {}", page.arrow(), role.protocol.name())
}

/// One role that all runs have.
struct RowPage<'a> {
    comparison: &'a Comparison,
    row: &'a Row,
    direction: Direction,
}

impl RowPage<'_> {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        let role = self.row.role().map(|role| in_words(role, page)).unwrap_or_default();
        page.rule(&role)?;
        self.write_match(page)?;
        if self.comparison.has_changes {
            self.write_changes(page)?;
        }
        // The first run stands in each block of columns, as the others are compared with it.
        let room = page.width.saturating_sub(LABEL) / COLUMN;
        let later: Vec<usize> = (1..self.groups().len()).collect();
        for block in later.chunks(room.saturating_sub(1).max(1)) {
            let runs: Vec<usize> = [0].into_iter().chain(block.iter().copied()).collect();
            page.blank()?;
            self.write_block(&runs, page)?;
        }
        Ok(())
    }

    fn groups(&self) -> Vec<&Group> {
        self.row.groups().collect()
    }

    fn write_match(&self, page: &mut Page<'_>) -> io::Result<()> {
        let by = match self.row.matched_by {
            MatchedBy::Role => return Ok(()),
            MatchedBy::Port => "by the port of the server",
            MatchedBy::Processes => "by the processes",
            MatchedBy::OnlyRole => "as the only ones of each run",
        };
        let others = self.row.groups.iter().skip(1).flatten();
        let others: Vec<String> = others.map(|(role, _)| in_words(role, page)).collect();
        page.labelled("with", &format!("{}; matched {by}", others.join("; ")), Tone::Plain)
    }

    /// A sentence for each later run.
    fn write_changes(&self, page: &mut Page<'_>) -> io::Result<()> {
        for run in 1..self.row.groups.len() {
            let sentence = self.change_in_words(run, page);
            let text = match self.row.groups.len() {
                2 => sentence,
                _ => format!("{}: {sentence}", self.comparison.runs[run].name),
            };
            page.labelled(if run == 1 { "change" } else { "" }, &text, Tone::Strong)?;
        }
        Ok(())
    }

    fn change_in_words(&self, run: usize, page: &Page<'_>) -> String {
        let groups = self.groups();
        let (change, name, sizes): (_, _, [usize; 2]) = match has_exchanges(self.row) {
            true => {
                let sizes = [0, run].map(|run| groups[run].times_ns.len());
                (self.comparison.exchange_change(self.row, run), "exchange p50", sizes)
            }
            false => {
                let of = |run: usize| &groups[run].flows[self.direction as usize].throughputs;
                let change = self.comparison.throughput_change(self.row, run, self.direction);
                (change, "throughput", [0, run].map(|run| of(run).len()))
            }
        };
        let is_time = has_exchanges(self.row);
        let amount = |value: u64| if is_time { page.time(value) } else { rate(value as f64) };
        let signed = |value: i64| {
            let word = match (is_time, value < 0) {
                (true, true) => "shorter",
                (true, false) => "longer",
                (false, true) => "lower",
                (false, false) => "higher",
            };
            format!("{} {word}", amount(value.unsigned_abs()))
        };
        let between =
            |it: Difference| format!("between {} and {}", signed(it.low), signed(it.high));
        let of = if is_time { "exchange" } else { "connection" };
        match change {
            Change::Same => format!("no difference: {name} and all other values are the same"),
            Change::Shown(it) => {
                format!("{name} is {} (95 %: {})", signed(it.value), between(it))
            }
            Change::NotShown(it) => {
                format!("{name}: no difference that these runs can show (95 %: {})", between(it))
            }
            Change::TooFew(value) => {
                let fewer = sizes[0].min(sizes[1]) as u64;
                format!(
                    "{name} is {} in {}, which may be chance: an interval needs {VALUES_MIN}",
                    signed(value),
                    counted(fewer, of)
                )
            }
            Change::Unknown if sizes.contains(&0) => {
                format!("{name} is unknown: no {of} of a run shows it")
            }
            Change::Unknown => format!(
                "{name}: whether it differs is unknown, as records were missed; the figures are of each {of} that \
                 was recorded whole"
            ),
        }
    }

    fn write_block(&self, runs: &[usize], page: &mut Page<'_>) -> io::Result<()> {
        let block = Block { row: self, runs };
        let names = block.cells(|run| page.clean(&self.comparison.runs[run].name));
        let names: Vec<_> = names.iter().map(|name| fitted(name, block.width() - 2)).collect();
        block.write("", &names, "", Tone::Strong, page)?;
        block.write_times(page)?;
        block.write_rates(page)?;
        block.write_ledger(page)?;
        block.write_findings(page)
    }
}

/// Some runs of a row, in columns.
struct Block<'a> {
    row: &'a RowPage<'a>,
    runs: &'a [usize],
}

impl Block<'_> {
    /// Columns of a run.
    fn width(&self) -> usize {
        if self.runs.len() == 2 { SIDE } else { COLUMN }
    }

    fn cells<T>(&self, of: impl FnMut(usize) -> T) -> Vec<T> {
        self.runs.iter().copied().map(of).collect()
    }

    fn groups(&self) -> Vec<&Group> {
        let all = self.row.groups();
        self.cells(|run| all[run])
    }

    /// The difference, where there are two columns and both values are known.
    fn difference<T: Copy>(&self, values: &[Option<T>], words: impl Fn(T, T) -> String) -> String {
        match values {
            &[Some(first), Some(later)] => words(first, later),
            _ => String::new(),
        }
    }

    fn write_times(&self, page: &mut Page<'_>) -> io::Result<()> {
        let groups = self.groups();
        let connections: Vec<_> = groups.iter().map(|group| count(group.connections)).collect();
        self.write("connections", &connections, "", Tone::Plain, page)?;
        if !has_exchanges(self.row.row) {
            return Ok(());
        }
        let exchanges: Vec<_> = groups.iter().map(|group| group.exchanges()).collect();
        let counts = groups.iter().map(|group| {
            let exchanges = count(group.times_ns.len() as u64);
            bound(exchanges, group.left_out > 0)
        });
        self.write("exchanges", &counts.collect::<Vec<_>>(), "", Tone::Plain, page)?;
        type Pick = fn(&Distribution) -> u64;
        let rows: [(&str, Pick); 4] = [
            ("exchange p50", |times| times.p50),
            ("exchange p90", |times| times.p90),
            ("exchange p99", |times| times.p99),
            ("exchange max", |times| times.max),
        ];
        for (name, pick) in rows {
            let ns: Vec<_> = exchanges.iter().map(|times| times.as_ref().map(pick)).collect();
            let texts: Vec<_> =
                ns.iter().map(|ns| ns.map_or_else(unknown, |ns| page.time(ns))).collect();
            let change =
                self.difference(&ns, |first, later| factor(later as f64, first as f64, page));
            self.write(name, &texts, &change, Tone::Plain, page)?;
        }
        Ok(())
    }

    fn write_rates(&self, page: &mut Page<'_>) -> io::Result<()> {
        let flows =
            self.groups().into_iter().map(|group| &group.flows[self.row.direction as usize]);
        let flows: Vec<_> = flows.collect();
        let medians: Vec<_> = flows
            .iter()
            .map(|flow| sockscope_record::statistics::percentile(&flow.throughputs, 50))
            .collect();
        let are_exact = flows.iter().all(|flow| !flow.throughput_is_lower_bound);
        let texts = flows.iter().zip(&medians).map(|(flow, median)| {
            let rate = median.map(|median| rate(median as f64));
            rate.map_or_else(unknown, |rate| bound(rate, flow.throughput_is_lower_bound))
        });
        let change = match are_exact {
            true => {
                self.difference(&medians, |first, later| factor(first as f64, later as f64, page))
            }
            false => String::new(),
        };
        let is_one = self.groups().iter().all(|group| group.connections == 1);
        let name = if is_one { "throughput" } else { "throughput p50" };
        self.write(name, &texts.collect::<Vec<_>>(), &change, Tone::Plain, page)
    }

    /// The bars of two runs, then each place that has 1 % or more in one of the runs.
    fn write_ledger(&self, page: &mut Page<'_>) -> io::Result<()> {
        let direction = self.row.direction;
        let groups = self.groups();
        let ledgers: Vec<_> =
            groups.iter().map(|group| &group.flows[direction as usize].ledger).collect();
        page.blank()?;
        let is_udp = self.row.row.role().is_some_and(|role| role.protocol == Protocol::Udp);
        if let [first, later] = ledgers[..] {
            // Bars may hold colour codes, which have no width: they are padded by hand.
            let bars = [first, later].map(|it| bar(&of_ledger(it, is_udp), SIDE - 2, page));
            page.line(&format!("{:<LABEL$}{}  {}", "oldest unread byte", bars[0], bars[1]))?;
        } else {
            page.line("oldest unread byte")?;
        }
        let per_exchange = |part| {
            let ns: Vec<_> = groups.iter().map(|it| per_exchange_ns(it, direction, part)).collect();
            ns.iter().all(Option::is_some).then_some(ns)
        };
        // No record shows any time, and some were missed.
        let is_unseen = |run: usize| {
            ledgers[run].total_ns() == 0 && !self.row.comparison.runs[self.runs[run]].is_whole()
        };
        let shares: Vec<_> = ledgers.iter().map(|ledger| apportion(&ledger.ns, 1000)).collect();
        let has_time = per_exchange(LedgerPart::AppIdle).is_some();
        page.line(if has_time { "  share, time an exchange" } else { "  share, time in all" })?;
        for (index, part) in LedgerPart::ALL.into_iter().enumerate() {
            if shares.iter().all(|tenths| tenths[index] < SHOWN_MIN) {
                continue;
            }
            let name = format!("  {}", place_name(part.name(), is_udp));
            let each = per_exchange(part);
            let in_all = || ledgers.iter().map(|ledger| Some(ledger.ns[index])).collect();
            let ns = each.unwrap_or_else(in_all);
            let tenths: Vec<_> = (0..shares.len())
                .map(|run| (!is_unseen(run)).then(|| shares[run][index]))
                .collect();
            let texts = tenths.iter().zip(&ns).map(|(tenths, ns)| {
                let time = ns.filter(|_| tenths.is_some());
                let time = time.map_or_else(unknown, |ns| page.time(ns));
                format!("{:>7} {time:>9}", tenths.map_or_else(unknown, percent))
            });
            let change = match has_time {
                true => self.difference(&ns, |first, later| time_difference(first, later, page)),
                false => self.difference(&tenths, share_difference),
            };
            self.write(&name, &texts.collect::<Vec<_>>(), &change, Tone::Plain, page)?;
        }
        Ok(())
    }

    fn write_findings(&self, page: &mut Page<'_>) -> io::Result<()> {
        page.blank()?;
        let ids = findings(self.row.row);
        if ids.is_empty() {
            let texts = self.cells(|run| self.absent(run));
            return self.write("findings", &texts, "", Tone::Plain, page);
        }
        page.line("findings")?;
        for id in ids {
            let texts = self.cells(|run| match finding(self.row.row, run, id) {
                None => self.absent(run),
                Some(it) => {
                    let cost =
                        if it.cost_ns == 0 { "no cost".to_owned() } else { page.time(it.cost_ns) };
                    format!("{}{}, {cost}", count(it.count), page.style.glyphs().times)
                }
            });
            let change = match *self.runs {
                [_, later] => match self.row.comparison.presence(self.row.row, later, id) {
                    Presence::Unknown => "",
                    presence => presence.name(),
                },
                _ => "",
            };
            self.write(&format!("  {}", id.name()), &texts, change, Tone::Plain, page)?;
        }
        Ok(())
    }

    /// A run without a finding, of which missed records may have had it.
    fn absent(&self, run: usize) -> String {
        let is_whole = self.row.comparison.runs[run].is_whole();
        if is_whole { "none".to_owned() } else { "none seen".to_owned() }
    }

    fn write(
        &self,
        label: &str,
        texts: &[String],
        change: &str,
        tone: Tone,
        page: &mut Page<'_>,
    ) -> io::Result<()> {
        let mut line = format!("{label:<LABEL$}");
        let last = texts.len().saturating_sub(1);
        for (index, text) in texts.iter().enumerate() {
            let width = if index < last { self.width() } else { FIGURE };
            let gap = width.saturating_sub(columns(text)).max(1);
            line += text;
            line += &" ".repeat(gap);
        }
        line += change;
        page.line(&page.style.paint(line.trim_end(), tone))
    }
}

fn unknown() -> String {
    "?".to_owned()
}

/// The end of a name that is too long: names differ there.
fn fitted(name: &str, room: usize) -> String {
    let over = columns(name).saturating_sub(room);
    match over {
        0 => name.to_owned(),
        _ => format!("..{}", name.chars().skip(over + 2).collect::<String>()),
    }
}

/// How many times as good as `worse` `better` is: `355×`. Empty where a ratio says nothing.
fn factor(worse: f64, better: f64, page: &Page<'_>) -> String {
    let ratio = better / worse;
    let times = page.style.glyphs().times;
    match ratio.is_finite() && ratio > 0.0 {
        true if ratio >= 9.95 => {
            rounded(ratio).map_or(String::new(), |it| count(it) + &times.to_string())
        }
        true if ratio >= 0.1 => format!("{ratio:.2}{times}"),
        // With two figures: `0.00×` is no factor.
        true => format!("{ratio:.*}{times}", (1.0 - ratio.log10().floor()) as usize),
        false => String::new(),
    }
}

fn time_difference(first: u64, later: u64, page: &Page<'_>) -> String {
    let sign = if later < first { '-' } else { '+' };
    format!("{sign}{}", page.time(later.abs_diff(first)))
}

/// In points of percent.
fn share_difference(first: u64, later: u64) -> String {
    let sign = if later < first { '-' } else { '+' };
    format!("{sign}{}", percent(later.abs_diff(first)))
}
