//! The result of `sockscope try` as text.

use std::io::Write;

use sockscope_analysis::{Analysis, Distribution};
use sockscope_probe::{Fix, FixKind, Outcome, Sides};
use sockscope_program::failure::Failure;
use sockscope_render::number::{count, counted, rate, time};
use sockscope_report::{
    Compared, Comparison, Options, Origin, Report, change_to_replay, write_compare, write_labelled,
    write_verdict,
};

use super::difference::{Difference, SHARE_MIN, median};
use super::round::{self, Override};
use super::rounds::{Figure, Trial};
use crate::command;
use crate::terminal::{self, Target};

/// With fewer rounds the interval has less than 95 % coverage: see [`Difference`].
const ROUNDS_MIN: usize = 8;

/// As `client`.
pub fn sides(sides: Sides) -> &'static str {
    match sides {
        Sides::Client => "client",
        Sides::Server => "server",
        Sides::Both => "client and the server",
    }
}

/// Writes verdicts, ledgers, distributions and the difference.
pub fn write(trial: &Trial<'_>, out: &mut dyn Write) -> Result<(), Failure> {
    let options = terminal::options(Target::Stdout, trial.arguments.color);
    let options = Options { full: false, ..options };
    writeln!(out, "{}", named_command(trial))?;
    for (label, text) in head(trial) {
        write_labelled(label, &text, &options, out)?;
    }
    let before = trial.analysis(false)?;
    if let Some((analysis, origin)) = &before {
        writeln!(out, "\nwithout")?;
        write_verdict(&report(analysis, origin, &options), out)?;
    }
    if trial.fixes.is_empty() {
        return Ok(writeln!(out, "\nresult   {}", result(trial, &options))?);
    }
    let after = trial.analysis(true)?;
    if let Some((analysis, origin)) = &after {
        writeln!(out, "\nwith {}", trial.named())?;
        write_verdict(&report(analysis, origin, &options), out)?;
    }
    if let (Some((before, _)), Some((after, _))) = (&before, &after) {
        writeln!(out, "\nthe round without the fix and the round with it that have the median\n")?;
        let runs = [
            Compared { name: "without", rounds: &[before] },
            Compared { name: "with", rounds: &[after] },
        ];
        // The result is of all rounds. An interval of these two alone would be too narrow.
        write_compare(&Comparison::of(&runs).without_changes(), &options, out)?;
    }
    writeln!(out)?;
    for (label, text) in distributions(trial, &options) {
        write_labelled(label, &text, &options, out)?;
    }
    for note in notes(trial) {
        write_labelled("note", &note, &options, out)?;
    }
    Ok(write_labelled("result", &result(trial, &options), &options, out)?)
}

fn report<'a>(analysis: &'a Analysis, origin: &'a Origin, options: &'a Options) -> Report<'a> {
    Report { origin, analysis, options }
}

/// The command that is tried, in one line of any length.
fn named_command(trial: &Trial<'_>) -> String {
    let words: Vec<_> = trial.arguments.command.iter().map(|it| it.to_string_lossy()).collect();
    let command = words.join(" ");
    let command = sockscope_report::printable(&command);
    match trial.named().as_str() {
        "" => format!("sockscope try: {command}"),
        named => format!("sockscope try {named}: {command}"),
    }
}

/// Labels, each with its text.
type Lines = Vec<(&'static str, String)>;

fn head(trial: &Trial<'_>) -> Lines {
    let mut lines = Vec::new();
    if let Some(chosen) = &trial.chosen {
        for change in &chosen.changes {
            let text = format!(
                "{} has no socket option as its fix, the program must be changed. {}",
                change.id.name(),
                change.fix
            );
            lines.push(("program", text));
            if let Some(set) = change_to_replay(change) {
                let text = format!(
                    "sockscope replay DIR --set {set} shows that change, where DIR was recorded with --calls"
                );
                lines.push(("", text));
            }
        }
        // Without a finding the result says so.
        if let Some(finding) = &chosen.finding {
            lines.push(("why", format!("{}: {}", finding.id.name(), finding.summary)));
        }
    }
    if !trial.fixes.is_empty() {
        let rounds = trial.rounds.len();
        lines.push(("rounds", format!("{rounds}, without and with it in turns (ABBA)")));
        let total = |at: usize| {
            trial.rounds.iter().filter_map(|round| round.forced.sockets.get(at)).sum::<u32>()
        };
        let text = format!(
            "at the {}: {} sockets of the command, {} of its peers",
            sides(trial.sides),
            count(total(0).into()),
            count(total(1).into())
        );
        lines.push(("set", text));
    }
    lines
}

fn distributions(trial: &Trial<'_>, options: &Options) -> Lines {
    let mut lines = Vec::new();
    for with_fix in [false, true] {
        let kind = if with_fix { "with" } else { "without" };
        if let Some(times) = trial.exchanges(with_fix) {
            let Distribution { count: number, p50, p90, p99, max, .. } = times;
            let [p50, p90, p99, max] = [p50, p90, p99, max].map(|ns| time(ns, options.charset));
            let exchanges = count(number);
            let text = format!("{exchanges} exchanges: p50 {p50}, p90 {p90}, p99 {p99}, max {max}");
            lines.push((kind, text));
        }
        let mut rates = trial.figures(Figure::Throughput, with_fix);
        rates.sort_unstable_by(f64::total_cmp);
        if let [low, .., high] = rates.as_slice()
            && let Some(median) = median(&rates)
        {
            let [low, median, high] = [*low, median, *high].map(rate);
            lines.push((kind, format!("throughput {low} to {high} a round, median {median}")));
        }
    }
    for figure in [Figure::Exchanges, Figure::Throughput] {
        if let Some(difference) = trial.difference(figure) {
            lines.push(("change", interval(figure, &difference, options)));
        }
    }
    lines
}

fn interval(figure: Figure, difference: &Difference, options: &Options) -> String {
    let signed = |value: f64| {
        let sign = if value < 0.0 { "-" } else { "+" };
        match figure {
            Figure::Exchanges => format!("{sign}{}", time(value.abs() as u64, options.charset)),
            Figure::Throughput => format!("{sign}{}", rate(value.abs())),
        }
    };
    let Difference { difference, low, high, coverage, .. } = *difference;
    format!(
        "{} {}, between {} and {} ({:.0} % interval)",
        figure.name(),
        signed(difference),
        signed(low),
        signed(high),
        (coverage * 100.0).floor()
    )
}

/// The answer in one line.
pub fn result(trial: &Trial<'_>, options: &Options) -> String {
    if trial.fixes.is_empty() {
        return "no finding of this run has a fix that try can set".to_owned();
    }
    let outcomes = trial.outcomes();
    if outcomes.iter().all(|outcome| outcome.attempts == 0) {
        return "nothing was changed: no TCP connection in the scope opened in the rounds with the fix".to_owned();
    }
    if outcomes.iter().all(|outcome| outcome.accepted == 0) {
        return "nothing was changed: the kernel refused the fix on each socket".to_owned();
    }
    let figure = trial.figure();
    let Some(difference) = trial.difference(figure) else {
        return "the rounds have no traffic to compare".to_owned();
    };
    let first = judged(trial, figure, &difference, options);
    let other = figure.other();
    let second = trial.difference(other);
    let also = second.as_ref().and_then(|it| also(other, it, &difference, options));
    let has_medians = difference.is_shown || second.is_some_and(|second| second.is_shown);
    format!(
        "{first}{}{}",
        also.map(|also| format!("; {also}")).unwrap_or_default(),
        if has_medians { " (medians)" } else { "" }
    )
}

/// The sentence on the figure by which rounds are compared.
fn judged(trial: &Trial<'_>, figure: Figure, difference: &Difference, options: &Options) -> String {
    let named = trial.named();
    if difference.is_shown {
        let verb = if is_better(figure, difference) { "helps" } else { "makes it worse" };
        let subject = match figure {
            Figure::Exchanges => "exchanges take",
            Figure::Throughput => "throughput is",
        };
        return format!("{named} {verb}: {subject} {}", medians(figure, difference, options));
    }
    let why = match trial.rounds.len() {
        rounds @ ..ROUNDS_MIN => format!(" ({rounds} rounds are too few: --rounds {ROUNDS_MIN})"),
        _ if difference.is_of_too_few() => " (too few rounds have it)".to_owned(),
        _ if difference.excludes_zero() => format!(" (it differs by less than {})", share_min()),
        _ => String::new(),
    };
    format!(
        "no difference that the rounds can show in the {} between without and with {named}{why}",
        figure.name()
    )
}

/// The clause on the other figure, where its interval shows a difference or `first` shows none and it leaves 0 out.
fn also(
    figure: Figure,
    difference: &Difference,
    first: &Difference,
    options: &Options,
) -> Option<String> {
    let (subject, gets, differs) = match figure {
        Figure::Exchanges => ("exchanges", "get", "differ"),
        Figure::Throughput => ("throughput", "gets", "differs"),
    };
    if difference.is_shown {
        let is_better = is_better(figure, difference);
        let agrees = first.is_shown && is_better == self::is_better(figure.other(), first);
        return Some(format!(
            "{}{subject} {gets} {}: {}",
            if agrees { "" } else { "but " },
            if is_better { "better" } else { "worse" },
            medians(figure, difference, options)
        ));
    }
    if first.is_shown || !difference.excludes_zero() {
        return None;
    }
    Some(match difference.is_of_too_few() {
        true => format!("{subject} {differs} in these rounds, which may be chance"),
        false => format!("{subject} {differs} by less than {}", share_min()),
    })
}

fn is_better(figure: Figure, difference: &Difference) -> bool {
    (figure == Figure::Exchanges) == (difference.difference < 0.0)
}

fn medians(figure: Figure, difference: &Difference, options: &Options) -> String {
    let show = |value: f64| match figure {
        Figure::Exchanges => time(value as u64, options.charset),
        Figure::Throughput => rate(value),
    };
    let (with, without) = (show(difference.with), show(difference.without));
    format!("{with} with it, {without} without it")
}

fn share_min() -> String {
    format!("{:.0} %", SHARE_MIN * 100.0)
}

/// Limits of the result, one line each.
pub fn notes(trial: &Trial<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for (fix, outcome) in trial.fixes.iter().zip(trial.outcomes()) {
        lines.extend(refusal(fix, &outcome));
        lines.extend(clipped(fix, &outcome));
    }
    for peer in trial.peers() {
        let named = trial.named_accepted();
        lines.push(format!("{named} was also set on sockets of a peer: {peer}"));
    }
    let of_processes: u32 =
        trial.rounds.iter().filter_map(|round| round.forced.sockets.get(2)).sum();
    if !trial.arguments.pid.is_empty() {
        lines.push(match of_processes {
            0 => "no socket was changed by --pid".to_owned(),
            sockets => {
                let sockets = counted(u64::from(sockets), "socket");
                format!("{} was set on {sockets} by --pid", trial.named_accepted())
            }
        });
    }
    let unlisted: u32 = trial.rounds.iter().map(|round| round.forced.unlisted).sum();
    if unlisted > 0 {
        lines.push(format!(
            "the other ends of {} connections were not changed: there is no place for more",
            count(unlisted.into())
        ));
    }
    for one in overrides(trial) {
        lines.push(overridden(trial, &one));
    }
    for (round, number) in trial.rounds.iter().zip(1..) {
        if round.missed > 0 {
            lines.push(format!(
                "round {number} missed {}: some of its exchanges and findings may not be known",
                counted(round.missed, "record")
            ));
        }
        if !round.status.success() {
            lines.push(format!(
                "the command of round {number} ended with {}",
                command::ending(round.status)
            ));
        }
    }
    lines
}

/// The overrides of all rounds together.
pub fn overrides(trial: &Trial<'_>) -> Vec<Override> {
    let mut all: Vec<Override> = Vec::new();
    for one in trial.rounds.iter().flat_map(|round| &round.overrides) {
        round::add(&mut all, one);
    }
    all
}

fn overridden(trial: &Trial<'_>, one: &Override) -> String {
    let Some(fix) = trial.fixes.get(one.fix) else { return String::new() };
    let to = match fix.kind {
        FixKind::Cc => "another algorithm".to_owned(),
        _ => one.asked.to_string(),
    };
    format!(
        "the program set {} itself later, to {to}, on {}: there {fix} was in effect only until then",
        one.option,
        counted(one.sockets, "socket")
    )
}

/// Option, errno and who refused.
pub fn refusal(fix: &Fix, outcome: &Outcome) -> Option<String> {
    let advice = match fix.kind {
        FixKind::Delack | FixKind::RtoMin => {
            "; it takes two timer ticks at least and 200 ms at most"
        }
        FixKind::Cc => "; it takes what net.ipv4.tcp_available_congestion_control has",
        _ => "",
    };
    (outcome.refused > 0).then(|| {
        format!(
            "{fix}: the kernel refused {} on {} of {} sockets ({}){advice}",
            fix.kind.option_name(),
            outcome.refused,
            outcome.attempts,
            outcome.reason()
        )
    })
}

/// The kernel doubles the size of a buffer (socket(7)), and keeps it within a limit.
fn clipped(fix: &Fix, outcome: &Outcome) -> Option<String> {
    let limit = match fix.kind {
        FixKind::Sndbuf => "net.core.wmem_max",
        FixKind::Rcvbuf => "net.core.rmem_max",
        _ => return None,
    };
    let granted = u64::from(outcome.granted?);
    (granted < 2 * u64::from(fix.value)).then(|| {
        format!("{fix}: the kernel granted {} bytes, as {limit} limits it", count(granted / 2))
    })
}

#[cfg(test)]
mod tests;
